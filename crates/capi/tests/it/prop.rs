//! Lists of properties.

use crate::kit::c_tests;

c_tests!("prop":
    lists_are_made_and_freed,
    texts_and_addresses_are_copied,
    different_acls_compare_as_such,
    lists_are_merged,
    lists_are_read_from_text,
);
