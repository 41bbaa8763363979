//! One line of a trace, in each of the formats.

use heliostat_types::{OpKind, SECTOR_BYTES};

use super::TraceFormat;

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A request.
    Op {
        /// In the unit of the format; 0 where it has none.
        time: u64,
        kind: OpKind,
        offset_bytes: u64,
        len_bytes: u64,
        volume: Option<u64>,
    },
    /// Nothing for a while.
    Wait { us: u64 },
    /// Nothing that a block device would notice.
    Nothing,
}

const HEADER_2: &str = "fio version 2 iolog";
const HEADER_3: &str = "fio version 3 iolog";

/// The format whose first line this is.
pub(super) fn detect(line: &str) -> Result<TraceFormat, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let is_number = |text: &&str| text.parse::<u64>().is_ok();
    match (line, &fields[..]) {
        (HEADER_2, _) => Ok(TraceFormat::Iolog2),
        (HEADER_3, _) => Ok(TraceFormat::Iolog3),
        (_, ["device_id", ..] | [_, "R" | "W", ..]) => Ok(TraceFormat::Alibaba),
        (_, ["Timestamp", ..]) => Ok(TraceFormat::Tencent),
        (_, [.., "0" | "1", _]) if fields.len() == 5 && fields.iter().all(is_number) => {
            Ok(TraceFormat::Tencent)
        }
        _ => Err(format!(
            "'{}' begins no trace that is known; say trace_format = \"iolog2\", \"iolog3\", \
             \"tencent\" or \"alibaba\"",
            shown(line)
        )),
    }
}

/// What a line says; `is_first` where it may be a header.
pub(super) fn parse_line(format: TraceFormat, line: &str, is_first: bool) -> Result<Line, String> {
    if line.is_empty() {
        return Ok(Line::Nothing);
    }
    match format {
        TraceFormat::Iolog2 => match is_first && line == HEADER_2 {
            true => Ok(Line::Nothing),
            false => parse_iolog(line, false),
        },
        TraceFormat::Iolog3 => match is_first && line == HEADER_3 {
            true => Ok(Line::Nothing),
            false => parse_iolog(line, true),
        },
        TraceFormat::Tencent if is_first && line.starts_with("Timestamp") => Ok(Line::Nothing),
        TraceFormat::Tencent => parse_tencent(line),
        TraceFormat::Alibaba if is_first && line.starts_with("device_id") => Ok(Line::Nothing),
        TraceFormat::Alibaba => parse_alibaba(line),
    }
}

fn parse_iolog(line: &str, has_time: bool) -> Result<Line, String> {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let expected = if has_time {
        "TIME FILE ACTION [OFFSET LENGTH]"
    } else {
        "FILE ACTION [OFFSET LENGTH]"
    };
    let mut time = 0;
    if has_time && !words.is_empty() {
        time = number("time", words.remove(0), expected)?;
    }
    match words[..] {
        [_, "add" | "open" | "close" | "unlink"] => Ok(Line::Nothing),
        [_, "sync" | "datasync", ..] => Ok(Line::Op {
            time,
            kind: OpKind::Flush,
            offset_bytes: 0,
            len_bytes: 0,
            volume: None,
        }),
        [_, "wait", ..] if has_time => {
            Err("there is no 'wait' in an iolog of version 3".to_owned())
        }
        [_, "wait", us, ..] => Ok(Line::Wait {
            us: number("wait", us, expected)?,
        }),
        [_, action @ ("read" | "write" | "trim"), offset, len] => Ok(Line::Op {
            time,
            kind: match action {
                "read" => OpKind::Read,
                "write" => OpKind::Write,
                _ => OpKind::Trim,
            },
            offset_bytes: number("offset", offset, expected)?,
            len_bytes: number("length", len, expected)?,
            volume: None,
        }),
        [_, action, ..] if !["read", "write", "trim"].contains(&action) => Err(format!(
            "'{}' is no action: add, open, close, read, write, trim, sync, datasync are, and wait \
             in version 2",
            shown(action)
        )),
        _ => Err(format!("expected {expected}, got '{}'", shown(line))),
    }
}

fn parse_tencent(line: &str) -> Result<Line, String> {
    const EXPECTED: &str = "Timestamp,Offset,Size,IOType,VolumeID";
    let [time, offset, len, kind, volume] = fields(line, EXPECTED)?;
    let sectors = |what, text| {
        let sectors = number(what, text, EXPECTED)?;
        sectors
            .checked_mul(SECTOR_BYTES)
            .ok_or_else(|| format!("{what} {text} is beyond 2^64 bytes"))
    };
    Ok(Line::Op {
        time: number("timestamp", time, EXPECTED)?,
        kind: match kind {
            "0" => OpKind::Read,
            "1" => OpKind::Write,
            _ => {
                return Err(format!(
                    "IOType '{}' is neither 0 (read) nor 1 (write)",
                    shown(kind)
                ));
            }
        },
        offset_bytes: sectors("offset", offset)?,
        len_bytes: sectors("size", len)?,
        volume: Some(number("volume", volume, EXPECTED)?),
    })
}

fn parse_alibaba(line: &str) -> Result<Line, String> {
    const EXPECTED: &str = "device_id,opcode,offset,length,timestamp";
    let [volume, kind, offset, len, time] = fields(line, EXPECTED)?;
    Ok(Line::Op {
        time: number("timestamp", time, EXPECTED)?,
        kind: match kind {
            "R" => OpKind::Read,
            "W" => OpKind::Write,
            _ => return Err(format!("opcode '{}' is neither R nor W", shown(kind))),
        },
        offset_bytes: number("offset", offset, EXPECTED)?,
        len_bytes: number("length", len, EXPECTED)?,
        volume: Some(number("device_id", volume, EXPECTED)?),
    })
}

fn fields<'a>(line: &'a str, expected: &str) -> Result<[&'a str; 5], String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    fields
        .try_into()
        .map_err(|_| format!("expected {expected}, got '{}'", shown(line)))
}

fn number(what: &str, text: &str, expected: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        let text = shown(text);
        format!("{what} '{text}' is not a whole number; expected {expected}")
    })
}

/// As much of a text as fits into a message.
fn shown(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}
