//! Sizes, offsets, numbers, and the functions that live in headers.

use crate::kit::c_tests;

c_tests!("layout":
    layouts_are_asserted_when_this_compiles,
    anchors_and_handles_are_asked_inline,
    labels_and_numbers_are_checked_inline,
    object_ids_are_taken_apart_inline,
);
