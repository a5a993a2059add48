//! Pipelines: filters put together.

use crate::kit::c_tests;

c_tests!("pipeline":
    filters_are_put_together_and_checked,
    what_is_none_is_refused,
    running_does_not_exist_yet,
);
