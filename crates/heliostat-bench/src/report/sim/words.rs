//! A scenario in words.

use heliostat_sim::{Effect, Fault, Job, Rw, Scenario};
use heliostat_types::Duration;
use stdx::units::format_size;

/// What is simulated, as names and values.
pub(super) fn scenario(scenario: &Scenario) -> Vec<(&'static str, String)> {
    let array = &scenario.array;
    let legs = array.legs.iter().enumerate().map(|(index, leg)| {
        let flag = |set: bool, text: &'static str| if set { text } else { "" };
        format!(
            "leg {index}: {}{}{}{}",
            leg.model,
            flag(leg.write_mostly, ", write-mostly"),
            flag(leg.read_preferred, ", preferred"),
            match leg.rotational {
                Some(true) => ", says that it turns",
                Some(false) => ", says that it does not turn",
                None => "",
            },
        )
    });
    let mut rows = vec![("array", format_size(array.size_bytes))];
    rows.extend(legs.map(|leg| ("leg", leg)));
    rows.extend(
        scenario
            .jobs
            .iter()
            .map(|job_| ("job", job(job_, array.size_bytes))),
    );
    rows.extend(
        scenario
            .faults
            .iter()
            .map(|fault| ("fault", fault.to_string())),
    );
    let measured = match scenario.seconds {
        Duration::ZERO => "until every job has moved its size".to_owned(),
        seconds => time(seconds),
    };
    let warmup = time(scenario.warmup_seconds);
    rows.push(("measured", format!("{measured}, after {warmup} of warm-up")));
    rows.push(("seed", scenario.seed.to_string()));
    rows
}

/// `reader: random reads of 4 KiB, 32 in flight, 4 clients, in 50 GiB from 0 on`.
fn job(job: &Job, array_bytes: u64) -> String {
    let what = match job.rw {
        Rw::Read => "sequential reads".to_owned(),
        Rw::Write => "sequential writes".to_owned(),
        Rw::RandRead => "random reads".to_owned(),
        Rw::RandWrite => "random writes".to_owned(),
        Rw::RandRw => format!("random reads ({} %) and writes", job.rwmixread),
        Rw::Rw => format!("sequential reads ({} %) and writes", job.rwmixread),
    };
    let mut text = format!(
        "{}: {what} of {}, {} in flight",
        job.name,
        format_size(job.bs_bytes),
        job.iodepth
    );
    if job.numjobs > 1 {
        text.push_str(&format!(" from each of {} clients", job.numjobs));
    }
    let region = job.region_bytes(array_bytes);
    if region < array_bytes {
        text.push_str(&format!(
            ", in {} from {} on",
            format_size(region),
            format_size(job.offset_bytes)
        ));
    }
    if !job.direct {
        let window = format_size(job.readahead_bytes);
        text.push_str(&format!(", buffered with {window} of read-ahead"));
    }
    if job.fsync > 0 {
        text.push_str(&format!(", a flush after every {} writes", job.fsync));
    }
    if job.background {
        text.push_str(", in the background (not counted)");
    }
    text
}

/// When a fault holds, in seconds from the start of measuring; without an end where it stays.
pub(super) fn fault_span(fault: &Fault) -> (f64, Option<f64>) {
    let seconds = |ns: i64| ns as f64 / 1e9;
    let until = match fault.until_ns {
        // A power cut lasts five seconds where nothing else is said.
        Fault::NEVER_NS if fault.effect == Some(Effect::PowerCut) => {
            Some(seconds(fault.at_ns) + 5.0)
        }
        Fault::NEVER_NS => None,
        until_ns => Some(seconds(until_ns)),
    };
    (seconds(fault.at_ns), until)
}

/// A length of virtual time.
fn time(time: Duration) -> String {
    let text = format!("{:.3}", time.as_secs_f64());
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} s")
}
