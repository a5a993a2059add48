//! What is still open or under way when a pool is left does not reach the pool that has its number then.

use crate::killed::process::Served;
use crate::kit;
use dolmen_client::Label;
use dolmen_local::PoolOptions;
use std::path::{Path, PathBuf};

/// A system with two pools.
fn two_pools(name: &str) -> PathBuf {
    let dir = kit::system(name);
    let options = PoolOptions {
        targets: 2,
        label: Some(Label::new("other").unwrap()),
        capacity_bytes: 256 << 20,
        volatile: true,
        ..PoolOptions::default()
    };
    dolmen_local::create(&dir.join("second"), &options).unwrap();
    dir
}

/// Runs all tests of the program in a system of their own, served or not.
fn run_all(by: &str, run: impl Fn(&Path, &str)) {
    for test in kit::names("left") {
        let dir = two_pools(&format!("left-{by}-{test}"));
        run(&dir, &test);
        std::fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn nothing_of_a_pool_that_is_left_reaches_another_of_its_process() {
    run_all("here", |dir, test| {
        kit::assert_ended(&kit::output(dir, &mut kit::test_of("left", test)), test);
    });
}

#[test]
fn nothing_of_a_pool_that_is_left_reaches_another_of_its_daemon() {
    for by_network in [false, true] {
        run_all(if by_network { "tcp" } else { "unix" }, |dir, test| {
            let served = Served::start(dir);
            let mut command = kit::test_of("left", test);
            command.current_dir(dir).env("DOLMEN_SYSTEM", served.system(by_network));
            command.env("DAEMON_PID", served.id().to_string());
            kit::assert_ended(&command.output().unwrap(), test);
        });
    }
}
