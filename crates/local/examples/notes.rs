//! A pool inside a program: from nothing to a value, a snapshot of it, and what was before.

use dolmen_client::{
    At, ContName, Credentials, Durability, IoBuf, Kv, Label, ObjectClass, ObjectType, Pool, PropId,
    PropValue, Props, PutCond,
};
use dolmen_local::{LocalPool, OpenOptions, PoolOptions};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("dolmen-notes-{}", std::process::id()));
    let done = program(&dir);
    dolmen_local::destroy(&dir)?;
    done
}

fn program(dir: &Path) -> Result<(), Box<dyn Error>> {
    // `volatile` agrees to a file system in memory, which loses the pool with the power.
    let options = PoolOptions { targets: 2, volatile: true, ..PoolOptions::default() };
    dolmen_local::create(dir, &options)?;
    let local = Arc::new(dolmen_local::open(dir, &OpenOptions::default())?);
    let pool = Pool::connect(Arc::<LocalPool>::clone(&local), Credentials::default())?;

    let label = Label::new("notes")?;
    let props = Props::from([(PropId::CO_DURABILITY, PropValue::Number(Durability::Power as u64))]);
    pool.create_container(Some(label.clone()), props)?;
    let notes = pool.open_container(&ContName::Label(label))?;
    let kv = Kv::open(&notes, notes.alloc_oid(ObjectType::KvHashed, ObjectClass::UNKNOWN)?)?;
    kv.put(At::Latest, b"menhir", b"stands", PutCond::None)?;
    let monday = notes.create_snapshot(Some("monday"))?;
    kv.put(At::Latest, b"menhir", b"fell", PutCond::None)?;

    let mut value = IoBuf::default();
    kv.get_existing(At::Latest, b"menhir", &mut value)?;
    assert_eq!(&value[..], b"fell");
    kv.get_existing(At::Snapshot(monday), b"menhir", &mut value)?;
    assert_eq!(&value[..], b"stands");

    // The pool closes with its last user; then another process may have it.
    drop((kv, notes, pool));
    Arc::into_inner(local).map_or(Ok(()), LocalPool::close)?;
    Ok(())
}
