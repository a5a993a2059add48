//! What fuzzing has found, and what it starts from, once more: the corpus below `fuzz/corpus`.

use crate::fuzzed::TARGETS;
use crate::inputs::{assert_no_panic, assert_no_panic_when_changed};

#[test]
fn nothing_of_the_corpus_panics() {
    for (target, run) in TARGETS {
        assert_no_panic(target, run);
    }
}

#[test]
fn inputs_of_the_corpus_changed_a_little_do_not_panic() {
    assert_no_panic_when_changed(TARGETS, 4);
}
