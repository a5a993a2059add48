//! Who a caller is, by name, and what he may do in a pool.

use crate::lease::Lease;
use dolmen_codec::acl::perm;
use dolmen_codec::wire::PoolAccess;
use dolmen_env::{group_principal, user_principal};
use dolmen_net::server::{Caller, Principal, Rights, on_pool};
use dolmen_net::tls::Role;
use dolmen_types::{Error, Head, Result};
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

/// What a caller may do in a pool: what its lists say, which are with its service, wherever that is. Who may change nothing there has
/// it with others.
///
/// # Errors
/// `NoPermission` if he may not even read, or means to change something and may change nothing, or have it alone; of a part, `Busy` and `Unreachable` if the engine with the service cannot say.
pub(crate) fn rights(head: &Head, caller: &Caller, (pool, access): (&Lease, PoolAccess)) -> Result<Rights> {
    if is_operator(head, caller) {
        return Ok(Rights::All);
    }
    if caller.identity.as_ref().is_some_and(|identity| identity.role == Role::Engine) {
        return Err(Error::NoPermission);
    }
    let who = principal(head, caller);
    let props = pool.look(None)?.props;
    let perms = on_pool(&who, &props);
    if perms & perm::READ == 0 {
        return Err(Error::NoPermission);
    }
    let changes = matches!(access, PoolAccess::Exclusive | PoolAccess::Change);
    if changes && perms & (perm::CHANGES | perm::CREATE) == 0 {
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
