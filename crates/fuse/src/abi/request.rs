//! Requests, from bytes.

use super::op::code;
pub use super::op::{LockHow, LockOp, NewAttrs, NewTime, Op, Range, WriteHow};
use dolmen_dfs::lock::LockKind;

/// Bytes before the part that each operation has of its own.
pub(crate) const HEAD_BYTES: usize = 40;
/// Where it has the number of its node.
pub(crate) const NODE_AT: usize = 16;

/// Nodes in one message that forgets many: more do not fit into a request.
const FORGETS_MAX: u32 = 1 << 17;

const NAME_BYTES_MAX: usize = 255;
const TARGET_BYTES_MAX: usize = 4095;

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Process; 0 if it is in another name space.
    pub pid: u32,
}

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// Its number, which the reply repeats.
    pub unique: u64,
    /// What it is about.
    pub node: u64,
    /// On whose behalf.
    pub caller: Caller,
    /// What is to be done.
    pub op: Op<'a>,
}

/// Why bytes are no request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Not even whom to answer is in them.
    Unreadable,
    /// What is asked makes no sense.
    Malformed {
        /// The request's number.
        unique: u64,
    },
    /// A name is longer than 255 bytes, or a link's target longer than 4095.
    NameTooLong {
        /// The request's number.
        unique: u64,
    },
}

/// Fields, one after another.
struct Fields<'a>(&'a [u8]);

/// What is missing in a message.
enum Missing {
    Bytes,
    ShortName,
}

type Part<T> = Result<T, Missing>;

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Part<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Missing::Bytes)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Part<u32> {
        let bytes = self.take(4)?.try_into().map_err(|_never| Missing::Bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> Part<u64> {
        let bytes = self.take(8)?.try_into().map_err(|_never| Missing::Bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Bytes up to a zero, which is taken as well.
    fn text(&mut self, len_max: usize) -> Part<&'a [u8]> {
        let len = self.0.iter().position(|byte| *byte == 0).ok_or(Missing::Bytes)?;
        let text = self.take(len)?;
        self.take(1)?;
        if len > len_max { Err(Missing::ShortName) } else { Ok(text) }
    }

    /// The name of an entry.
    fn name(&mut self) -> Part<&'a [u8]> {
        let name = self.text(NAME_BYTES_MAX)?;
        let is_entry = !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/');
        if is_entry { Ok(name) } else { Err(Missing::Bytes) }
    }

    fn range(&mut self) -> Part<Range> {
        Ok(Range { handle: self.u64()?, offset: self.u64()?, len: u64::from(self.u32()?) })
    }
}

impl<'a> Request<'a> {
    /// Reads a request. `xattr_is_long` says which of two forms the kernel has agreed to use.
    ///
    /// # Errors
    /// [`Refused`]: what is wrong, and which number an answer needs.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Refused> {
        let mut fields = Fields(bytes);
        let head = head(&mut fields).map_err(|_missing| Refused::Unreadable)?;
        let Head { len, code, unique, node, caller, extra_bytes } = head;
        let own = (len as usize).checked_sub(HEAD_BYTES + extra_bytes);
        let own = own.filter(|own| *own + extra_bytes == fields.0.len());
        let own = own.ok_or(Refused::Malformed { unique })?;
        let mut fields = Fields(&fields.0[..own]);
        match op(code, node, &mut fields) {
            Ok(op) => Ok(Self { unique, node, caller, op }),
            Err(Missing::Bytes) => Err(Refused::Malformed { unique }),
            Err(Missing::ShortName) => Err(Refused::NameTooLong { unique }),
        }
    }
}

struct Head {
    len: u32,
    code: u32,
    unique: u64,
    node: u64,
    caller: Caller,
    extra_bytes: usize,
}

fn head(fields: &mut Fields<'_>) -> Part<Head> {
    let (len, code, unique, node) = (fields.u32()?, fields.u32()?, fields.u64()?, fields.u64()?);
    let caller = Caller { uid: fields.u32()?, gid: fields.u32()?, pid: fields.u32()? };
    // Length of extensions, in units of 8 bytes, in the lower half.
    let extra_bytes = (fields.u32()? & 0xffff) as usize * 8;
    Ok(Head { len, code, unique, node, caller, extra_bytes })
}

fn op<'a>(code: u32, node: u64, fields: &mut Fields<'a>) -> Part<Op<'a>> {
    Ok(match code {
        code::LOOKUP => Op::Lookup { name: fields.name()? },
        code::FORGET => Op::Forget(vec![(node, fields.u64()?)]),
        code::BATCH_FORGET => forgets(fields)?,
        code::GETATTR => {
            let (flags, _) = (fields.u32()?, fields.u32()?);
            let handle = fields.u64()?;
            Op::GetAttr { handle: (flags & 1 != 0).then_some(handle) }
        }
        code::SETATTR => Op::SetAttr(attrs_to_set(fields)?),
        code::READLINK => Op::ReadLink,
        code::SYMLINK => Op::SymLink { name: fields.name()?, target: fields.text(TARGET_BYTES_MAX)? },
        code::MKNOD => {
            let (mode, rdev, umask, _) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
            Op::MkNod { name: fields.name()?, mode, rdev, umask }
        }
        code::MKDIR => {
            let (mode, umask) = (fields.u32()?, fields.u32()?);
            Op::MkDir { name: fields.name()?, mode, umask }
        }
        code::UNLINK => Op::Unlink { name: fields.name()? },
        code::RMDIR => Op::RmDir { name: fields.name()? },
        code::RENAME => {
            let new_dir = fields.u64()?;
            Op::Rename { name: fields.name()?, new_dir, new_name: fields.name()?, flags: 0 }
        }
        code::RENAME2 => {
            let (new_dir, flags, _) = (fields.u64()?, fields.u32()?, fields.u32()?);
            Op::Rename { name: fields.name()?, new_dir, new_name: fields.name()?, flags }
        }
        code::LINK => Op::Link { old: fields.u64()?, name: fields.name()? },
        code::STATFS => Op::StatFs,
        code::INIT => init(fields)?,
        code::DESTROY => Op::Destroy,
        code::INTERRUPT => Op::Interrupt { unique: fields.u64()? },
        code::SYNCFS => Op::SyncFs,
        code::ACCESS => Op::Access,
        code::OPENDIR => Op::OpenDir,
        code::FSYNCDIR => Op::FSyncDir,
        other => return of_open(other, fields),
    })
}

/// Operations on open files and on extended attributes.
fn of_open<'a>(code: u32, fields: &mut Fields<'a>) -> Part<Op<'a>> {
    Ok(match code {
        code::OPEN => Op::Open { flags: fields.u32()? },
        code::CREATE | code::TMPFILE => {
            let (flags, mode, umask, _) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
            match code {
                code::CREATE => Op::Create { name: fields.name()?, flags, mode, umask },
                _ => Op::TmpFile { flags, mode, umask },
            }
        }
        code::READ => Op::Read(fields.range()?),
        code::WRITE => write(fields)?,
        code::RELEASE => release(fields)?,
        code::RELEASEDIR => Op::ReleaseDir { handle: fields.u64()? },
        code::FLUSH => {
            let (handle, _, owner) = (fields.u64()?, fields.u64()?, fields.u64()?);
            Op::Flush { handle, owner }
        }
        code::GETLK => Op::Lock(lock(LockHow::Test, fields)?),
        code::SETLK => Op::Lock(lock(LockHow::Set, fields)?),
        code::SETLKW => Op::Lock(lock(LockHow::Wait, fields)?),
        code::FSYNC => Op::FSync { handle: fields.u64()? },
        code::READDIR | code::READDIRPLUS => {
            let (handle, offset, room_bytes) = (fields.u64()?, fields.u64()?, fields.u32()?);
            Op::ReadDir { handle, offset, room_bytes, with_attrs: code == code::READDIRPLUS }
        }
        code::SETXATTR => {
            let (len, flags) = (fields.u32()?, fields.u32()?);
            let name = fields.text(NAME_BYTES_MAX)?;
            Op::SetXattr { name, value: fields.take(len as usize)?, flags }
        }
        code::GETXATTR | code::LISTXATTR => {
            let (room_bytes, _) = (fields.u32()?, fields.u32()?);
            match code {
                code::GETXATTR => Op::GetXattr { name: fields.text(NAME_BYTES_MAX)?, room_bytes },
                _ => Op::ListXattr { room_bytes },
            }
        }
        code::REMOVEXATTR => Op::RemoveXattr { name: fields.text(NAME_BYTES_MAX)? },
        code::FALLOCATE => {
            let range = Range { handle: fields.u64()?, offset: fields.u64()?, len: fields.u64()? };
            Op::FAllocate { range, mode: fields.u32()? }
        }
        code::LSEEK => Op::LSeek { handle: fields.u64()?, offset: fields.u64()?, whence: fields.u32()? },
        other => Op::Other(other),
    })
}

fn init<'a>(fields: &mut Fields<'_>) -> Part<Op<'a>> {
    const HAS_MORE_FLAGS: u32 = 1 << 30;
    let (major, minor, readahead_bytes, low) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let high = if low & HAS_MORE_FLAGS != 0 { fields.u32()? } else { 0 };
    Ok(Op::Init { major, minor, readahead_bytes, flags: u64::from(low) | u64::from(high) << 32 })
}

fn forgets<'a>(fields: &mut Fields<'_>) -> Part<Op<'a>> {
    let (count, _) = (fields.u32()?, fields.u32()?);
    // Also keeps a count that lies from taking memory.
    if count > FORGETS_MAX || (count as usize) * 16 > fields.0.len() {
        return Err(Missing::Bytes);
    }
    let one = |_| Ok((fields.u64()?, fields.u64()?));
    (0..count).map(one).collect::<Part<Vec<_>>>().map(Op::Forget)
}

fn write<'a>(fields: &mut Fields<'a>) -> Part<Op<'a>> {
    const FROM_CACHE: u32 = 1;
    const KILL_SUIDGID: u32 = 4;
    const O_APPEND: u32 = 0o2000;
    // A part of `O_SYNC`.
    const O_DSYNC: u32 = 0o10000;
    let Range { handle, offset, len } = fields.range()?;
    let (write_flags, _owner, flags, _) = (fields.u32()?, fields.u64()?, fields.u32()?, fields.u32()?);
    let is_whole = write_flags & FROM_CACHE != 0;
    let appends = flags & O_APPEND != 0 && !is_whole;
    let strips_rights = write_flags & KILL_SUIDGID != 0;
    let len = usize::try_from(len).map_err(|_too_long| Missing::Bytes)?;
    let how = WriteHow { appends, is_whole, strips_rights, lasts: flags & O_DSYNC != 0 };
    Ok(Op::Write { handle, offset, data: fields.take(len)?, how })
}

fn release<'a>(fields: &mut Fields<'_>) -> Part<Op<'a>> {
    const ENDS_WHOLE: u32 = 1 << 1;
    let (handle, _flags, own_flags) = (fields.u64()?, fields.u32()?, fields.u32()?);
    let owner = fields.u64()?;
    Ok(Op::Release { handle, whole_owner: (own_flags & ENDS_WHOLE != 0).then_some(owner) })
}

fn lock(how: LockHow, fields: &mut Fields<'_>) -> Part<LockOp> {
    const IS_WHOLE: u32 = 1;
    let (handle, owner) = (fields.u64()?, fields.u64()?);
    let (first, last, kind, pid) = (fields.u64()?, fields.u64()?, fields.u32()?, fields.u32()?);
    let is_whole = fields.u32()? & IS_WHOLE != 0;
    // `F_RDLCK` and the others, as in fcntl.h.
    let kind = match kind {
        0 => LockKind::Read,
        1 => LockKind::Write,
        2 => LockKind::Free,
        _ => return Err(Missing::Bytes),
    };
    if last < first {
        return Err(Missing::Bytes);
    }
    Ok(LockOp { handle, owner, pid, is_whole, first, last, kind, how })
}

fn attrs_to_set(fields: &mut Fields<'_>) -> Part<NewAttrs> {
    let (valid, _) = (fields.u32()?, fields.u32()?);
    let (handle, size, _owner) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (atime_s, mtime_s, _ctime_s) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (atime_ns, mtime_ns, _ctime_ns) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let (mode, _, uid, gid) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let has = |bit: u32| valid >> bit & 1 != 0;
    let time = |set: u32, now: u32, s: u64, ns: u32| match (has(set), has(now)) {
        (_, true) => Some(NewTime::Now),
        (true, false) => Some(NewTime::At(s.cast_signed(), ns)),
        (false, false) => None,
    };
    Ok(NewAttrs {
        mode: has(0).then_some(mode & 0o7777),
        uid: has(1).then_some(uid),
        gid: has(2).then_some(gid),
        size: has(3).then_some(size),
        atime: time(4, 7, atime_s, atime_ns),
        mtime: time(5, 8, mtime_s, mtime_ns),
        handle: has(6).then_some(handle),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(code: u32, own: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let len = u32::try_from(HEAD_BYTES + own.len()).unwrap();
        for word in [len, code, 7, 0, 9, 0, 1000, 100, 42, 0] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(own);
        bytes
    }

    #[test]
    fn a_lookup_is_read_with_its_caller() {
        let caller = Caller { uid: 1000, gid: 100, pid: 42 };
        let bytes = message(code::LOOKUP, b"menhir\0");
        let op = Op::Lookup { name: b"menhir" };
        assert_eq!(Request::parse(&bytes), Ok(Request { unique: 7, node: 9, caller, op }));
    }

    #[test]
    fn names_that_no_entry_can_have_are_refused() {
        for name in [&b"\0"[..], b".\0", b"..\0", b"a/b\0", b"unended"] {
            assert_eq!(Request::parse(&message(code::LOOKUP, name)), Err(Refused::Malformed { unique: 7 }));
        }
        let long = [&[b'x'; 256][..], b"\0"].concat();
        assert_eq!(Request::parse(&message(code::LOOKUP, &long)), Err(Refused::NameTooLong { unique: 7 }));
        assert_eq!(Request::parse(&[0; 39]), Err(Refused::Unreadable));
    }

    #[test]
    fn a_count_that_lies_takes_no_memory() {
        let many = [&u32::MAX.to_le_bytes()[..], &[0; 4], &[1; 32]].concat();
        assert_eq!(
            Request::parse(&message(code::BATCH_FORGET, &many)),
            Err(Refused::Malformed { unique: 7 })
        );
        let two = [&2_u32.to_le_bytes()[..], &[0; 4], &[1; 32]].concat();
        let node = 0x0101_0101_0101_0101;
        let read = message(code::BATCH_FORGET, &two);
        assert_eq!(Request::parse(&read).unwrap().op, Op::Forget(vec![(node, node); 2]));
    }

    #[test]
    fn an_append_that_comes_from_pages_in_memory_goes_where_they_belong() {
        let own = |write_flags: u32, flags: u32| {
            let mut own = Vec::new();
            own.extend_from_slice(&[&3_u64.to_le_bytes()[..], &5_u64.to_le_bytes()].concat());
            for word in [2, write_flags, 0, 0, flags, 0] {
                own.extend_from_slice(&word.to_le_bytes());
            }
            own.extend_from_slice(b"xy");
            message(code::WRITE, &own)
        };
        for (write_flags, flags, appends, lasts) in [
            (0, 0o2001, true, false),
            (1, 0o2001, false, false),
            (0, 1, false, false),
            (4, 1, false, false),
            (0, 0o10001, false, true),
            (0, 0o4_010_001, false, true),
        ] {
            let bytes = own(write_flags, flags);
            let how =
                WriteHow { appends, is_whole: write_flags == 1, strips_rights: write_flags == 4, lasts };
            let op = Op::Write { handle: 3, offset: 5, data: b"xy", how };
            assert_eq!(Request::parse(&bytes).unwrap().op, op);
        }
    }

    #[test]
    fn no_request_of_the_corpus_of_the_fuzzer_panics() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/kernel_request");
        let inputs: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!inputs.is_empty());
        for input in inputs {
            let bytes = std::fs::read(&input).unwrap();
            let is_right = !input.ends_with("batch_forget_lies") && !input.ends_with("short");
            assert_eq!(Request::parse(&bytes).is_ok(), is_right, "{}", input.display());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(code in 0u32..60, own in prop::collection::vec(any::<u8>(), 0..200)) {
            let bytes = message(code, &own);
            match Request::parse(&bytes) {
                Ok(request) => prop_assert_eq!(request.unique, 7),
                Err(refused) => prop_assert_ne!(refused, Refused::Unreadable),
            }
        }

        #[test]
        fn any_bytes_at_all_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(request) = Request::parse(&bytes) {
                prop_assert!(bytes.len() >= HEAD_BYTES);
                prop_assert_eq!(request.unique.to_le_bytes().to_vec(), bytes[8..16].to_vec());
            }
        }
    }
}
