//! Who may open what, as C programs are told.

use crate::killed::process::Served;
use crate::kit;
use dolmen_client::{Credentials, Pool, PropId, PropValue, Props};
use dolmen_codec::acl::Acl;
use dolmen_local::OpenOptions;
use std::sync::Arc;

/// Lets a user into the pool of a system that nobody serves yet.
fn let_in(dir: &std::path::Path) {
    let local = dolmen_local::open(&dir.join("first"), &OpenOptions::default()).unwrap();
    let pool = Pool::connect(Arc::new(local), Credentials::default()).unwrap();
    let acl = Acl::of_texts(&["A::4200042@:rt"]).unwrap().encode();
    pool.set_props(&Props::from([(PropId::PO_ACL, PropValue::Bytes(acl))])).unwrap();
}

/// Runs a test with an engine that believes whom it is asked by.
fn assert_so(test: &str) {
    let dir = kit::system(&format!("access-{test}"));
    let_in(&dir);
    let served = Served::start(&dir);
    let mut program = kit::test_of("access", test);
    let done = program.env("DOLMEN_SYSTEM", served.system(true)).current_dir(&dir).output().unwrap();
    kit::assert_ended(&done, test);
    drop(served);
    std::fs::remove_dir_all(dir).unwrap();
}

const TESTS: [&str; 2] =
    ["what_a_list_does_not_allow_is_refused_at_the_open", "a_list_that_one_may_not_read_is_refused"];

#[test]
fn what_a_list_does_not_allow_is_refused_at_the_open() {
    assert_so(TESTS[0]);
    assert_eq!(kit::names("access"), TESTS);
}

#[test]
fn a_list_that_one_may_not_read_is_refused() {
    assert_so(TESTS[1]);
}
