//! A container's files for a user who may not reach its objects: requests that came from him are answered by what he may do.
//!
//! Invariants: nothing in a request says who asks; no bytes make it panic, or take more than the limits say; it never waits for a
//! lock.

use crate::abi::errno;
use crate::abi::reply::head;
use crate::abi::request::{Op, Refused, Request};
use crate::abi::{LATER, REQUEST_BYTES_MAX};
use crate::fs::{Fs, Reply};
use crate::options::{Caching, Options};
use crate::service::guarded;
use core::time::Duration;
use dolmen_dfs::{Cred, Dfs, errno as number};
use dolmen_types::Uuid;

/// Files and directories that may be remembered for the other side. One takes half a KiB or so.
const NODES_MAX: usize = 1 << 17;

/// What may be open; and how many of it directories, each of which may have a page of its names: some 70 KiB.
const OPEN_MAX: usize = 1 << 14;
const DIRS_OPEN_MAX: usize = 1 << 10;

/// Files on behalf of one user, whose rights are looked at with each step.
#[derive(Debug)]
pub struct Hosted {
    fs: Fs,
}

impl Hosted {
    /// Serves `dfs` to `user`, whatever his requests say of who he is. `holder` is a random number under which his locks are kept.
    ///
    /// # Errors
    /// Those of the store, from a look at the root.
    pub fn new(
        dfs: Dfs,
        user: Cred,
        holder: Uuid,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> dolmen_dfs::Result<Self> {
        // Whoever is at the other end says to his kernel for how long it may remember.
        let (caching, timeout) = (Caching::Off, Duration::ZERO);
        let options = Options { caching, timeout, locks: Some(holder), ..Options::default() };
        Ok(Self { fs: Fs::with_user(dfs, options, "", Some(user), tell)? })
    }

    /// Answers one request, as the kernel would be answered; with nothing what has no answer.
    #[must_use]
    pub fn ask(&self, bytes: &[u8]) -> Vec<u8> {
        let parsed =
            if bytes.len() > REQUEST_BYTES_MAX { Err(Refused::Unreadable) } else { Request::parse(bytes) };
        let request = match parsed {
            Ok(request) => request,
            Err(Refused::Unreadable) => return head(0, number::EINVAL, 0).to_vec(),
            Err(Refused::Malformed { unique }) => return head(unique, number::EINVAL, 0).to_vec(),
            Err(Refused::NameTooLong { unique }) => return head(unique, number::ENAMETOOLONG, 0).to_vec(),
        };
        let mut reply = Reply::default();
        let done = guarded(|text| self.fs.note(text), || self.serve(&request, &mut reply));
        if done.is_err() {
            self.fs.take_back(&mut reply);
        }
        if !request.op.is_answered() {
            return Vec::new();
        }
        let (errno, own) = match done {
            Ok(()) => (0, reply.bytes()),
            Err(errno) => (errno, &[][..]),
        };
        let mut told = head(request.unique, errno, own.len()).to_vec();
        told.extend_from_slice(own);
        told
    }

    fn serve(&self, request: &Request<'_>, reply: &mut Reply) -> Result<(), i32> {
        match &request.op {
            // What the two sides agree on was agreed on when the session began.
            Op::Init { .. } | Op::Destroy | Op::Interrupt { .. } => return Err(errno::ENOSYS),
            Op::Open { .. } | Op::OpenDir if self.fs.open_count() >= OPEN_MAX => return Err(number::EMFILE),
            Op::OpenDir if self.fs.open_dir_count() >= DIRS_OPEN_MAX => return Err(number::EMFILE),
            Op::Create { .. } | Op::TmpFile { .. } if self.fs.open_count() >= OPEN_MAX => {
                return Err(number::EMFILE);
            }
            op if finds(op) && self.fs.remembered() >= NODES_MAX => return Err(errno::ENFILE),
            _ => {}
        }
        self.fs.serve(request, reply)?;
        if reply.waits() { Err(LATER) } else { Ok(()) }
    }

    /// Whether he has locks, which are to be renewed.
    #[must_use]
    pub fn has_locks(&self) -> bool {
        self.fs.has_locks()
    }

    /// Says that they are still wanted.
    pub fn renew_locks(&self) {
        self.fs.renew_locks();
    }

    /// Frees his locks; what is open is closed when this is dropped.
    pub fn end(&self) {
        self.fs.leave();
    }
}

/// Whether something may be remembered after it that was not before.
fn finds(op: &Op<'_>) -> bool {
    matches!(
        op,
        Op::Lookup { .. }
            | Op::SymLink { .. }
            | Op::MkNod { .. }
            | Op::MkDir { .. }
            | Op::Link { .. }
            | Op::Create { .. }
            | Op::TmpFile { .. }
            | Op::ReadDir { with_attrs: true, .. }
    )
}
