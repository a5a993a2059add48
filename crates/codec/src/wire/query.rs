//! A key query and its answer.

use super::field::record;
use crate::verb::{Found, Query, ReadAt};
use dolmen_types::{Key, Oid, QueryFlags, Recx};

record!(Query { oid: Oid, flags: QueryFlags, dkey: Key, akey: Key, at: ReadAt });
record!(Found { dkey: Key, akey: Key, recx: Option<Recx>, record_bytes: u64 });
