#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| dayfly_fuzz::messages::target(data));
