//! Fitted models as a scenario file, which the simulator takes as it is.

use std::fmt::Write as _;

use super::ForecastLeg;
use serde_json::json;

/// What stands above the models: what the figures are worth.
const HEAD: &str = "\
# Legs as 'heliostat advise' measured them, each with the model that was fitted to it. Only reads
# were measured: what belongs to writes is what is usual for such drives. Change what is known
# better, and the job below to what is to be asked.
";

/// A scenario of a mirror on these legs: random 4 KiB reads, 32 at a time.
#[must_use]
pub fn scenario_text(legs: &[ForecastLeg]) -> String {
    let mut text = format!("{HEAD}name = \"advised\"\nseconds = 10\nwarmup_seconds = 3\n");
    let names: Vec<String> = (0..legs.len()).map(model_name).collect();
    let _ = write!(
        text,
        "\n[array]\nlevel = \"raid1\"\nlegs = {}\npolicies = [\"adaptive\", \"md\", \"zfs\"]\n\
         \n[[job]]\nname = \"reader\"\nrw = \"randread\"\nbs = \"4k\"\niodepth = 32\n",
        json!(names)
    );
    for (leg, name) in legs.iter().zip(&names) {
        let fit = &leg.fit;
        let shown: String = leg.name.chars().filter(char::is_ascii_graphic).collect();
        let _ = write!(
            text,
            "\n# {shown}: misses what was measured by {:.1} %.\n[[model]]\nname = {}\n\
             family = \"{}\"\n",
            fit.residual * 100.0,
            json!(name),
            fit.params.family()
        );
        for field in fit.params.fields() {
            let value = match field.unit {
                "count" | "bool" => field.value,
                // JSON's strings are TOML's basic strings.
                _ => json!(field.value).to_string(),
            };
            let _ = writeln!(text, "{} = {value}", field.key);
        }
    }
    text
}

/// What the model of a leg is called.
fn model_name(index: usize) -> String {
    format!("leg{index}")
}
