//! Objects.

use crate::kit::c_tests;
use crate::pool::assert_so_through_a_daemon;

c_tests!("obj":
    single_values_come_back,
    values_lie_in_several_pieces_of_memory,
    sizes_are_told_without_buffers,
    sizes_are_those_of_the_kind_that_is_asked_for,
    all_sizes_are_told_to_whom_has_too_little_room,
    fetches_of_more_than_memory_are_refused,
    array_values_have_extents_and_holes,
    extents_out_of_order_land_where_they_belong,
    conditions_are_checked,
    conditions_hold_for_single_akeys,
    punched_is_gone,
    dkeys_are_listed_in_pages,
    a_key_that_does_not_fit_tells_its_length,
    akeys_and_extents_are_listed,
    extents_are_listed_in_both_orders,
    extents_are_no_single_values_and_need_no_memory,
    split_listings_cover_everything_once,
    a_listing_goes_on_with_a_key,
    integer_keys_are_queried,
    ids_carry_type_and_class,
    the_old_name_generates_ids_too,
    handles_that_are_none_are_refused,
    what_is_opened_for_reading_is_not_written,
    objects_are_verified_and_dated,
    classes_of_ones_own_do_not_exist,
);

#[test]
fn sizes_and_extents_are_told_by_a_daemon_as_well() {
    for test in [
        "sizes_are_those_of_the_kind_that_is_asked_for",
        "all_sizes_are_told_to_whom_has_too_little_room",
        "extents_are_listed_in_both_orders",
        "a_listing_goes_on_with_a_key",
    ] {
        assert_so_through_a_daemon("obj", test);
    }
}
