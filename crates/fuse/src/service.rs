//! What answers the kernel's requests: a file system of this process, or the way to one elsewhere.

use crate::abi::op::LockOp;
use crate::abi::request::Request;
use crate::fs::{Done, Fs, Reply};
use dolmen_dfs::errno as number;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Answers requests; any number of threads may ask at once.
pub(crate) trait Serves: Send + Sync + 'static {
    /// As many requests can be answered at once.
    fn threads(&self) -> usize;

    /// Whether requests may come over `io_uring`, where the kernel offers it.
    fn takes_ring(&self) -> bool;

    /// They do.
    fn set_over_ring(&self);

    /// Tells whoever runs this what the kernel has no words for, once.
    fn note(&self, text: &str);

    /// Whether it keeps locks.
    fn keeps_locks(&self) -> bool;

    /// Whether it has locks that are to be renewed now and then.
    fn has_locks(&self) -> bool;

    /// Renews them.
    fn renew_locks(&self);

    /// Does what is asked; `bytes` is the request as it came.
    fn serve(&self, bytes: &[u8], request: &Request<'_>, reply: &mut Reply) -> Done;

    /// Gives back what the kernel has not heard of.
    fn take_back(&self, reply: &mut Reply);

    /// Frees what was locked for somebody who has gone meanwhile.
    fn unlock(&self, op: &LockOp);

    /// A write was answered; whether what the kernel has of the file is to be dropped.
    fn end_write(&self, number: u64) -> bool;
}

/// What `serve` answers; a panic in it is told, and an error for whoever asked.
pub(crate) fn guarded(note: impl Fn(&str), serve: impl FnOnce() -> Done) -> Done {
    catch_unwind(AssertUnwindSafe(serve)).unwrap_or_else(|_panic| {
        note("a request ended in a panic, which is a bug of this program");
        Err(number::EIO)
    })
}

impl Serves for Fs {
    fn threads(&self) -> usize {
        self.options().threads
    }

    fn takes_ring(&self) -> bool {
        self.options().takes_ring()
    }

    fn set_over_ring(&self) {
        self.about().set_over_ring();
    }

    fn note(&self, text: &str) {
        Self::note(self, text);
    }

    fn keeps_locks(&self) -> bool {
        Self::keeps_locks(self)
    }

    fn has_locks(&self) -> bool {
        Self::has_locks(self)
    }

    fn renew_locks(&self) {
        Self::renew_locks(self);
    }

    fn serve(&self, _bytes: &[u8], request: &Request<'_>, reply: &mut Reply) -> Done {
        Self::serve(self, request, reply)
    }

    fn take_back(&self, reply: &mut Reply) {
        Self::take_back(self, reply);
    }

    fn unlock(&self, op: &LockOp) {
        Self::unlock(self, op);
    }

    fn end_write(&self, number: u64) -> bool {
        Self::end_write(self, number)
    }
}
