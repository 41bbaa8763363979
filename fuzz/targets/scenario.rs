#![no_main]
//! Scenario files: whatever a file holds, it is a scenario or an error that names the file.

use std::path::Path;

use heliostat_bench::ScenarioFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match ScenarioFile::parse(Path::new("fuzz.toml"), text) {
        Ok(file) => assert!(!file.policies.is_empty()),
        Err(error) => assert!(error.to_string().starts_with("fuzz.toml:")),
    }
});
