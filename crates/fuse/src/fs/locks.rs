//! Locks on files, where several mounts share them.
//!
//! Directories are locked by the kernel alone: it does not ask for those.

use super::{Done, Fs, Reply};
use crate::abi::op::{LockHow, LockOp};
use crate::abi::{ROOT, errno};
use dolmen_dfs::lock::{LockFamily, LockKind, LockRange};
use dolmen_dfs::{LockOwner, Locked, errno as number};
use dolmen_types::Oid;

impl Fs {
    /// Whether it keeps locks itself, for all mounts; else the kernel does, for this one.
    pub(crate) fn keeps_locks(&self) -> bool {
        self.locks.is_some()
    }

    /// Whether any process has locks.
    pub(crate) fn has_locks(&self) -> bool {
        self.locks.as_ref().is_some_and(|locks| !locks.is_empty())
    }

    fn oid_of(&self, handle: u64) -> Done<Oid> {
        Ok(self.handles.file(handle)?.file.oid())
    }

    /// Sets, frees or tests a lock of the file `node`. One that is to be waited for says so in the reply. Who gets one sees the
    /// attributes as of then: whoever had it before may have changed the file through another mount.
    pub(super) fn lock(&self, node: u64, op: &LockOp, reply: &mut Reply) -> Done {
        let locks = self.locks.as_ref().ok_or(errno::ENOSYS)?;
        let family = if op.is_whole { LockFamily::Whole } else { LockFamily::Range };
        let open = self.handles.file(op.handle)?;
        let may = match op.kind {
            LockKind::Read => open.reads,
            LockKind::Write => open.writes,
            LockKind::Free => true,
        };
        if self.user.is_some() && !op.is_whole && op.how != LockHow::Test && !may {
            return Err(number::EBADF);
        }
        let who = LockOwner { oid: open.file.oid(), family, owner: op.owner };
        let range = LockRange { first: op.first, last: op.last, kind: op.kind };
        let told = match op.how {
            LockHow::Test => locks.test(who, range),
            LockHow::Set | LockHow::Wait => locks.set(who, op.pid, range),
        };
        let told = told.map_err(|error| match self.number(&error) {
            number::EBUSY => errno::ENOLCK,
            other => other,
        })?;
        match (told, op.how) {
            (Locked::Later, _) | (Locked::Held { .. }, LockHow::Wait) => reply.waits = true,
            (Locked::Held { .. }, LockHow::Set) => return Err(number::EAGAIN),
            (Locked::Held { range, pid }, LockHow::Test) => put_lock(reply, range, pid),
            (Locked::Done, LockHow::Test) => put_lock(reply, LockRange { kind: LockKind::Free, ..range }, 0),
            (Locked::Done, _) if op.kind == LockKind::Free => {}
            (Locked::Done, LockHow::Set | LockHow::Wait) => self.outdates(node, reply),
        }
        Ok(())
    }

    /// Ends what an owner has of an open file.
    pub(super) fn end_locks(&self, handle: u64, family: LockFamily, owner: u64) -> Done {
        let Some(locks) = self.locks.as_ref().filter(|locks| !locks.is_empty()) else { return Ok(()) };
        self.done(locks.free(LockOwner { oid: self.oid_of(handle)?, family, owner }))
    }

    /// Frees what was locked for somebody who has gone meanwhile.
    pub(crate) fn unlock(&self, op: &LockOp) {
        let freed = self.lock(ROOT, &LockOp { kind: LockKind::Free, ..*op }, &mut Reply::default());
        if freed.is_err() {
            self.note("a lock whose process is gone could not be freed: it goes with the mount");
        }
    }

    /// Says that the mount is there.
    pub(crate) fn renew_locks(&self) {
        let Some(locks) = &self.locks else { return };
        match locks.renew() {
            Ok(0) => {}
            Ok(lost) => self.note(&format!(
                "{lost} lock(s) were lost: the mount was not heard for too long, and others got them; processes that had them do not know"
            )),
            // Whoever asks for a lock is told what is wrong.
            Err(error) => self.note(&error.to_string()),
        }
    }

    /// Frees all at the end, and records what waits to be.
    pub(crate) fn leave(&self) {
        self.leave_locks();
        if let Err(error) = self.sync() {
            self.note(&error.to_string());
        }
    }

    /// Frees all at the end.
    pub(super) fn leave_locks(&self) {
        if let Some(Err(error)) = self.locks.as_ref().map(dolmen_dfs::Locks::leave) {
            self.note(&error.to_string());
        }
    }
}

/// As `fcntl.h` has it.
fn put_lock(reply: &mut Reply, range: LockRange, pid: u32) {
    let kind = match range.kind {
        LockKind::Read => 0,
        LockKind::Write => 1,
        LockKind::Free => 2,
    };
    reply.out.u64(range.first).u64(range.last).u32(kind).u32(pid);
}
