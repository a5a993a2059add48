//! The client of a pool: pools, containers, objects, arrays, key-values, transactions, events.
//!
//! A client reaches whatever serves a pool through [`Transport`] and never learns what that is. It computes
//! where each shard lies, splits what is too large for one request, repeats requests after a newer pool map,
//! and holds the writes of a transaction until its commit.
//!
//! - [`Pool`], [`Container`], [`Object`]: handles, cheap to clone, `Send` and `Sync`. An object's handle is
//!   local: opening and closing asks nobody.
//! - [`At`] says when an operation reads or writes: now, in a transaction, or in a snapshot.
//! - [`Array`] and [`Kv`] are the two flat forms of an object, laid out as DAOS lays them out.
//! - [`Tx`] is a serialisable transaction that sees its own writes; [`Container::transact`] repeats one until
//!   it meets no conflict.
//! - [`Batch`] changes several objects at once without a look at them.
//! - [`EventQueue`] and [`Event`] are asynchronous operations, driven by whoever polls.
//!
//! ```
//! use dolmen_client::{At, ContName, Credentials, Error, IoBuf, Kv, ObjectClass, ObjectType};
//! use dolmen_client::{Pool, Props, PutCond, Result, Transport};
//! use std::sync::Arc;
//!
//! /// Moves a value from one key to another, whatever others do.
//! fn rename(transport: Arc<dyn Transport>) -> Result<()> {
//!     let pool = Pool::connect(transport, Credentials::default())?;
//!     let created = pool.create_container(None, Props::new())?;
//!     let cont = pool.open_container(&ContName::Uuid(created.uuid))?;
//!     let kv = Kv::open(&cont, cont.alloc_oid(ObjectType::KvHashed, ObjectClass::UNKNOWN)?)?;
//!     kv.put(At::Latest, b"menhir", b"stone", PutCond::Insert)?;
//!     cont.transact(|tx| {
//!         let mut value = IoBuf::default();
//!         kv.get_existing(At::Tx(tx), b"menhir", &mut value)?;
//!         kv.remove(At::Tx(tx), b"menhir", true)?;
//!         kv.put(At::Tx(tx), b"dolmen", &value, PutCond::Insert)?;
//!         Ok::<(), Error>(())
//!     })
//! }
//! ```
//!
//! All operations fail with [`Error`]; a call says only which errors a caller acts on.

mod array;
mod at;
mod batch;
mod chunks;
mod client;
mod container;
mod event;
mod gathered;
mod kv;
mod later;
mod listing;
mod object;
mod oids;
mod pool;
mod pool_props;
mod reads;
mod split;
mod together;
mod tx;
mod walk;

pub use array::{Array, ArrayPart, ArrayRead, ArrayStat};
pub use at::At;
pub use batch::Batch;
pub use client::Options;
pub use container::{Container, LockAsked};
pub use event::{Callback, Event, EventId, EventQueue, Output, Wait};
pub use gathered::{Gathered, Leased};
pub use kv::{Kv, PutCond};
pub use object::{Fetched, Object, Page};
pub use pool::Pool;
pub use pool_props::{POOL_PROPS, PoolProp};
pub use together::side_by_side;
pub use tx::Tx;
pub use walk::{ChangeWalk, ObjectWalk};

pub use dolmen_codec::lock;
pub use dolmen_codec::pool::{
    ContHandle, ContInfo, ContName, FilesAsk, FilesReply, OpenFor, PoolInfo, Snapshot, Whose,
};
pub use dolmen_codec::quota;
pub use dolmen_codec::verb::{
    Audit, Change, ChangeKind, FetchIod, FetchedIod, Finding, Found, ListedExtent, NewValue, PackedKeys,
    Payload, SpaceReport, UpdateIod, Usage, Want,
};
pub use dolmen_codec::{Lease, Transport, Way, now};
pub use dolmen_types::limits;
pub use dolmen_types::{
    Anchor, Cond, Credentials, Durability, Epoch, Error, Invalid, IoBuf, Key, Label, ObjectClass, ObjectType,
    Oid, PropId, PropValue, Props, QueryFlags, Recx, Result, Uuid,
};
