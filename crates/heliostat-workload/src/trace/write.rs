//! Writes what was asked as an iolog that fio can play.

use std::io::{self, Write};

use heliostat_types::OpKind;

use super::TraceOp;

/// Writes `ops`, whose times do not go back, as a fio iolog of version 3 (times in microseconds)
/// against the file `file`. Returns how many there were.
///
/// `fio --name=replay --read_iolog=LOG --ioengine=libaio --direct=1 --iodepth=32` plays it.
///
/// # Errors
/// Where `out` takes no more.
pub fn write_iolog(
    out: &mut dyn Write,
    file: &str,
    ops: impl IntoIterator<Item = TraceOp>,
) -> io::Result<u64> {
    writeln!(out, "fio version 3 iolog")?;
    writeln!(out, "0 {file} add")?;
    writeln!(out, "0 {file} open")?;
    let mut count = 0;
    let mut last_us = 0;
    for op in ops {
        last_us = op.at.as_us();
        let action = match op.kind {
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Trim | OpKind::WriteZeroes => "trim",
            OpKind::Flush => "sync",
            // Nothing is moved and nothing is changed.
            OpKind::BlockStatus => continue,
        };
        let (offset, len) = (op.extent.offset(), op.extent.len());
        writeln!(out, "{last_us} {file} {action} {offset} {len}")?;
        count += 1;
    }
    writeln!(out, "{last_us} {file} close")?;
    Ok(count)
}
