//! The door to containers' files, for those who may not reach their objects.
//!
//! Invariants: who asks is whom the kernel or a certificate names, and nobody whom a request does; no thread that serves
//! connections waits for an answer.

use super::Identity;
use crate::tls::Role;
use dolmen_codec::pool::{FilesAsk, FilesReply};
use dolmen_env::Peer;
use dolmen_types::{ContNo, Error, Result};
use std::sync::Arc;

/// Who asks, as the engine knows him.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesUser {
    /// User.
    pub uid: u32,
    /// His first group.
    pub gid: u32,
    /// The others; looked at when a session begins.
    pub groups: Vec<u32>,
}

/// What is asked.
#[derive(Debug)]
pub struct FilesAsked {
    /// The connection, by a number that no other one to the pool has.
    pub key: u64,
    /// On whose behalf.
    pub user: FilesUser,
    /// The container, which the caller may use so.
    pub cont: ContNo,
    /// The question.
    pub ask: FilesAsk,
}

/// What is done with an answer, once, by any thread.
pub type Then = Box<dyn FnOnce(Result<FilesReply>) + Send>;

/// The files of a pool.
///
/// One implementor: the daemon, which knows file systems; what serves connections does not.
pub trait Files: Send + Sync {
    /// Does what is asked, in a thread of its own.
    fn ask(&self, asked: FilesAsked, then: Then);

    /// A connection has ended, and its sessions with it.
    fn leave(&self, key: u64);
}

/// Who is at the other end of a connection.
///
/// # Errors
/// `NoPermission` if nobody but himself says who he is, or if he asks for others.
pub(super) fn user_of(
    peer: Option<Peer>,
    identity: Option<&Arc<Identity>>,
    groups: impl FnOnce() -> Vec<u32>,
) -> Result<FilesUser> {
    match (peer, identity) {
        (Some(peer), _) => Ok(FilesUser { uid: peer.uid, gid: peer.gid, groups: groups() }),
        (None, Some(identity)) if identity.role != Role::Engine => {
            Ok(FilesUser { uid: identity.uid, gid: identity.gid, groups: Vec::new() })
        }
        _ => Err(Error::NoPermission),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_believed_who_says_himself_who_he_is() {
        let identity = |role| {
            let name = "anna".to_owned();
            Arc::new(Identity { role, name, groups: Vec::new(), uid: 7, gid: 8 })
        };
        let of = |role| user_of(None, Some(&identity(role)), || panic!("a network tells no groups"));
        assert_eq!(user_of(None, None, Vec::new), Err(Error::NoPermission));
        assert_eq!(of(Role::Engine), Err(Error::NoPermission));
        assert_eq!(of(Role::User), Ok(FilesUser { uid: 7, gid: 8, groups: Vec::new() }));
        let peer = Peer { pid: 1, uid: 2, gid: 3 };
        let told = user_of(Some(peer), Some(&identity(Role::Engine)), || vec![4]);
        assert_eq!(told, Ok(FilesUser { uid: 2, gid: 3, groups: vec![4] }));
    }
}
