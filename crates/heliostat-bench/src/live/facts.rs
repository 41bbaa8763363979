//! Where a result comes from, in words: the same names in the same order for every result.

use stdx::units::format_size;

use super::result::BenchResult;

/// What each target is, and what its legs are.
pub(super) fn of_targets(result: &BenchResult) -> Vec<String> {
    let targets = result.targets.iter().map(|target| {
        let legs = match target.legs.is_empty() {
            true => String::new(),
            false => format!("; legs {}", target.legs.join(", ")),
        };
        format!("{}: {}{legs}", target.target, target.what)
    });
    targets.collect()
}

/// What was run, on what and how.
pub(super) fn of(result: &BenchResult) -> Vec<(&'static str, String)> {
    let machine = &result.machine;
    let caches = match machine.drops_caches {
        true => "emptied before each run",
        false => "as they were: only root can empty them",
    };
    vec![
        ("heliostat", machine.heliostat.clone()),
        ("fio", machine.fio.clone()),
        ("kernel", machine.kernel.clone()),
        ("system", machine.system.clone()),
        (
            "processor",
            format!("{}, {} threads", machine.processor, machine.cpu_count),
        ),
        ("memory", format_size(machine.memory_bytes)),
        ("page caches", caches.to_owned()),
        (
            "each run",
            format!(
                "{} s after {} s of warm-up, {} times",
                result.runtime_s, result.warmup_s, result.repeats
            ),
        ),
        ("command", result.command.clone()),
    ]
}
