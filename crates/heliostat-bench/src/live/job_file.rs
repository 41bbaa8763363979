//! fio's job files of other people, run on a target of ours.

use super::fio::BACKGROUND;

/// What is ours to say, and is left out of a file: where data lie and what removes them, what else
/// is written and where, and which figures there are.
const OURS: &[&str] = &[
    "allow_file_create",
    "allow_mounted_write",
    "clat_percentiles",
    "create_only",
    "directory",
    "disable_bw_measurement",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "filename",
    "filename_format",
    "gtod_reduce",
    "lat_percentiles",
    "nr_files",
    "nrfiles",
    "opendir",
    "percentile_list",
    "slat_percentiles",
    "thread",
    "unified_rw_reporting",
    "unique_filename",
    "unlink",
    "unlink_each_loop",
    "uri",
    "verify_dump",
    "verify_state_save",
    "write_bw_log",
    "write_hist_log",
    "write_iolog",
    "write_iops_log",
    "write_lat_log",
];

/// What is passed on as it is. Whatever else there is may do anything, such as run a program.
const PASSED: &str = "\
    allrandrepeat atomic ba blockalign block_error_percentiles blocksize blocksize_range \
    blocksize_unaligned bs bs_unaligned bsrange bssplit buffer_compress_chunk \
    buffer_compress_percentage buffer_pattern buffered bwavgtime clocksource cmdprio \
    cmdprio_bssplit cmdprio_class cmdprio_percentage continue_on_error cpumask cpus_allowed \
    cpus_allowed_policy create_fsync create_on_open create_serialize dedupe_global dedupe_mode \
    dedupe_percentage dedupe_working_set_percentage description direct disk_util do_verify \
    end_fsync error_dump exit_what exitall exitall_on_error experimental_verify fadvise_hint \
    fallocate fdatasync file_service_type filesize fill_device fill_fs fixedbufs flow flow_id \
    flow_sleep force_async fsync fsync_on_close group_reporting gtod_cpu hipri hipri_percentage \
    hugepage-size ignore_error ignore_zone_limits invalidate io_limit io_size io_submit_mode \
    iodepth iodepth_batch iodepth_batch_complete iodepth_batch_complete_max \
    iodepth_batch_complete_min iodepth_batch_submit iodepth_low ioengine iomem iopsavgtime \
    job_max_open_zones kb_base latency_percentile latency_run latency_target latency_window \
    lockfile lockmem log_alternate_epoch log_alternate_epoch_clock_id log_avg_msec \
    log_compression log_compression_cpus log_entries log_hist_coarseness log_hist_msec \
    log_max_value log_offset log_prio log_store_compressed log_unix_epoch loops max_latency \
    max_open_zones mem new_group nice nonvectored norandommap nowait numa_cpu_nodes \
    numa_mem_policy number_ios numjobs offset offset_align offset_increment openfiles overwrite \
    per_job_logs percentage_random pre_read prio prioclass ramp_time random_distribution \
    random_generator randrepeat randseed rate rate_cycle rate_ignore_thinktime rate_iops \
    rate_iops_min rate_min rate_process read_beyond_wp readwrite refill_buffers registerfiles \
    runtime rw rw_sequencer rwmixread rwmixwrite scramble_buffers serialize_overlap \
    significant_figures size softrandommap sqthread_poll sqthread_poll_cpu startdelay stats \
    steadystate steadystate_duration steadystate_ramp_time stonewall sync sync_file_range \
    thinktime thinktime_blocks thinktime_blocks_type thinktime_iotime thinktime_spin thp \
    time_based timeout trim_backlog trim_backlog_batch trim_percentage trim_verify_zero uncached \
    unit_base userspace_reap verify verify_async verify_backlog verify_backlog_batch \
    verify_fatal verify_interval verify_offset verify_only verify_pattern wait_for \
    wait_for_previous write_barrier write_hint zero_buffers zone_reset_frequency \
    zone_reset_threshold zonecapacity zonemode zonerange zonesize zoneskip";

/// Engines that read and write what is named to them, and do nothing else.
const ENGINES: &[&str] = &[
    "io_uring", "libaio", "mmap", "nbd", "posixaio", "psync", "pvsync", "pvsync2", "sync", "vsync",
];

/// What only some engines know.
const OF_ENGINES: &[&str] = &[
    "cmdprio",
    "cmdprio_bssplit",
    "cmdprio_class",
    "cmdprio_percentage",
    "fixedbufs",
    "force_async",
    "hipri",
    "hipri_percentage",
    "ioengine",
    "nonvectored",
    "nowait",
    "registerfiles",
    "sqthread_poll",
    "sqthread_poll_cpu",
    "thp",
    "uncached",
    "userspace_reap",
];

/// The kinds of jobs that only read.
const READING: &[&str] = &["randread", "read"];

/// A job file that can be run on any target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFile {
    /// Its lines, without those that say where data lie.
    lines: Vec<String>,
    /// Whether some job of it changes data, or may.
    pub writes: bool,
}

/// Why a job file is not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobFileError {
    /// Something that is neither left out nor known to be harmless.
    #[error(
        "line {line}: '{key}' is not passed on to fio, since it may do more than read and write \
         the target; leave it out"
    )]
    NotPassed {
        /// Counted from 1.
        line: usize,
        /// Which setting it is.
        key: String,
    },
    /// A value of such a setting.
    #[error("line {line}: '{key}={value}' is not passed on to fio; {way_out}")]
    Value {
        /// Counted from 1.
        line: usize,
        /// Which setting it is.
        key: String,
        /// What it says.
        value: String,
        /// What it may say.
        way_out: String,
    },
    /// There is nothing to run.
    #[error("it has no job: a job begins with a line [NAME]")]
    NoJob,
    /// Its figures would be passed over.
    #[error("line {line}: call the job other than {BACKGROUND}")]
    Background {
        /// Counted from 1.
        line: usize,
    },
}

impl JobFile {
    /// What this text says.
    ///
    /// # Errors
    /// Where it has a setting that could touch something else than the target, or no job.
    pub fn parse(text: &str) -> Result<Self, JobFileError> {
        let mut lines = Vec::new();
        let (mut has_job, mut writes) = (false, false);
        for (text, line) in text.lines().zip(1..) {
            // As fio reads it: what follows is a comment, wherever it begins.
            let text = text.split([';', '#']).next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            let section = text
                .strip_prefix('[')
                .and_then(|text| text.strip_suffix(']'));
            if let Some(name) = section {
                if name == BACKGROUND {
                    return Err(JobFileError::Background { line });
                }
                has_job |= name != "global";
                lines.push(text.to_owned());
                continue;
            }
            let (key, value) = text.split_once('=').unwrap_or((text, ""));
            let (key, value) = (key.trim(), value.trim());
            if OURS.contains(&key) {
                continue;
            }
            expect_harmless(key, value, line)?;
            if ["rw", "readwrite"].contains(&key) {
                let kind = value.split(':').next().unwrap_or_default();
                writes |= !READING.contains(&kind);
            }
            lines.push(text.to_owned());
        }
        match has_job {
            true => Ok(Self { lines, writes }),
            false => Err(JobFileError::NoJob),
        }
    }

    /// The file for fio: these settings for all jobs, and the rest; where they say which engine it
    /// is, without what is for another one.
    #[must_use]
    pub fn on(&self, settings: &[String]) -> String {
        let has_engine = settings.iter().any(|line| line.starts_with("ioengine="));
        let is_kept = |line: &&String| {
            let key = line.split('=').next().unwrap_or_default().trim();
            !has_engine || !OF_ENGINES.contains(&key) && !["direct", "buffered"].contains(&key)
        };
        let mut text = String::from("[global]\n");
        for line in settings.iter().chain(self.lines.iter().filter(is_kept)) {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

/// Whether a setting does nothing but say how the target is read and written.
fn expect_harmless(key: &str, value: &str, line: usize) -> Result<(), JobFileError> {
    if !PASSED.split_whitespace().any(|known| known == key) {
        let key = key.to_owned();
        return Err(JobFileError::NotPassed { line, key });
    }
    let refused = |way_out: String| {
        let (key, value) = (key.to_owned(), value.to_owned());
        Err(JobFileError::Value {
            line,
            key,
            value,
            way_out,
        })
    };
    match key {
        "ioengine" if !ENGINES.contains(&value) => {
            refused(format!("the engines that are: {}", ENGINES.join(", ")))
        }
        // Behind the colon stands a file, which would be written.
        "mem" | "iomem" if value.contains([':', '$']) => refused("name no file".to_owned()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{ENGINES, JobFile, JobFileError, OF_ENGINES, OURS, PASSED};

    #[test]
    fn where_data_lie_is_ours_to_say() {
        let text = "[global]\nfilename=/dev/sda\nunlink = 1\nioengine=libaio\nhipri\n\n[a]\n\
                    rw=randread # not randwrite\nwrite_lat_log=/etc/passwd\ndirectory=/\n; a note\n\
                    percentile_list=50\n[b]\nreadwrite = read:8\n";
        let file = JobFile::parse(text).unwrap();
        assert!(!file.writes);
        let got = file.on(&["uri=nbd://x".to_owned(), "ioengine=nbd".to_owned()]);
        let kept = "[global]\nuri=nbd://x\nioengine=nbd\n[global]\n[a]\nrw=randread\n[b]\n\
                    readwrite = read:8\n";
        assert_eq!(got, kept);
        let got = file.on(&["filename=y".to_owned()]);
        assert!(got.contains("ioengine=libaio\nhipri\n"), "{got}");
    }

    #[test]
    fn what_may_write_writes() {
        for rw in ["randrw", "write", "trimwrite", "${KIND}"] {
            let file = JobFile::parse(&format!("[a]\nrw={rw}\n")).unwrap();
            assert!(file.writes, "{rw}");
        }
    }

    #[test]
    fn what_could_touch_anything_else_is_refused() {
        let told = |text: &str| JobFile::parse(text).unwrap_err().to_string();
        let keys = [
            "include b",
            "read_iolog=b",
            "exec_prerun=rm a",
            "${KEY}=write",
            "name=background",
            "ioscheduler=none",
            "cgroup=a",
            "profile=act",
        ];
        for text in keys {
            let told = told(&format!("[a]\n{text}\n"));
            let key = text.split('=').next().unwrap_or(text).trim();
            assert!(
                told.starts_with(&format!("line 2: '{key}' is not")),
                "{told}"
            );
        }
        for text in [
            "ioengine=filedelete",
            "ioengine=external:a.so",
            "mem=mmap:b",
            "iomem=${A}",
        ] {
            let told = told(&format!("[a]\n{text}\n"));
            assert!(
                told.starts_with(&format!("line 2: '{text}' is not")),
                "{told}"
            );
        }
        for engine in ENGINES {
            assert!(
                JobFile::parse(&format!("[a]\nioengine={engine}\n")).is_ok(),
                "{engine}"
            );
        }
        assert_eq!(
            JobFile::parse("[background]\n"),
            Err(JobFileError::Background { line: 1 })
        );
        assert_eq!(
            JobFile::parse("[global]\nbs=4k\n"),
            Err(JobFileError::NoJob)
        );
        assert_eq!(JobFile::parse(""), Err(JobFileError::NoJob));
    }

    #[test]
    fn a_setting_is_either_ours_or_passed() {
        for key in OURS {
            assert!(
                !PASSED.split_whitespace().any(|known| known == *key),
                "{key}"
            );
        }
        for key in OF_ENGINES {
            assert!(
                PASSED.split_whitespace().any(|known| known == *key),
                "{key}"
            );
        }
    }
}
