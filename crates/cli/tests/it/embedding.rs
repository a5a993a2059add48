//! A pool inside a program, from nothing to a value and a file: the example for who builds on the libraries.

use dolmen_client::{
    At, ContName, Credentials, IoBuf, Kv, Label, ObjectClass, ObjectType, Pool, Props, PutCond,
};
use dolmen_dfs::{Dfs, FormatOptions, MountOptions, SetAttrs};
use dolmen_local::{LocalPool, OpenOptions, PoolOptions};
use std::path::Path;
use std::sync::Arc;

fn program(dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    // `volatile` agrees to a file system in memory, which loses the pool with the power.
    let options = PoolOptions { targets: 2, volatile: true, ..PoolOptions::default() };
    dolmen_local::create(dir, &options)?;
    let local = Arc::new(dolmen_local::open(dir, &OpenOptions::default())?);
    let pool = Pool::connect(Arc::<LocalPool>::clone(&local), Credentials::default())?;

    pool.create_container(Some(Label::new("stones")?), Props::new())?;
    let stones = pool.open_container(&ContName::Label(Label::new("stones")?))?;
    let kv = Kv::open(&stones, stones.alloc_oid(ObjectType::KvHashed, ObjectClass::UNKNOWN)?)?;
    kv.put(At::Latest, b"menhir", b"stands", PutCond::None)?;
    let mut value = IoBuf::default();
    kv.get_existing(At::Latest, b"menhir", &mut value)?;
    assert_eq!(&value[..], b"stands");

    // A container for files is created with the properties of their layout, then formatted once.
    pool.create_container(Some(Label::new("files")?), Dfs::container_props())?;
    let files = pool.open_container(&ContName::Label(Label::new("files")?))?;
    Dfs::format(&files, &FormatOptions::default())?;
    let dfs = Dfs::mount(&files, &MountOptions::default())?;
    dfs.put_whole("/plan", b"three stones", &SetAttrs::KEEP)?;
    assert_eq!(dfs.stat("/plan")?.size_bytes, 12);

    // The pool closes with its last user; then another process may have it.
    drop((dfs, files, kv, stones, pool, local));
    dolmen_local::destroy(dir)?;
    Ok(())
}

#[test]
fn a_program_makes_a_pool_and_stores_a_value_and_a_file() {
    let place = crate::common::Place::new("embedding");
    program(&place.path("p")).unwrap();
    assert!(!place.path("p").exists());
}
