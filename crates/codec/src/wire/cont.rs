//! The body of a container verb, and a container's usage.

use super::field::{Field, Writer, record};
use crate::bytes::Reader;
use crate::order::HashKey;
use crate::verb::{ContSpec, ContVerb, Usage};
use dolmen_types::{Durability, Epoch};

record!(ContSpec { hash_key: HashKey, durability: Durability });
record!(Usage { versions: u64, value_bytes: u64, bulk_bytes: u64, small_bytes: u64 });

/// What happens to the container. Persistent: never renumber.
const CREATE: u8 = 0;
const DESTROY: u8 = 1;
const USAGE: u8 = 2;
const RAISE_FLOOR: u8 = 3;
const ADD_SNAPSHOT: u8 = 4;
const REMOVE_SNAPSHOT: u8 = 5;
const ROLLBACK: u8 = 6;
const AGGREGATE: u8 = 7;

impl Field for ContVerb {
    const BYTES_MIN: usize = 1;

    fn put(&self, w: &mut Writer<'_>) {
        let (number, epoch) = match self {
            Self::Create(spec) => {
                w.put(&CREATE);
                return w.put(spec);
            }
            Self::Rollback { to, at } => {
                w.put(&ROLLBACK);
                w.put(to);
                return w.put(at);
            }
            Self::Destroy => (DESTROY, None),
            Self::Usage => (USAGE, None),
            Self::RaiseFloor(epoch) => (RAISE_FLOOR, Some(epoch)),
            Self::AddSnapshot(epoch) => (ADD_SNAPSHOT, Some(epoch)),
            Self::RemoveSnapshot(epoch) => (REMOVE_SNAPSHOT, Some(epoch)),
            Self::Aggregate(epoch) => (AGGREGATE, Some(epoch)),
        };
        w.put(&number);
        if let Some(epoch) = epoch {
            w.put(epoch);
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(match r.u8()? {
            CREATE => Self::Create(ContSpec::read(r)?),
            DESTROY => Self::Destroy,
            USAGE => Self::Usage,
            RAISE_FLOOR => Self::RaiseFloor(Epoch::read(r)?),
            ADD_SNAPSHOT => Self::AddSnapshot(Epoch::read(r)?),
            REMOVE_SNAPSHOT => Self::RemoveSnapshot(Epoch::read(r)?),
            ROLLBACK => Self::Rollback { to: Epoch::read(r)?, at: Epoch::read(r)? },
            AGGREGATE => Self::Aggregate(Epoch::read(r)?),
            _ => return None,
        })
    }
}
