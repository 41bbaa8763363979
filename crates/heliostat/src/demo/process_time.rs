//! How much processor time a process, or the whole machine, has used, as the kernel counts it.

use std::fs;
use std::time::Duration;

/// User and system time of process `id` so far; `None` where the kernel does not say.
pub(super) fn processor_time(id: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    duration_of(ticks_in(&stat)?)
}

/// The time in which the machine's processors were not idle, summed over all of them; `None` where
/// the kernel does not say.
pub(super) fn machine_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    duration_of(busy_ticks_in(&stat)?)
}

fn duration_of(ticks: u64) -> Option<Duration> {
    let per_second = rustix::param::clock_ticks_per_second();
    (per_second > 0).then(|| Duration::from_secs_f64(ticks as f64 / per_second as f64))
}

/// All but `idle` and `iowait` of the first line of proc(5)'s `/proc/stat`, in clock ticks.
fn busy_ticks_in(stat: &str) -> Option<u64> {
    // user nice system idle iowait irq softirq; what follows is counted in them, or is time that
    // another machine took.
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Option<Vec<u64>> = line
        .split_whitespace()
        .take(7)
        .map(|field| field.parse().ok())
        .collect();
    let [user, nice, system, _idle, _iowait, irq, softirq] = fields?.try_into().ok()?;
    Some(user + nice + system + irq + softirq)
}

/// The sum of `utime` and `stime` of a line of proc(5)'s `stat`, in clock ticks.
fn ticks_in(stat: &str) -> Option<u64> {
    // The name of the program, in parentheses, may hold anything; fields are counted behind it,
    // where `state` is field 3 of the line.
    const UTIME: usize = 14 - 3;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(UTIME).map(str::parse::<u64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::{busy_ticks_in, machine_time, processor_time, ticks_in};

    #[test]
    fn times_are_found_behind_any_name() {
        let line = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 700 33 0 0 20 0 1 0";
        assert_eq!(ticks_in(line), Some(733));
        assert_eq!(ticks_in("42 (a) S 1"), None);
    }

    #[test]
    fn idle_time_is_not_counted() {
        let stat = "cpu  1000 200 30 77777 66666 4 5 9 0 0\ncpu0 1 2 3\n";
        assert_eq!(busy_ticks_in(stat), Some(1239));
        assert_eq!(busy_ticks_in("cpu  1 2 3"), None);
        assert!(machine_time().is_some());
    }

    #[test]
    fn this_process_has_a_time() {
        assert!(processor_time(std::process::id()).is_some());
        assert_eq!(processor_time(u32::MAX), None);
    }
}
