//! Pools.

use crate::kit::c_tests;

c_tests!("pool":
    connections_tell_the_state,
    wrong_connections_are_refused,
    properties_are_told,
    targets_are_told,
    containers_are_listed,
    attributes_are_kept,
    several_connections_share_a_pool,
    both_names_connect,
    handles_do_not_survive_a_fork,
);
