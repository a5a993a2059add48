//! What functions without error numbers say when they cannot.

use crate::kit::c_tests;

c_tests!("failed":
    memory_that_nobody_has_is_not_given,
    tables_without_the_record_say_so,
    lists_of_access_that_are_none_are_not_made,
    names_and_properties_that_are_none_have_no_value,
);
