#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| dolmen_sim::fuzz::wire_reply(bytes));
