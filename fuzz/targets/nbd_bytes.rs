#![no_main]
//! Any bytes at a server's side of a connection.

use heliostat_export_nbd::fuzz::fuzz_session;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzz_session(bytes));
