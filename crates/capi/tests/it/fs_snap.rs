//! Mounts of snapshots.

use crate::kit;
use dolmen_client::{ContName, Credentials, Label, Pool};
use dolmen_local::OpenOptions;
use std::sync::Arc;

#[test]
fn snapshots_are_mounted() {
    let dir = kit::system("fs_snap");
    let step = |test: &str, epoch: u64| {
        let done = kit::output(&dir, kit::test_of("fs_snap", test).env("T_EPOCH", epoch.to_string()));
        kit::assert_ended(&done, test);
    };
    step("prepare", 0);
    let pool = Arc::new(dolmen_local::open(&dir.join("first"), &OpenOptions::default()).unwrap());
    let client = Pool::connect(pool, Credentials::default()).unwrap();
    let files = client.open_container(&ContName::Label(Label::new("files").unwrap())).unwrap();
    let epoch = files.create_snapshot(Some("tuesday")).unwrap();
    drop((files, client));
    step("snapshots_are_mounted", epoch.0);
    assert!(epoch.0 > 0);
}
