#![no_main]
//! Sizes, rates and lengths of time as people write them.
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = stdx::units::parse_size(text);
    let _ = stdx::units::parse_rate(text);
    let _ = stdx::units::parse_time_ns(text);
});
