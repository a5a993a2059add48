//! Transactions.

use crate::kit::c_tests;

c_tests!("tx":
    writes_appear_with_the_commit,
    aborted_writes_never_appear,
    conflicts_are_restarted,
    some_only_read,
    transactions_belong_to_a_container,
    what_no_segment_takes_is_refused_whole,
);
