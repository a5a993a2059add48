//! A pool in this process: client, cluster and engine joined in one directory.
//!
//! A *system* directory holds pools; a pool directory holds its record, a lock with the owner's pid and a
//! directory for each target. One process owns a pool at a time; a second one is told by whom.
//!
//! - [`create`], [`open`], [`destroy`], [`list`] work on directories.
//! - [`LocalPool`] is the open pool: a `Transport`, driven by its callers, with an optional thread for
//!   background work. Dropping it closes it; [`LocalPool::close`] also reports errors.
//!
//! From nothing to a value and a file, as a program does it:
//!
//! ```
//! use dolmen_client::{At, ContName, Credentials, IoBuf, Kv, Label, ObjectClass, ObjectType, Pool, Props, PutCond};
//! use dolmen_dfs::{Dfs, FormatOptions, MountOptions, SetAttrs};
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = std::env::temp_dir().join(format!("dolmen-example-{}", std::process::id()));
//! // `volatile` agrees to a file system in memory, which loses the pool with the power.
//! let options = dolmen_local::PoolOptions { targets: 2, volatile: true, ..Default::default() };
//! dolmen_local::create(&dir, &options)?;
//! let local = Arc::new(dolmen_local::open(&dir, &Default::default())?);
//! let pool = Pool::connect(Arc::<dolmen_local::LocalPool>::clone(&local), Credentials::default())?;
//!
//! pool.create_container(Some(Label::new("stones")?), Props::new())?;
//! let stones = pool.open_container(&ContName::Label(Label::new("stones")?))?;
//! let kv = Kv::open(&stones, stones.alloc_oid(ObjectType::KvHashed, ObjectClass::UNKNOWN)?)?;
//! kv.put(At::Latest, b"menhir", b"stands", PutCond::None)?;
//! let mut value = IoBuf::default();
//! kv.get_existing(At::Latest, b"menhir", &mut value)?;
//! assert_eq!(&value[..], b"stands");
//!
//! // A container for files is created with the properties of their layout, then formatted once.
//! pool.create_container(Some(Label::new("files")?), Dfs::container_props())?;
//! let files = pool.open_container(&ContName::Label(Label::new("files")?))?;
//! Dfs::format(&files, &FormatOptions::default())?;
//! let dfs = Dfs::mount(&files, &MountOptions::default())?;
//! dfs.put_whole("/plan", b"three stones", &SetAttrs::KEEP)?;
//! assert_eq!(dfs.stat("/plan")?.size_bytes, 12);
//!
//! drop((dfs, files, stones, kv, pool));
//! drop(local);
//! dolmen_local::destroy(&dir)?;
//! # Ok(())
//! # }
//! ```

mod each;
mod error;
mod options;
mod pool;
mod record;
mod root;

pub use error::{Error, RecordFault, Result};
pub use options::{OpenOptions, PoolOptions, Upkeep};
pub use pool::LocalPool;
pub use root::{PoolEntry, create, destroy, list, open, target_id};
