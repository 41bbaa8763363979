#![no_main]
//! What people write on the command line: sizes, rates, lengths of time, addresses.

use heliostat_nbd::uri::ExportUri;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = stdx::units::parse_size(text);
    let _ = stdx::units::parse_rate(text);
    let _ = stdx::units::parse_time_ns(text);
    let _ = text.parse::<ExportUri>();
});
