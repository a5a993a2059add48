//! What the libraries export.

use crate::kit;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// What is no function: programs that were compiled with DAOS's own headers look at it. The test is `gurt_log`.
const DATA: [&str; 6] = [
    "d_alt_assert",
    "d_fault_attr_mem",
    "d_fault_inject",
    "d_log_xst",
    "d_misc_logfac",
    "d_misc_logfac_cache",
];

/// Facilities of the log that have two of these each.
const FACILITIES: [&str; 26] = [
    "bio",
    "chk",
    "client",
    "common",
    "container",
    "csum",
    "dfs",
    "dfuse",
    "drpc",
    "dtx",
    "duns",
    "il",
    "mgmt",
    "object",
    "pipeline",
    "placement",
    "pool",
    "rdb",
    "rebuild",
    "rsvc",
    "security",
    "server",
    "stack",
    "tests",
    "tree",
    "vos",
];

fn exported(library: &Path) -> BTreeSet<String> {
    let done =
        Command::new("nm").args(["-D", "--defined-only", "-f", "posix"]).arg(library).output().unwrap();
    assert!(done.status.success());
    let text = String::from_utf8(done.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
}

#[test]
fn the_library_exports_the_functions_of_the_tables_and_nothing_else() {
    let mut tables: BTreeSet<String> =
        kit::link::functions(kit::capi()).unwrap().into_iter().map(|f| f.name).collect();
    tables.extend(DATA.map(str::to_owned));
    tables.extend(FACILITIES.map(|name| format!("daos_{name}_logfac")));
    tables.extend(FACILITIES.map(|name| format!("daos_{name}_logfac_cache")));
    let library = exported(&kit::built());
    assert_eq!(library.difference(&tables).collect::<Vec<_>>(), Vec::<&String>::new(), "not in a table");
    assert_eq!(tables.difference(&library).collect::<Vec<_>>(), Vec::<&String>::new(), "not exported");
}

#[test]
fn a_program_that_links_one_library_alone_runs() {
    for library in ["daos", "gurt", "daos_common", "dfs", "duns"] {
        let program = kit::compile(&format!("only_{library}"), &format!("only_{library}"), &[library]);
        kit::assert_ended(&Command::new(program).output().unwrap(), library);
    }
}

#[test]
fn programs_find_version_two_of_the_library() {
    let done = Command::new("readelf").arg("-d").arg(kit::libraries().join("libdaos.so")).output().unwrap();
    assert!(String::from_utf8_lossy(&done.stdout).contains("[libdaos.so.2]"));
}

#[test]
fn names_of_old_are_weak() {
    let done = Command::new("nm").arg("-D").arg(kit::libraries().join("libdaos.so.2")).output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let is = |kind: &str, name: &str| text.lines().any(|line| line.ends_with(&format!(" {kind} {name}")));
    for name in kit::link::WEAK {
        assert!(is("W", name), "{name}");
        assert!(is("T", &format!("{name}2")), "{name}2");
    }
    assert_eq!(text.lines().filter(|line| line.contains(" W daos_")).count(), kit::link::WEAK.len());
}

#[test]
fn the_install_has_what_build_systems_look_for() {
    let prefix = kit::scratch("prefix");
    kit::link::install(&kit::built(), kit::capi(), &prefix, &prefix).unwrap();
    for file in [
        "include/daos.h",
        "include/gurt/types.h",
        "lib64/libdaos.so",
        "lib64/libdaos.so.2",
        "lib64/libdaos_common.so",
        "lib64/libdfs.so",
        "lib64/libduns.so",
        "lib64/libgurt.so",
        "lib64/libcart.so",
        "lib64/pkgconfig/daos.pc",
    ] {
        assert!(prefix.join(file).exists(), "{file}");
    }
}

/// Whether a table's test is one: `module::name` with a `#[test]` or a C test of that name.
fn is_test(test: &str) -> bool {
    let Some((module, name)) = test.split_once("::") else { return false };
    let text = std::fs::read_to_string(kit::capi().join(format!("tests/it/{module}.rs")));
    let is_boundary = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    text.is_ok_and(|text| text.split(is_boundary).any(|word| word == name))
}

#[test]
fn every_function_has_a_test_and_no_other_has_its_row() {
    let functions = kit::link::functions(kit::capi()).unwrap();
    let without: Vec<_> = functions.iter().filter(|f| !is_test(&f.test)).collect();
    assert!(without.is_empty(), "{without:?}");
    assert!(functions.windows(2).all(|pair| pair[0].name != pair[1].name));
    assert!(functions.len() > 300, "{}", functions.len());
}
