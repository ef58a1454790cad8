#![no_main]

#[path = "../parsers.rs"]
mod parsers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| parsers::tf_json(data));
