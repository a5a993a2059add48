//! Objects.

use crate::kit::c_tests;

c_tests!("obj":
    single_values_come_back,
    values_lie_in_several_pieces_of_memory,
    sizes_are_told_without_buffers,
    fetches_of_more_than_memory_are_refused,
    array_values_have_extents_and_holes,
    extents_out_of_order_land_where_they_belong,
    conditions_are_checked,
    conditions_hold_for_single_akeys,
    punched_is_gone,
    dkeys_are_listed_in_pages,
    a_key_that_does_not_fit_tells_its_length,
    akeys_and_extents_are_listed,
    split_listings_cover_everything_once,
    a_listing_goes_on_behind_a_key,
    integer_keys_are_queried,
    ids_carry_type_and_class,
    the_old_name_generates_ids_too,
    handles_that_are_none_are_refused,
    what_is_opened_for_reading_is_not_written,
    objects_are_verified_and_dated,
    classes_of_ones_own_do_not_exist,
);
