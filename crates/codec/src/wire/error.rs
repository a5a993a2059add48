//! An error with its typed fields: the body of a reply whose status is the error's number.

use super::field::{Field, Writer, choice};
use crate::bytes::Reader;
use dolmen_types::{Epoch, Error, Invalid, Place, TargetNo, TxId};

choice!(Invalid {
    Label = 1,
    ObjectId = 2,
    Key = 3,
    Extent = 4,
    Payload = 5,
    RecordSize = 6,
    Count = 7,
    Flags = 8,
    Anchor = 9,
    Query = 10,
    Epoch = 11,
    Property = 12,
    Name = 13,
    Path = 14,
    Layout = 15,
    Argument = 16,
    Credentials = 17,
    Engines = 18,
});

/// Which error: DAOS's numbers do not tell all of them apart. Persistent: never renumber.
impl Field for Error {
    const BYTES_MIN: usize = 1;

    fn put(&self, w: &mut Writer<'_>) {
        w.put(&number_of(self));
        match self {
            Self::Invalid(what) => w.put(what),
            Self::TxRestart { after } => w.put(after),
            Self::InDoubt { tx } => w.put(tx),
            Self::NoSpace { target, needed_bytes } => {
                w.put(target);
                w.put(needed_bytes);
            }
            Self::Corrupt { target, place } => {
                w.put(target);
                w.put(&**place);
            }
            Self::Io { target, errno } => {
                w.put(target);
                w.put(errno);
            }
            Self::ReadOnly { target } => w.put(target),
            Self::RecTooBig { needed_bytes } | Self::KeyTooBig { needed_bytes } => w.put(needed_bytes),
            Self::RecordSize { stored_bytes } => w.put(stored_bytes),
            Self::EpochGone { oldest } => w.put(oldest),
            Self::StaleMap { version } => w.put(version),
            Self::Unreachable { rank } => w.put(rank),
            Self::NotFound
            | Self::Exists
            | Self::NoContainer
            | Self::Busy
            | Self::TimedOut
            | Self::Canceled
            | Self::NoPermission
            | Self::NotEmpty
            | Self::NotDirectory
            | Self::IsDirectory
            | Self::HashCollision
            | Self::NoHandle
            | Self::QuotaLimit => {}
        }
    }

    fn read(r: &mut Reader<'_>) -> Option<Self> {
        Some(match r.u8()? {
            1 => Self::Invalid(Invalid::read(r)?),
            2 => Self::NotFound,
            3 => Self::Exists,
            4 => Self::TxRestart { after: Epoch::read(r)? },
            5 => Self::InDoubt { tx: TxId::read(r)? },
            6 => Self::NoSpace { target: TargetNo::read(r)?, needed_bytes: r.u64()? },
            7 => Self::Corrupt { target: TargetNo::read(r)?, place: Box::new(Place::read(r)?) },
            8 => Self::Io { target: TargetNo::read(r)?, errno: i32::read(r)? },
            9 => Self::ReadOnly { target: TargetNo::read(r)? },
            10 => Self::RecTooBig { needed_bytes: r.u64()? },
            11 => Self::KeyTooBig { needed_bytes: r.u64()? },
            12 => Self::RecordSize { stored_bytes: r.u64()? },
            13 => Self::EpochGone { oldest: Epoch::read(r)? },
            14 => Self::NoContainer,
            15 => Self::Busy,
            16 => Self::TimedOut,
            17 => Self::Canceled,
            18 => Self::NoPermission,
            19 => Self::StaleMap { version: r.u32()? },
            20 => Self::NotEmpty,
            21 => Self::NotDirectory,
            22 => Self::IsDirectory,
            23 => Self::HashCollision,
            24 => Self::Unreachable { rank: r.u32()? },
            25 => Self::NoHandle,
            26 => Self::QuotaLimit,
            _ => return None,
        })
    }
}

fn number_of(error: &Error) -> u8 {
    match error {
        Error::Invalid(_) => 1,
        Error::NotFound => 2,
        Error::Exists => 3,
        Error::TxRestart { .. } => 4,
        Error::InDoubt { .. } => 5,
        Error::NoSpace { .. } => 6,
        Error::Corrupt { .. } => 7,
        Error::Io { .. } => 8,
        Error::ReadOnly { .. } => 9,
        Error::RecTooBig { .. } => 10,
        Error::KeyTooBig { .. } => 11,
        Error::RecordSize { .. } => 12,
        Error::EpochGone { .. } => 13,
        Error::NoContainer => 14,
        Error::Busy => 15,
        Error::TimedOut => 16,
        Error::Canceled => 17,
        Error::NoPermission => 18,
        Error::StaleMap { .. } => 19,
        Error::NotEmpty => 20,
        Error::NotDirectory => 21,
        Error::IsDirectory => 22,
        Error::HashCollision => 23,
        Error::Unreachable { .. } => 24,
        Error::NoHandle => 25,
        Error::QuotaLimit => 26,
    }
}
