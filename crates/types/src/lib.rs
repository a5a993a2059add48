//! The words of Dolmen as types: ids, keys, epochs, classes, status codes and limits.
//!
//! Nothing here does I/O, reads a clock or allocates more than its argument. Numbers that a C program
//! hands over (class ids, error codes, flags, property numbers) are those of DAOS; each such table cites
//! its source with a `//=` line.

mod anchor;
mod buf;
mod checksum;
mod class;
mod epoch;
mod error;
mod flags;
mod ids;
mod key;
pub mod limits;
mod oid;
mod prop;
mod shown;

pub use anchor::{Anchor, AnchorState};
pub use buf::IoBuf;
pub use checksum::{crc32c, crc32c_append, crc32c_join};
pub use class::{ObjectClass, Redundancy};
pub use epoch::{Epoch, Stamp};
pub use error::{Error, Invalid, Place, Result};
pub use flags::{Cond, QueryFlags};
pub use ids::{
    ContNo, Credentials, Head, Label, PoolMap, RequestId, TargetInfo, TargetNo, TargetState, TxId,
    uuid_of_random,
};
pub use key::{Key, KeyKind, Recx};
pub use oid::{ObjectType, Oid};
pub use prop::{Durability, PropId, PropValue, Props};
pub use shown::shown;
pub use uuid::Uuid;
