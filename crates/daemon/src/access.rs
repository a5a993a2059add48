//! Who a caller is, by name, and what he may do in a pool.

use crate::lease::Lease;
use dolmen_codec::acl::perm;
use dolmen_codec::pool::{PoolReply, PoolVerb};
use dolmen_codec::{Answer, Ask, Request, Transport};
use dolmen_env::{group_principal, user_principal};
use dolmen_net::server::{Caller, Principal, Rights, on_pool};
use dolmen_net::tls::Role;
use dolmen_types::{Error, Head, Invalid, Result};
use std::path::Path;
use std::sync::Arc;

/// Whether somebody may do everything: whoever has the administrators' certificate; and root, and the user who runs the
/// engine. Over a socket the head has the user that the kernel says; over a network without certificates it is believed.
pub(crate) fn is_operator(head: &Head, caller: &Caller) -> bool {
    let uid = head.cred.uid;
    match &caller.identity {
        Some(identity) => identity.role == Role::Admin,
        None => uid == 0 || uid == dolmen_env::user_id(),
    }
}

/// What a caller may do in a pool that is kept in `dir`.
///
/// # Errors
/// `NoPermission` if he may not even read.
pub(crate) fn rights(
    head: &Head,
    caller: &Caller,
    pool: &Lease,
    dir: &Path,
    is_part: bool,
) -> Result<Rights> {
    if is_operator(head, caller) {
        return Ok(Rights::All);
    }
    let is_known = caller.peer.is_some() || caller.identity.is_some();
    if is_part {
        // Lists are with the pool's service. Whoever comes over the network without a certificate is believed there, too.
        return if is_known { Err(Error::NoPermission) } else { Ok(Rights::All) };
    }
    if caller.identity.as_ref().is_some_and(|identity| identity.role == Role::Engine) {
        return Err(Error::NoPermission);
    }
    let who = principal(head, caller);
    let request = Request { token: 0, head: Head::default(), ask: Ask::Pool(PoolVerb::Props) };
    let Answer::Pool(PoolReply::Props(props)) = pool.call(request).result? else {
        return Err(Invalid::Argument.into());
    };
    let (uid, gid) = dolmen_env::owner_of(dir).map_err(|_gone| Error::NotFound)?;
    let perms = on_pool(&who, &props, &user_principal(uid), &group_principal(gid));
    if perms & perm::READ == 0 {
        return Err(Error::NoPermission);
    }
    Ok(Rights::Listed { pool: perms, who: Arc::new(who) })
}

fn principal(head: &Head, caller: &Caller) -> Principal {
    if let Some(identity) = &caller.identity {
        let groups = identity.groups.iter().map(|group| format!("{group}@")).collect();
        return Principal { name: format!("{}@", identity.name), groups };
    }
    let own = head.cred.gid;
    let others = caller.groups.iter().copied().filter(|&gid| gid != own);
    let groups = core::iter::once(own).chain(others).map(group_principal).collect();
    Principal { name: user_principal(head.cred.uid), groups }
}
