//! fio's job files of other people, run on a target of ours.

use super::fio::BACKGROUND;

/// What says where a job's data lie, and what removes them: that is not for the file to say.
const PLACES: &[&str] = &[
    "directory",
    "filename",
    "filename_format",
    "nrfiles",
    "opendir",
    "unlink",
    "unlink_each_loop",
    "uri",
];

/// What says that there is more in other files.
const ELSEWHERE: &[&str] = &["include", "read_iolog"];

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
    /// It names other files, which may name any others.
    #[error("line {line}: '{key}' is not followed; put all jobs into one file")]
    Elsewhere {
        /// Counted from 1.
        line: usize,
        /// Which setting names them.
        key: String,
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
    /// Where it includes other files or has no job.
    pub fn parse(text: &str) -> Result<Self, JobFileError> {
        let mut lines = Vec::new();
        let (mut has_job, mut writes) = (false, false);
        for (text, line) in text.lines().zip(1..) {
            let text = text.trim();
            let (key, value) = text.split_once('=').unwrap_or((text, ""));
            let (key, value) = (key.trim(), value.trim());
            let section = text.strip_prefix('[').and_then(|text| text.split_once(']'));
            has_job |= section.is_some_and(|(name, _)| name != "global");
            if section.is_some_and(|(name, _)| name == BACKGROUND) {
                return Err(JobFileError::Background { line });
            }
            let word = key.split_whitespace().next().unwrap_or_default();
            if ELSEWHERE.contains(&word) {
                let key = word.to_owned();
                return Err(JobFileError::Elsewhere { line, key });
            }
            if ["rw", "readwrite"].contains(&key) {
                let kind = value.split(':').next().unwrap_or_default();
                writes |= !READING.contains(&kind);
            }
            if !PLACES.contains(&key) {
                lines.push(text.to_owned());
            }
        }
        match has_job {
            true => Ok(Self { lines, writes }),
            false => Err(JobFileError::NoJob),
        }
    }

    /// The file for fio: these settings for all jobs, and the rest without `but`, which they
    /// replace.
    #[must_use]
    pub fn on(&self, settings: &[String], but: &[&str]) -> String {
        let is_kept = |line: &&String| {
            let key = line.split('=').next().unwrap_or_default().trim();
            !but.contains(&key)
        };
        let mut text = String::from("[global]\n");
        for line in settings.iter().chain(self.lines.iter().filter(is_kept)) {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{JobFile, JobFileError};

    #[test]
    fn where_data_lie_is_ours_to_say() {
        let text = "[global]\nfilename=/dev/sda\nunlink = 1\nioengine=libaio\n\n[a]\nrw=randread\n\
                    directory=/\n; a note\n[b]\nreadwrite = read:8\n";
        let file = JobFile::parse(text).unwrap();
        assert!(!file.writes);
        let got = file.on(&["uri=nbd://x".to_owned()], &["ioengine"]);
        let kept = "[global]\nuri=nbd://x\n[global]\n\n[a]\nrw=randread\n; a note\n[b]\n\
                    readwrite = read:8\n";
        assert_eq!(got, kept);
    }

    #[test]
    fn what_may_write_writes() {
        for rw in ["randrw", "write", "trimwrite", "${KIND}"] {
            let file = JobFile::parse(&format!("[a]\nrw={rw}\n")).unwrap();
            assert!(file.writes, "{rw}");
        }
    }

    #[test]
    fn what_cannot_be_run_is_said() {
        let told = |text: &str| JobFile::parse(text).unwrap_err();
        for key in ["include", "read_iolog"] {
            let told = told(&format!("[a]\n{key} = b\n")).to_string();
            assert!(told.starts_with(&format!("line 2: '{key}'")), "{told}");
        }
        assert_eq!(told("[background]\n"), JobFileError::Background { line: 1 });
        assert_eq!(told("[global]\nbs=4k\n"), JobFileError::NoJob);
        assert_eq!(told(""), JobFileError::NoJob);
    }
}
