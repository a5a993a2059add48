//! Entries and listings.

use crate::kit::c_tests;

c_tests!("fs_names": entries_are_removed, entries_are_moved_and_exchanged, names_are_listed_once, names_are_listed_with_attributes, names_are_given_to_a_function, a_listing_is_split, a_filter_lets_through_what_it_says);
