//! Containers.

use crate::kit::c_tests;

c_tests!("cont":
    labels_and_uuids_open_containers,
    destroyed_containers_are_gone,
    exclusive_opens_meet_nobody,
    exclusive_handles_are_shared_as_bytes,
    evicted_handles_end_with_all_that_is_open,
    queries_count_handles_and_snapshots,
    queries_tell_when_containers_were_opened_and_changed,
    properties_are_kept,
    attributes_are_kept,
    attributes_without_a_value_or_a_name_are_refused,
    object_numbers_are_unique,
    owners_and_access_are_changed,
    some_things_do_not_exist,
    the_old_names_work_too,
);
