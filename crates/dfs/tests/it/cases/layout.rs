//! What lies in the store: another program of this layout must find it.

use super::common::{World, put};
use dolmen_client::{At, Container, Page};
use dolmen_dfs::layout::inode::Inode;
use dolmen_dfs::{FileKind, Follow, XattrCond, layout};
use dolmen_types::{Anchor, IoBuf, ObjectClass, Oid, PropId, PropValue, Recx};

fn value(container: &Container, oid: Oid, dkey: &[u8], akey: &[u8]) -> Option<Vec<u8>> {
    let mut buf = IoBuf::default();
    container.object(oid).unwrap().get(At::Latest, dkey, akey, &mut buf).unwrap().map(|_| buf.to_vec())
}

fn record(container: &Container, oid: Oid, dkey: &[u8]) -> Inode {
    let mut buf = IoBuf::default();
    let object = container.object(oid).unwrap();
    let found = object.read(At::Latest, dkey, b"DFS_INODE", 1, Recx::new(0, 1000), &mut buf).unwrap();
    assert_eq!(found.filled[..], [Recx::new(0, 88)]);
    Inode::from_bytes(buf.first_chunk().unwrap()).unwrap()
}

fn akeys(container: &Container, oid: Oid, dkey: &[u8]) -> Vec<Vec<u8>> {
    let object = container.object(oid).unwrap();
    let keys = object.list_akeys(At::Latest, dkey, &mut Anchor::default(), Page::default()).unwrap();
    let mut keys: Vec<_> = keys.iter().map(<[u8]>::to_vec).collect();
    keys.sort();
    keys
}

#[test]
fn superblock_and_root_lie_where_the_layout_says() {
    let world = World::new(2);
    let superblock = Oid { hi: 0x0001_0001_0000_0000, lo: 0 };
    let root = Oid { hi: 0x0001_0001_0000_0001, lo: 0 };
    let get = |akey: &[u8]| value(&world.container, superblock, b"DFS_SB_METADATA", akey).unwrap();
    assert_eq!(get(b"DFS_MAGIC"), 0xda05_df50_da05_df50_u64.to_le_bytes());
    assert_eq!(get(b"DFS_SB_VERSION"), [2, 0]);
    assert_eq!(get(b"DFS_LAYOUT_VERSION"), [3, 0]);
    assert_eq!(get(b"DFS_CHUNK_SIZE"), (1_u64 << 20).to_le_bytes());
    let inode = record(&world.container, superblock, b"/");
    assert_eq!((inode.oid, inode.mode()), (root, 0o040_755));
    let props = world.container.props(&[]).unwrap();
    assert_eq!(props.get(&PropId::CO_LAYOUT_TYPE), Some(&PropValue::Number(1)));
    let Some(PropValue::Bytes(roots)) = props.get(&PropId::CO_ROOTS) else { panic!("no roots") };
    assert_eq!(roots[..32], [superblock.to_bytes(), root.to_bytes()].concat());
    assert_eq!(roots.len(), 64);
}

#[test]
fn entries_are_dkeys_with_a_record_of_88_bytes() {
    let world = World::new(1);
    let fs = world.mount();
    let root = fs.oid();
    put(&fs, "/f", b"data");
    fs.set_xattr("/f", "user.k", "v", XattrCond::Any, Follow::Yes).unwrap();
    fs.symlink("where/to", "/l").unwrap();
    let inode = record(&world.container, root, b"f");
    assert_eq!((inode.kind, inode.mode(), inode.chunk_bytes), (FileKind::File, 0o100_644, 1 << 20));
    assert_eq!(inode.oid.object_type(), Some(dolmen_types::ObjectType::ArrayByte));
    assert_eq!(akeys(&world.container, root, b"f"), [&b"DFS_INODE"[..], b"x:user.k"]);
    assert_eq!(value(&world.container, root, b"f", b"x:user.k").unwrap(), b"v");
    assert_eq!(akeys(&world.container, root, b"l"), [&b"DFS_INODE"[..], b"DFS_SLINK"]);
    assert_eq!(value(&world.container, root, b"l", b"DFS_SLINK").unwrap(), b"where/to");
    assert_eq!(record(&world.container, root, b"l").link_bytes, 8);
}

#[test]
fn files_are_byte_arrays_in_chunks_from_dkey_one_on() {
    let world = World::with(2, &super::common::small_chunks());
    let fs = world.mount();
    let file = put(&fs, "/f", &[5; 5000]);
    let object = world.container.object(file.oid()).unwrap();
    for (dkey, len) in [(1_u64, 4096), (2, 904)] {
        let mut buf = IoBuf::default();
        let whole = Recx::new(0, 4096);
        let found = object.read(At::Latest, &dkey.to_le_bytes(), b"0", 1, whole, &mut buf).unwrap();
        assert_eq!(found.filled[..], [Recx::new(0, len)]);
    }
}

#[test]
fn a_second_name_moves_attributes_to_the_companion() {
    let world = World::new(1);
    let fs = world.mount();
    let file = put(&fs, "/f", b"data");
    fs.set_xattr("/f", "user.k", "v", XattrCond::Any, Follow::Yes).unwrap();
    fs.link("/f", &fs, "/g").unwrap();
    let companion = layout::companion_oid(file.oid());
    assert_eq!(companion, Oid { hi: 0x0001_0001_8000_0000, lo: file.oid().lo });
    let keys = akeys(&world.container, companion, layout::DKEY_COMPANION);
    assert_eq!(keys, [&b"DFS_INODE"[..], b"DLM_LINKS", b"x:user.k"]);
    let links = value(&world.container, companion, layout::DKEY_COMPANION, layout::AKEY_LINKS);
    assert_eq!(links.unwrap(), 2_u64.to_le_bytes());
    for name in [b"f", b"g"] {
        let entry = record(&world.container, fs.oid(), name);
        assert!(entry.linked);
        assert_eq!((entry.oid, entry.mode(), entry.chunk_bytes), (file.oid(), 0o100_644, 1 << 20));
        assert_eq!(akeys(&world.container, fs.oid(), name), [b"DFS_INODE"]);
    }
}

#[test]
fn a_damaged_record_is_an_error_with_its_place() {
    let world = World::new(1);
    let fs = world.mount();
    put(&fs, "/f", b"").close().unwrap();
    let root = world.container.object(fs.oid()).unwrap();
    root.write(At::Latest, b"f", b"DFS_INODE", 1, Recx::new(0, 4), &[0; 4]).unwrap();
    let bad = dolmen_dfs::Error::BadRecord { dir: fs.oid(), name: b"f"[..].into() };
    assert_eq!(fs.stat("/f").unwrap_err(), bad);
    root.punch_records(At::Latest, b"f", b"DFS_INODE", &[Recx::new(80, 8)]).unwrap();
    assert_eq!(fs.stat("/f").unwrap_err(), bad);
    assert_eq!(bad.errno(), 5);
}

#[test]
fn a_root_of_another_class_is_found_by_the_roots_property() {
    let format = dolmen_dfs::FormatOptions { dir_class: ObjectClass::SX, ..Default::default() };
    let world = World::with(3, &format);
    let fs = world.mount();
    assert_eq!(fs.oid(), Oid { hi: 0x0001_0003_0000_0001, lo: 0 });
    for n in 0..50 {
        fs.mkdir(format!("/d{n}"), 0o755).unwrap();
    }
    assert_eq!(fs.names().unwrap().len(), 50);
}
