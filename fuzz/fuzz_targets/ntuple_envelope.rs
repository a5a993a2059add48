#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| dolmen_fuzz::ntuple_envelope(bytes));
