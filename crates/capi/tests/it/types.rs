//! Parameters of every function, as programs for DAOS pass them.

use crate::kit::c_tests;

c_tests!("types":
    parameters_are_asserted_when_this_compiles,
);
