//! From `daos_init` to `daos_fini`.

use crate::kit::c_tests;

c_tests!("life": init_is_counted, nothing_works_before_init, pool_and_container_open_and_close, errors_have_names);
