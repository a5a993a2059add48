//! Read-only views of a snapshot.

use super::common::{World, cat, put};
use dolmen_dfs::{Error, OpenOptions, RenameMode};

#[test]
fn a_snapshot_shows_the_tree_as_it_was() {
    let world = World::new(3);
    let fs = world.mount();
    fs.mkdir("/d", 0o755).unwrap();
    let file = put(&fs, "/d/f", b"before");
    put(&fs, "/gone", b"still here");
    fs.link("/d/f", &fs, "/linked").unwrap();
    let epoch = world.container.create_snapshot(None).unwrap();
    file.write_at(0, b"after!").unwrap();
    fs.unlink("/gone").unwrap();
    fs.unlink("/linked").unwrap();
    fs.rename("/d", &fs, "/e", RenameMode::Replace).unwrap();
    let old = world.mount_at(epoch);
    assert!(old.is_read_only());
    assert_eq!(cat(&old, "/d/f"), b"before");
    assert_eq!(cat(&old, "/gone"), b"still here");
    assert_eq!(old.stat("/linked").unwrap().links, 2);
    assert_eq!(old.names().unwrap(), [&b"d"[..], b"gone", b"linked"]);
    assert_eq!(old.open("/gone", &OpenOptions::WRITE).unwrap_err(), Error::ReadOnly);
    assert_eq!(old.unlink("/gone").unwrap_err(), Error::ReadOnly);
    assert_eq!(cat(&fs, "/e/f"), b"after!");
}
