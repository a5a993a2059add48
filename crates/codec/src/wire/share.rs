//! The body of what engines tell each other of shares of limits.

use super::field::{Field, Writer, read_list, record};
use crate::bytes::Reader;
use crate::quota::{Bounds, Charge, Share, ShareAsk, ShareTold, Told, Wish};
use dolmen_types::limits::FRAME_BODY_BYTES_MAX;
use dolmen_types::{ContNo, RequestId, TxId, Uuid};

record!(Share { cont: ContNo, life: u64, number: u64, ask: ShareAsk });
record!(Wish { id: RequestId, all: Charge, users: Vec<(u32, Charge)>, is_tx: bool });

impl Field for RequestId {
    const BYTES_MIN: usize = Uuid::BYTES_MIN + 8;

    fn put(&self, w: &mut Writer<'_>) {
        w.put(&Uuid::from_u128(self.client));
        w.put(&self.sequence);
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(Self { client: Uuid::read(r)?.as_u128(), sequence: r.u64()? })
    }
}

/// A list of something, as long as a frame.
macro_rules! lists {
    ($($of:ty),+) => {$(
        impl Field for Vec<$of> {
            const BYTES_MIN: usize = 4;

            fn put(&self, w: &mut Writer<'_>) {
                w.list(self, FRAME_BODY_BYTES_MAX);
            }

            fn read(r: &mut Reader<'_>) -> Option<Self> {
                read_list(r, FRAME_BODY_BYTES_MAX)
            }
        }
    )+};
}

lists!((u32, Charge), Wish, (RequestId, bool), ContNo);

/// Users in ascending order, each once.
impl Field for Bounds {
    const BYTES_MIN: usize = Charge::BYTES_MIN + 4;

    fn put(&self, w: &mut Writer<'_>) {
        w.put(&self.all);
        w.count(self.users.len(), FRAME_BODY_BYTES_MAX);
        for (uid, bound) in &self.users {
            w.put(uid);
            w.put(bound);
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        let (all, users) = (Charge::read(r)?, Vec::<(u32, Charge)>::read(r)?);
        users
            .is_sorted_by(|one, next| one.0 < next.0)
            .then(|| Self { all, users: users.into_iter().collect() })
    }
}

/// What is asked. Persistent: never renumber.
const LOOK: u8 = 0;
const RECALL: u8 = 1;
const SET: u8 = 2;
const MOVES: u8 = 3;
const SHORT: u8 = 4;

impl Field for ShareAsk {
    const BYTES_MIN: usize = 1;

    fn put(&self, w: &mut Writer<'_>) {
        match self {
            Self::Look(of) => {
                w.put(&LOOK);
                w.put(of);
            }
            Self::Recall => w.put(&RECALL),
            Self::Set { bounds, told } => {
                w.put(&SET);
                w.put(bounds);
                w.put(told);
            }
            Self::Moves(tx, names) => {
                w.put(&MOVES);
                w.put(tx);
                w.put(names);
            }
            Self::Short => w.put(&SHORT),
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(match r.u8()? {
            LOOK => Self::Look(Field::read(r)?),
            RECALL => Self::Recall,
            SET => Self::Set { bounds: Bounds::read(r)?, told: Field::read(r)? },
            MOVES => Self::Moves(TxId::read(r)?, r.u64()?),
            SHORT => Self::Short,
            _ => return None,
        })
    }
}

/// What is answered. Persistent: never renumber.
const ACCOUNT: u8 = 0;
const SHORT_IN: u8 = 1;
/// As the first, and what is about to be given behind it, where there is any.
const ACCOUNT_GIVEN: u8 = 2;

impl Told {
    fn put(&self, w: &mut Writer<'_>) {
        let Self { life, bounds, used, incoming, wishes, changes, number } = self;
        w.put(if incoming.is_empty() { &ACCOUNT } else { &ACCOUNT_GIVEN });
        w.put(life);
        w.put(bounds);
        w.put(used);
        w.put(wishes);
        w.put(changes);
        w.put(number);
        if !incoming.is_empty() {
            w.put(incoming);
        }
    }

    /// REQUIRES: the kind is one of both.
    fn read(r: &mut Reader<'_>, kind: u8) -> Option<Self> {
        let (life, bounds, used) = (r.u64()?, Bounds::read(r)?, Field::read(r)?);
        let (wishes, changes, number) = (Field::read(r)?, r.u64()?, r.u64()?);
        let incoming = match kind {
            ACCOUNT_GIVEN => Vec::read(r).filter(|incoming| !incoming.is_empty())?,
            _ => Vec::new(),
        };
        Some(Self { life, bounds, used, incoming, wishes, changes, number })
    }
}

impl Field for ShareTold {
    const BYTES_MIN: usize = 1 + 4;

    fn put(&self, w: &mut Writer<'_>) {
        match self {
            Self::Account(told) => told.put(w),
            Self::Short(conts) => {
                w.put(&SHORT_IN);
                w.put(conts);
            }
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(match r.u8()? {
            kind @ (ACCOUNT | ACCOUNT_GIVEN) => Self::Account(Told::read(r, kind)?),
            SHORT_IN => Self::Short(Field::read(r)?),
            _ => return None,
        })
    }
}
