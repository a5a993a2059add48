//! Files in containers of the same UUID: pools that were filled from one source have them.

use crate::kit;
use dolmen_client::{ContName, Credentials, Label, Pool, Uuid};
use dolmen_dfs::{Dfs, FormatOptions};
use dolmen_local::{OpenOptions, PoolOptions};
use std::path::Path;
use std::sync::Arc;

/// Makes the container that both pools have, with a file system.
fn fill(pool: &Path) {
    let opened = Arc::new(dolmen_local::open(pool, &OpenOptions::default()).unwrap());
    let client = Pool::connect(opened, Credentials::default()).unwrap();
    let uuid = Uuid::from_u128(0x7417);
    let label = Some(Label::new("twin").unwrap());
    client.create_container_as(uuid, label, Dfs::container_props()).unwrap();
    let cont = client.open_container(&ContName::Uuid(uuid)).unwrap();
    let options = FormatOptions { root_mode: 0o777, ..FormatOptions::default() };
    Dfs::format(&cont, &options).unwrap();
}

#[test]
fn mounts_of_another_pool_are_left_alone() {
    let dir = kit::system("fs_twins");
    let options = PoolOptions {
        targets: 1,
        label: Some(Label::new("other").unwrap()),
        capacity_bytes: 128 << 20,
        volatile: true,
        ..PoolOptions::default()
    };
    dolmen_local::create(&dir.join("second"), &options).unwrap();
    ["first", "second"].iter().for_each(|pool| fill(&dir.join(pool)));
    let test = "mounts_of_another_pool_are_left_alone";
    let done = kit::output(&dir, &mut kit::test_of("fs_twins", test));
    kit::assert_ended(&done, test);
    assert_eq!(kit::names("fs_twins"), [test]);
    std::fs::remove_dir_all(dir).unwrap();
}
