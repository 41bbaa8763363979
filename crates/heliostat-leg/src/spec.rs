//! Legs as people write them: `/dev/sda`, `./disk.img`, `mem:SIZE`, `model:NAME,key=value`.

use std::fmt;
use std::path::PathBuf;

use stdx::units::parse_size;

use crate::error::LegError;

/// What a text names; nothing is opened or looked at yet.
#[derive(Clone, Debug, PartialEq)]
pub struct LegSpec {
    text: String,
    pub(crate) kind: SpecKind,
}

/// The kinds of leg that there are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SpecKind {
    /// A regular file or a block device.
    Path(PathBuf),
    /// Memory of this many bytes.
    Memory {
        /// How many.
        size_bytes: u64,
    },
}

impl LegSpec {
    /// Understands a text.
    ///
    /// # Errors
    /// Where it names no kind of leg that there is, or a key or value is wrong; the message says
    /// what is expected.
    pub fn parse(text: &str) -> Result<Self, LegError> {
        let kind = parse_kind(text).map_err(|problem| LegError::Spec {
            text: text.to_owned(),
            problem,
        })?;
        Ok(Self {
            text: text.to_owned(),
            kind,
        })
    }
}

impl fmt::Display for LegSpec {
    /// The text that it was parsed from.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn parse_kind(text: &str) -> Result<SpecKind, String> {
    if let Some(size) = text.strip_prefix("mem:") {
        let size_bytes = parse_size(size).map_err(|error| error.to_string())?;
        return Ok(SpecKind::Memory { size_bytes });
    }
    Ok(SpecKind::Path(PathBuf::from(text)))
}
