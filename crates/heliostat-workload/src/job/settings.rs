//! A job back as the keys that make it: what scenario files are written from.

use heliostat_types::Duration;
use stdx::units::{exact_rate, exact_size, exact_time};

use super::{FromMeasuring, Job, Kind};
use crate::sizes::SizeShare;

/// Keys with their values.
type Settings = Vec<(&'static str, String)>;

impl Job {
    /// The keys that [`Job::set`] makes such a job of, and their values; what is as in a default
    /// job is left out, but for its name and what it does.
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![("name", self.name.clone())];
        if self.kind == Kind::Defrag {
            settings.push(("kind", "defrag".to_owned()));
        }
        settings.push(("rw", self.rw.word().to_owned()));
        self.add_sizes(&mut settings);
        self.add_loop(&mut settings);
        self.add_cache(&mut settings);
        self.add_times(&mut settings);
        self.add_trace(&mut settings);
        settings
    }

    fn add_sizes(&self, settings: &mut Settings) {
        let is_split = self.bssplit.iter().any(|shares| !shares.is_empty());
        match self.bs_write_bytes {
            Some(write) => settings.push((
                "bs",
                format!("{},{}", exact_size(self.bs_bytes), exact_size(write)),
            )),
            None => settings.push(("bs", exact_size(self.bs_bytes))),
        }
        if is_split {
            let [reads, writes] = &self.bssplit;
            settings.push(("bssplit", format!("{},{}", split(reads), split(writes))));
        }
        match (self.offset_percent, self.offset_bytes) {
            (0, 0) => {}
            (0, bytes) => settings.push(("offset", exact_size(bytes))),
            (percent, _) => settings.push(("offset", format!("{percent}%"))),
        }
        match (self.size_percent, self.size_bytes) {
            (0, 0) => {}
            (0, bytes) => settings.push(("size", exact_size(bytes))),
            (percent, _) => settings.push(("size", format!("{percent}%"))),
        }
        if self.offset_increment_bytes > 0 {
            let bytes = exact_size(self.offset_increment_bytes);
            settings.push(("offset_increment", bytes));
        }
    }

    fn add_loop(&self, settings: &mut Settings) {
        let usual = Self::default();
        let numbers = [
            ("iodepth", self.iodepth, usual.iodepth),
            (
                "iodepth_batch_complete_min",
                self.iodepth_batch_complete_min,
                usual.iodepth_batch_complete_min,
            ),
            ("numjobs", self.numjobs, usual.numjobs),
            ("loops", self.loops, usual.loops),
            ("rwmixread", self.rwmixread, usual.rwmixread),
            ("fsync", self.fsync, usual.fsync),
        ];
        for (key, number, usual) in numbers {
            if number != usual {
                settings.push((key, number.to_string()));
            }
        }
        if self.random_distribution != usual.random_distribution {
            let text = self.random_distribution.to_string();
            settings.push(("random_distribution", text));
        }
        if self.background {
            settings.push(("background", "true".to_owned()));
        }
        if let Some(leg) = self.leg {
            settings.push(("leg", leg.to_string()));
        }
    }

    fn add_cache(&self, settings: &mut Settings) {
        let usual = Self::default();
        if !self.direct {
            settings.push(("direct", "0".to_owned()));
        }
        if self.readahead_bytes != usual.readahead_bytes {
            settings.push(("readahead", exact_size(self.readahead_bytes)));
        }
        if self.readahead_request_bytes != usual.readahead_request_bytes {
            let bytes = exact_size(self.readahead_request_bytes);
            settings.push(("readahead_request", bytes));
        }
        if self.shared_cache {
            settings.push(("shared_cache", "true".to_owned()));
        }
        if self.dirty_limit_bytes != usual.dirty_limit_bytes {
            settings.push(("dirty_limit", exact_size(self.dirty_limit_bytes)));
        }
    }

    fn add_times(&self, settings: &mut Settings) {
        let usual = Self::default();
        if self.rate_iops != usual.rate_iops {
            let [reads, writes] = self.rate_iops;
            settings.push(("rate_iops", format!("{reads},{writes}")));
        }
        if self.rate_bytes != usual.rate_bytes {
            let [reads, writes] = self.rate_bytes.map(exact_rate);
            settings.push(("rate", format!("{reads},{writes}")));
        }
        if self.weight != usual.weight {
            settings.push(("weight", self.weight.to_string()));
        }
        if self.iops_max != usual.iops_max {
            settings.push(("iops", self.iops_max.to_string()));
        }
        if self.bytes_per_s_max != usual.bytes_per_s_max {
            settings.push(("bandwidth", exact_rate(self.bytes_per_s_max)));
        }
        if self.arrival != usual.arrival {
            settings.push(("arrival", self.arrival.to_string()));
        }
        if self.thinktime > Duration::ZERO {
            settings.push(("thinktime", exact_time(self.thinktime.as_ns())));
        }
        if self.thinktime_blocks != usual.thinktime_blocks {
            settings.push(("thinktime_blocks", self.thinktime_blocks.to_string()));
        }
        for (key, moment) in [("start", self.start), ("stop", self.stop)] {
            if let Some(FromMeasuring(ns)) = moment {
                let sign = if ns < 0 { "-" } else { "" };
                settings.push((key, format!("{sign}{}", exact_time(ns.unsigned_abs()))));
            }
        }
    }

    fn add_trace(&self, settings: &mut Settings) {
        let Some(trace) = &self.trace else { return };
        settings.push(("trace", trace.clone()));
        if let Some(format) = self.trace_format {
            settings.push(("trace_format", format.word().to_owned()));
        }
        settings.push(("trace_speed", self.trace_speed.to_string()));
        if let Some(volume) = self.trace_volume {
            settings.push(("trace_volume", volume.to_string()));
        }
        settings.push(("trace_time", self.trace_time.word().to_owned()));
    }
}

fn split(shares: &[SizeShare]) -> String {
    let share = |share: &SizeShare| format!("{}/{}", exact_size(share.bytes), share.percent);
    shares.iter().map(share).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use crate::{Job, KEYS};

    #[test]
    fn settings_make_the_same_job() {
        let keys = [
            ("name", "a b"),
            ("rw", "randrw"),
            ("bs", "4k,64k"),
            ("bssplit", "4k/60:64k/40,8k"),
            ("iodepth", "7"),
            ("iodepth_batch_complete_min", "3"),
            ("numjobs", "3"),
            ("offset", "3%"),
            ("size", "1000KiB"),
            ("offset_increment", "512"),
            ("loops", "2"),
            ("rwmixread", "30"),
            ("direct", "0"),
            ("readahead", "128k"),
            ("readahead_request", "64k"),
            ("dirty_limit", "1MB"),
            ("rate_iops", "100,0"),
            ("rate", "1000,5MB/s"),
            ("weight", "4"),
            ("iops", "100"),
            ("bandwidth", "5MB/s"),
            ("thinktime", "17"),
            ("thinktime_blocks", "4"),
            ("random_distribution", "zipf:0.99"),
            ("fsync", "5"),
            ("background", "true"),
            ("leg", "2"),
            ("start", "-1.000000001s"),
            ("stop", "20ms"),
        ];
        let open = [
            ("kind", "defrag"),
            ("rw", "read"),
            ("offset", "4096"),
            ("size", "50%"),
            ("shared_cache", "1"),
            ("arrival", "burst:0.1:20ms:80us"),
            ("random_distribution", "pareto:0.3"),
        ];
        let trace = [
            ("arrival", "poisson:1000.5"),
            ("trace", "t.log"),
            ("trace_format", "iolog3"),
            ("trace_speed", "0.3"),
            ("trace_volume", "9"),
            ("trace_time", "ms"),
        ];
        let plain = [("arrival", "fixed:3"), ("rw", "write")];
        // What fio calls otherwise.
        let mut written = vec!["rwmixwrite", "fdatasync"];
        for keys in [&keys[..], &open, &trace, &plain] {
            let mut job = Job::default();
            for (key, value) in keys {
                job.set(key, value).unwrap();
            }
            let mut again = Job::default();
            for (key, value) in job.settings() {
                again.set(key, &value).unwrap();
                written.push(key);
            }
            assert_eq!(format!("{again:?}"), format!("{job:?}"));
        }
        let missing: Vec<_> = KEYS.iter().filter(|key| !written.contains(key)).collect();
        assert!(missing.is_empty(), "never written: {missing:?}");
    }

    #[test]
    fn a_plain_job_has_few_words() {
        let settings = Job::default().settings();
        let words = settings.iter().map(|(key, value)| format!("{key}={value}"));
        let words: Vec<String> = words.collect();
        assert_eq!(words.join(" "), "name=job rw=randread bs=4KiB");
    }
}
