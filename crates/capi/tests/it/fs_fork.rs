//! Files and forks.

use crate::kit::c_tests;

c_tests!("fs_fork":
    mounts_do_not_survive_a_fork,
    the_last_fini_gives_mounts_up,
);
