//! Paths that stand for containers.

use crate::kit::c_tests;

c_tests!("fs_uns": paths_are_made_resolved_and_destroyed, other_layouts_are_files, containers_are_linked, direct_paths_need_no_path);
