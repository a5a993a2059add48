//! Pipelines: filters put together, and run over what is stored.

use crate::kit::c_tests;

c_tests!("pipeline":
    filters_are_put_together_and_checked,
    what_is_none_is_refused,
    constants_have_a_limit_in_all,
    dkeys_that_meet_conditions_come_back,
    conditions_calculate,
    records_come_back_with_their_dkeys,
    values_are_aggregated,
    akeys_of_one_dkey_are_filtered,
    runs_end_when_somebody_polls,
    wrong_runs_are_refused,
);
