//! Block traces: what somebody else's clients asked, and when, line by line.
//!
//! Formats are [fio's iologs](https://fio.readthedocs.io) of version 2 and 3, and the CSV files of
//! the traces that Tencent and Alibaba have published. A trace is streamed: one line is in memory
//! at a time. Who opens files is not said here.

use std::fmt;
use std::io::{BufRead, Read};

use heliostat_types::{Duration, Extent, OpKind, SECTOR_BYTES};

mod line;
mod write;

use line::{Line, parse_line};
pub use write::write_iolog;

use crate::job::REQUEST_MAX_BYTES;

/// What a trace is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// fio's iolog of version 2: `FILE ACTION OFFSET LENGTH`, with waits between.
    Iolog2,
    /// fio's iolog of version 3: `TIME FILE ACTION OFFSET LENGTH`.
    Iolog3,
    /// Tencent CBS: `Timestamp,Offset,Size,IOType,VolumeID` in seconds and sectors; 0 reads.
    Tencent,
    /// Alibaba block traces: `device_id,opcode,offset,length,timestamp` in bytes and microseconds.
    Alibaba,
}

impl TraceFormat {
    /// `iolog2`, `iolog3`, `tencent` or `alibaba`; `auto`, which is `None`: the first line says it.
    pub(crate) fn parse(word: &str) -> Result<Option<Self>, String> {
        Ok(Some(match word {
            "auto" => return Ok(None),
            "iolog2" => Self::Iolog2,
            "iolog3" => Self::Iolog3,
            "tencent" => Self::Tencent,
            "alibaba" => Self::Alibaba,
            _ => {
                return Err(format!(
                    "'{word}' is none of auto, iolog2, iolog3, tencent, alibaba"
                ));
            }
        }))
    }

    /// As [`TraceFormat::parse`] takes it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Iolog2 => "iolog2",
            Self::Iolog3 => "iolog3",
            Self::Tencent => "tencent",
            Self::Alibaba => "alibaba",
        }
    }
}

/// The unit of the times of an iolog of version 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceTime {
    /// `ns`.
    Nanoseconds,
    /// `us`, what fio itself writes.
    Microseconds,
    /// `ms`.
    Milliseconds,
}

impl TraceTime {
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        match word {
            "ns" => Ok(Self::Nanoseconds),
            "us" => Ok(Self::Microseconds),
            "ms" => Ok(Self::Milliseconds),
            _ => Err(format!("'{word}' is none of ns, us, ms")),
        }
    }

    /// As [`TraceTime::parse`] takes it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
        }
    }

    const fn ns(self) -> u64 {
        match self {
            Self::Nanoseconds => 1,
            Self::Microseconds => 1_000,
            Self::Milliseconds => 1_000_000,
        }
    }
}

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceOp {
    /// When, from the beginning of the trace.
    pub at: Duration,
    /// What: read, write, trim or flush.
    pub kind: OpKind,
    /// Which bytes, rounded out to sectors; empty for a flush.
    pub extent: Extent,
}

/// What is wrong with a trace, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The name of the trace.
    pub name: String,
    /// The line, from 1; 0 where the trace could not be opened.
    pub line: u64,
    /// What.
    pub text: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return write!(f, "trace '{}': {}", self.name, self.text);
        }
        write!(
            f,
            "trace '{}', line {}: {}",
            self.name, self.line, self.text
        )
    }
}

impl std::error::Error for TraceError {}

/// How a trace is read.
#[derive(Clone, Copy, Debug)]
pub struct TraceOptions {
    /// `None`: the first line says it.
    pub format: Option<TraceFormat>,
    /// How many times faster than recorded.
    pub speed: f64,
    /// The only volume that is wanted.
    pub volume: Option<u64>,
    /// The unit of the times of an iolog of version 3.
    pub time: TraceTime,
}

/// The lines of a trace as requests.
pub struct TraceReader {
    name: String,
    lines: Box<dyn BufRead + Send>,
    options: TraceOptions,
    line_number: u64,
    buffer: Vec<u8>,
    /// The first time in a file whose times count from somewhere else.
    origin_ns: Option<u64>,
    /// The latest time so far: a trace whose times go back is played as if they stood still.
    now_ns: u64,
    skipped: u64,
}

impl fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceReader")
            .field("name", &self.name)
            .field("line_number", &self.line_number)
            .finish_non_exhaustive()
    }
}

/// Longer than any line of a format: a file of one line is not taken into memory.
const LINE_MAX_BYTES: u64 = 4096;

impl TraceReader {
    /// The trace that `lines` holds; `name` is for messages.
    #[must_use]
    pub fn new(name: &str, lines: Box<dyn BufRead + Send>, options: TraceOptions) -> Self {
        Self {
            name: name.to_owned(),
            lines,
            options,
            line_number: 0,
            buffer: Vec::new(),
            origin_ns: None,
            now_ns: 0,
            skipped: 0,
        }
    }

    /// How many lines asked for nothing: files that were opened, empty requests, other volumes.
    #[must_use]
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The next request; `None` at the end.
    ///
    /// # Errors
    /// Where a line is not what the format says.
    pub fn next_op(&mut self) -> Result<Option<TraceOp>, TraceError> {
        while self.read_line()? {
            let line = std::str::from_utf8(&self.buffer).unwrap_or("\u{fffd}");
            let line = line.trim();
            let format = match self.options.format {
                Some(format) => format,
                None => {
                    let found = line::detect(line).map_err(|text| self.wrong(text))?;
                    self.options.format = Some(found);
                    found
                }
            };
            let is_first = self.line_number == 1;
            let parsed = parse_line(format, line, is_first).map_err(|text| self.wrong(text))?;
            if let Some(op) = self.take(format, parsed)? {
                return Ok(Some(op));
            }
        }
        Ok(None)
    }

    /// Reads a line into the buffer; `false` at the end.
    fn read_line(&mut self) -> Result<bool, TraceError> {
        self.buffer.clear();
        self.line_number += 1;
        let mut limited = (&mut self.lines).take(LINE_MAX_BYTES);
        let read = limited.read_until(b'\n', &mut self.buffer);
        match read {
            Err(error) => Err(self.wrong(error.to_string())),
            Ok(0) => Ok(false),
            Ok(_)
                if self.buffer.len() as u64 == LINE_MAX_BYTES && !self.buffer.ends_with(b"\n") =>
            {
                Err(self.wrong(format!("it is longer than {LINE_MAX_BYTES} bytes")))
            }
            Ok(_) => Ok(true),
        }
    }

    /// What a line asks for, if it asks for anything that is wanted.
    fn take(&mut self, format: TraceFormat, line: Line) -> Result<Option<TraceOp>, TraceError> {
        let Line::Op {
            time,
            kind,
            offset_bytes,
            len_bytes,
            volume,
        } = line
        else {
            if let Line::Wait { us } = line {
                self.now_ns = self.now_ns.saturating_add(us.saturating_mul(1_000));
            }
            self.skipped += 1;
            return Ok(None);
        };
        let is_wanted = match (self.options.volume, volume) {
            (Some(wanted), Some(volume)) => wanted == volume,
            _ => true,
        };
        if !is_wanted || len_bytes == 0 && kind != OpKind::Flush {
            self.skipped += 1;
            return Ok(None);
        }
        let unit_ns = match format {
            TraceFormat::Iolog2 => 0,
            TraceFormat::Iolog3 => self.options.time.ns(),
            TraceFormat::Tencent => 1_000_000_000,
            TraceFormat::Alibaba => 1_000,
        };
        if unit_ns > 0 {
            let ns = time.saturating_mul(unit_ns);
            let origin_ns = match format {
                // Counts from the start of the recorded run.
                TraceFormat::Iolog2 | TraceFormat::Iolog3 => 0,
                TraceFormat::Tencent | TraceFormat::Alibaba => *self.origin_ns.get_or_insert(ns),
            };
            self.now_ns = self.now_ns.max(ns.saturating_sub(origin_ns));
        }
        let extent = if kind == OpKind::Flush {
            Extent::default()
        } else {
            self.extent(offset_bytes, len_bytes)?
        };
        #[expect(clippy::cast_precision_loss, reason = "53 bits of ns are 104 days")]
        let at = Duration::from_secs_f64(self.now_ns as f64 / 1e9 / self.options.speed);
        Ok(Some(TraceOp { at, kind, extent }))
    }

    fn extent(&self, offset_bytes: u64, len_bytes: u64) -> Result<Extent, TraceError> {
        // Rounding out must not pass the end of the address space.
        let extent = Extent::checked_new(offset_bytes, len_bytes)
            .filter(|extent| extent.end() <= u64::MAX - SECTOR_BYTES)
            .ok_or_else(|| self.wrong("it ends beyond 2^64".to_owned()))?;
        let extent = extent.aligned_out(SECTOR_BYTES);
        if extent.len() > REQUEST_MAX_BYTES {
            return Err(self.wrong(format!(
                "a request of {len_bytes} bytes; an array takes 32 MiB at most"
            )));
        }
        Ok(extent)
    }

    pub(crate) fn wrong(&self, text: String) -> TraceError {
        TraceError {
            name: self.name.clone(),
            line: self.line_number,
            text,
        }
    }
}

#[cfg(test)]
mod tests;
