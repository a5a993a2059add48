//! Who may do what: which permission each question needs, and what a caller's are.
//!
//! Invariants: what is not said to be allowed is not; whoever runs the engine, and root, are asked for nothing.

use dolmen_codec::acl::{Acl, User, perm};
use dolmen_codec::order::HashKey;
use dolmen_codec::pool::{ContHandle, ContName, OpenFor, PoolReply, PoolVerb, Whose};
use dolmen_codec::verb::{ContVerb, Verb};
use dolmen_codec::{Answer, Ask, Request, Transport};
use dolmen_types::{ContNo, Error, Head, Invalid, PropId, PropValue, Props, Result, Uuid};
use std::sync::Arc;

/// What a caller may do in a pool.
#[derive(Clone, Debug)]
pub enum Rights {
    /// Everything: root, and the user who runs the engine.
    All,
    /// What lists say.
    Listed {
        /// Permissions on the pool.
        pool: u64,
        /// Whom containers' lists are asked for.
        who: Arc<Principal>,
    },
}

/// A user and his groups, by the names that lists have, each with its `@`.
#[derive(Clone, Debug, Default)]
pub struct Principal {
    /// The user.
    pub name: String,
    /// His groups, the first one before the others.
    pub groups: Vec<String>,
}

/// Permissions that a question needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Whoever is connected may ask; or it is looked at when it is carried out.
    Nothing,
    /// To be root, or to run the engine.
    Operator,
    /// One of these, on the pool.
    Pool(u64),
    /// One of the first on the container, and all of the others.
    Cont(ContNo, u64, u64),
}

impl Need {
    pub(super) fn of(ask: &Ask<'_>) -> Self {
        match ask {
            Ask::Target(_, cont, verb) => of_target(*cont, verb),
            Ask::Pool(verb) => of_pool(verb),
        }
    }
}

fn of_target(cont: ContNo, verb: &Verb<'_>) -> Need {
    match verb {
        Verb::Fetch(_) | Verb::List(_) | Verb::Query(_) => Need::Cont(cont, perm::READ, 0),
        Verb::Update(_) | Verb::Punch(_) | Verb::Cont(ContVerb::Aggregate(_)) => {
            Need::Cont(cont, perm::WRITE, 0)
        }
        Verb::Cont(ContVerb::Usage) => Need::Cont(cont, perm::READ | perm::GET_PROP, 0),
        Verb::Space | Verb::Latest => Need::Pool(perm::READ),
        // Who has only read may want to know that it stays.
        Verb::Flush => Need::Cont(cont, perm::READ | perm::WRITE, 0),
        Verb::Checkpoint => Need::Pool(perm::WRITE),
        // What goes over everybody's data; and steps of transactions and changes of containers, which are the service's.
        Verb::Scrub
        | Verb::Check
        | Verb::Cont(_)
        | Verb::Prepare(_)
        | Verb::Commit(_)
        | Verb::Conclude(_)
        | Verb::Abort(_)
        | Verb::TxState(_)
        | Verb::InDoubt
        | Verb::Unconcluded => Need::Operator,
    }
}

fn of_pool(verb: &PoolVerb<'_>) -> Need {
    let read = |cont: ContNo| Need::Cont(cont, perm::READ, 0);
    let write = |cont: ContNo| Need::Cont(cont, perm::WRITE, 0);
    match verb {
        PoolVerb::ContOpen(..) | PoolVerb::ContClose(_) | PoolVerb::ContDestroy(..) => Need::Nothing,
        PoolVerb::Query | PoolVerb::ContList | PoolVerb::TxBegin | PoolVerb::TxEnd(_) => {
            Need::Pool(perm::READ)
        }
        PoolVerb::Props => Need::Pool(perm::READ | perm::GET_PROP | perm::GET_ACL),
        PoolVerb::SetProps(props) => Need::Pool(of_pool_props(props)),
        PoolVerb::ContCreate { .. } => Need::Pool(perm::CREATE | perm::WRITE),
        PoolVerb::Leases(cont, _) => read(*cont),
        PoolVerb::Files(cont, _) => Need::Cont(*cont, perm::FILES, 0),
        PoolVerb::Lock(cont, _) => Need::Cont(*cont, perm::READ | perm::WRITE, 0),
        PoolVerb::ContSetQuota(_, None, _) => Need::Pool(perm::SET_PROP),
        PoolVerb::ContSetQuota(cont, Some(_), _) => Need::Cont(*cont, 0, perm::SET_PROP),
        PoolVerb::ContQuery(cont) | PoolVerb::ContQuota(cont) => {
            Need::Cont(*cont, perm::READ | perm::GET_PROP, 0)
        }
        PoolVerb::ContProps(cont, ids) => {
            let list = if ids.contains(&PropId::CO_ACL) { perm::GET_ACL } else { 0 };
            let others = ids.iter().any(|id| *id != PropId::CO_ACL);
            let any = if others || ids.is_empty() { perm::READ | perm::GET_PROP | perm::GET_ACL } else { 0 };
            Need::Cont(*cont, any, list)
        }
        PoolVerb::ContSetProps(cont, props) => Need::Cont(*cont, 0, of_cont_props(props)),
        PoolVerb::Attr(Some(cont), _) | PoolVerb::AttrNames(Some(cont)) | PoolVerb::SnapList(cont) => {
            read(*cont)
        }
        PoolVerb::SetAttrs(Some(cont), _)
        | PoolVerb::RemoveAttrs(Some(cont), _)
        | PoolVerb::SnapCreate(cont, _)
        | PoolVerb::SnapDestroy(cont, _)
        | PoolVerb::Rollback(cont, _)
        | PoolVerb::AllocOids(cont, _)
        | PoolVerb::Aggregate(cont, _) => write(*cont),
        PoolVerb::TxCommit(commit) => write(commit.cont),
        PoolVerb::ContEvict(cont, Whose::Own) => read(*cont),
        PoolVerb::ContEvict(cont, Whose::All) => Need::Cont(*cont, perm::DELETE, 0),
        PoolVerb::Attr(None, _) | PoolVerb::AttrNames(None) => Need::Pool(perm::READ),
        PoolVerb::SetAttrs(None, _) | PoolVerb::RemoveAttrs(None, _) | PoolVerb::Checkpoint => {
            Need::Pool(perm::WRITE)
        }
        PoolVerb::Scrub
        | PoolVerb::Check
        | PoolVerb::Admit { .. }
        | PoolVerb::Evicted { .. }
        | PoolVerb::Share(_) => Need::Operator,
    }
}

/// What it takes to set properties of a container.
fn of_cont_props(props: &Props) -> u64 {
    let one = |id: &PropId| match *id {
        PropId::CO_ACL => perm::SET_ACL,
        PropId::CO_OWNER | PropId::CO_OWNER_GROUP => perm::SET_OWNER,
        _ => perm::SET_PROP,
    };
    props.keys().map(one).fold(0, |all, perms| all | perms)
}

/// What it takes to set one property of a pool; several at once are for those who may do everything.
fn of_pool_props(props: &Props) -> u64 {
    match props.keys().next() {
        Some(&PropId::PO_ACL) if props.len() == 1 => perm::SET_ACL,
        Some(_) if !props.contains_key(&PropId::PO_ACL) => perm::SET_OWNER,
        _ => 0,
    }
}

/// What a user may do with a container of these properties.
pub(super) fn on_cont(who: &Principal, props: &Props) -> u64 {
    let text = |id| match props.get(&id) {
        Some(PropValue::Text(text)) => text.as_str(),
        _ => "",
    };
    let acl = match props.get(&PropId::CO_ACL) {
        Some(PropValue::Bytes(bytes)) if !bytes.is_empty() => list(bytes),
        _ => Acl::of_new_container(),
    };
    acl.allows(&user(who), text(PropId::CO_OWNER), text(PropId::CO_OWNER_GROUP)) | of_files(props)
}

/// What everybody may do with a container of these properties, whatever its list says.
fn of_files(props: &Props) -> u64 {
    let is_open = matches!(props.get(&PropId::CO_FILES), Some(PropValue::Number(1)));
    if is_open { perm::FILES } else { 0 }
}

/// What a user may do with a pool of these properties: what its list says, and if there is none, that of a new pool. To read a pool and to get its
/// properties are the same permission by two letters.
//= daos:src/include/daos_security.h DAOS_ACL_PERM_READ of pools
#[must_use]
pub fn on_pool(who: &Principal, props: &Props) -> u64 {
    let text = |id| match props.get(&id) {
        Some(PropValue::Text(text)) => text.as_str(),
        _ => "",
    };
    let acl = match props.get(&PropId::PO_ACL) {
        Some(PropValue::Bytes(bytes)) => list(bytes),
        _ => Acl::of_new_pool(),
    };
    let perms = acl.lists(&user(who), text(PropId::PO_OWNER), text(PropId::PO_OWNER_GROUP));
    // His are the limits of containers, whatever the list says.
    let own = if !who.name.is_empty() && who.name == text(PropId::PO_OWNER) { perm::SET_PROP } else { 0 };
    let read = if perms & (perm::READ | perm::GET_PROP) == 0 { 0 } else { perm::READ | perm::GET_PROP };
    perms | read | own
}

/// One that cannot be read allows nobody anything, but the owner of a container to mend it.
fn list(bytes: &[u8]) -> Acl {
    let nobody = Acl::default();
    Acl::decode(bytes).map_or(nobody, |acl| acl)
}

fn user(who: &Principal) -> User<'_> {
    User { name: &who.name, groups: &who.groups }
}

impl Rights {
    /// What the caller may do with a container of these properties.
    pub(super) fn on_cont(&self, props: &Props) -> u64 {
        match self {
            Self::All => perm::ALL | of_files(props),
            Self::Listed { who, .. } => on_cont(who, props),
        }
    }

    /// Makes a new container its maker's: who may not do everything gives none to others, nor to groups he is not in.
    ///
    /// # Errors
    /// `NoPermission`.
    pub(super) fn own(&self, props: &mut Props) -> Result<()> {
        let Self::Listed { who, .. } = self else { return Ok(()) };
        let first = who.groups.first().cloned().unwrap_or(String::new());
        let owner = props.entry(PropId::CO_OWNER).or_insert_with(|| PropValue::Text(who.name.clone()));
        let is_own = matches!(owner, PropValue::Text(name) if *name == who.name);
        let group = props.entry(PropId::CO_OWNER_GROUP).or_insert(PropValue::Text(first));
        let is_in = matches!(group, PropValue::Text(name) if who.groups.contains(name));
        if is_own && is_in { Ok(()) } else { Err(Error::NoPermission) }
    }

    /// Leaves out of an answer what its reader may not know: lists, and of containers that he may not open all but the
    /// names.
    pub(super) fn trim(&self, reply: &mut PoolReply) {
        let Self::Listed { pool, who } = self else { return };
        match reply {
            PoolReply::Conts(all) => all.iter_mut().for_each(|cont| trim_cont(who, cont)),
            PoolReply::Cont(cont) => trim_cont(who, cont),
            PoolReply::ContInfo(info) => trim_cont(who, &mut info.cont),
            // A list that was asked for by name was looked at then.
            PoolReply::Props(props)
                if props.contains_key(&PropId::CO_OWNER)
                    && props.contains_key(&PropId::CO_OWNER_GROUP)
                    && on_cont(who, props) & perm::GET_ACL == 0 =>
            {
                props.remove(&PropId::CO_ACL);
            }
            PoolReply::Props(props) if pool & perm::GET_ACL == 0 => {
                props.remove(&PropId::PO_ACL);
            }
            _ => {}
        }
    }

    /// Refuses whoever may not open a container, without opening it: who else has it is not for him to hear, nor is he in their way.
    ///
    /// # Errors
    /// `NoPermission`.
    pub(super) fn refuse_open(
        &self,
        transport: &dyn Transport,
        head: Head,
        (name, wanted): (&ContName, OpenFor),
    ) -> Result<()> {
        let Self::Listed { who, .. } = self else { return Ok(()) };
        match found(transport, head, name)? {
            Some(cont) if !may_open(on_cont(who, &cont.props), wanted) => Err(Error::NoPermission),
            _ => Ok(()),
        }
    }

    /// What is to be asked of the service in place of a question that may need a look at a container first.
    ///
    /// # Errors
    /// `NoPermission` to destroy a container that neither the pool nor its own list lets him destroy.
    pub(super) fn settled<'v>(
        &self,
        transport: &dyn Transport,
        head: Head,
        verb: PoolVerb<'v>,
    ) -> Result<PoolVerb<'v>> {
        let (Self::Listed { pool, who }, PoolVerb::ContDestroy(name, force)) = (self, &verb) else {
            return Ok(verb);
        };
        if pool & (perm::DELETE | perm::WRITE) != 0 {
            return Ok(verb);
        }
        let Some(found) = found(transport, head, name)? else {
            // The service tells him if this very request has destroyed it before. No container has this UUID.
            return Ok(PoolVerb::ContDestroy(ContName::Uuid(Uuid::nil()), *force));
        };
        if on_cont(who, &found.props) & perm::DELETE == 0 {
            return Err(Error::NoPermission);
        }
        // The very one that was looked at, whatever the name means when it is carried out.
        Ok(PoolVerb::ContDestroy(ContName::Uuid(found.uuid), *force))
    }
}

/// Whether something that is allowed on a container allows to open it.
pub(super) fn may_open(perms: u64, wanted: OpenFor) -> bool {
    perms != 0 && (!wanted.is_change() || perms & perm::CHANGES != 0)
}

/// A container as the service has it.
pub(super) fn found(transport: &dyn Transport, head: Head, name: &ContName) -> Result<Option<ContHandle>> {
    let request = Request { token: 0, head, ask: Ask::Pool(PoolVerb::ContList) };
    let Answer::Pool(PoolReply::Conts(all)) = transport.call(request).result? else {
        return Err(Invalid::Argument.into());
    };
    let is_meant = |cont: &ContHandle| match name {
        ContName::Label(label) => cont.label.as_ref() == Some(label),
        ContName::Uuid(uuid) => cont.uuid == *uuid,
    };
    Ok(all.into_iter().find(is_meant))
}

fn trim_cont(who: &Principal, cont: &mut ContHandle) {
    let perms = on_cont(who, &cont.props);
    if perms & perm::ALL == 0 {
        cont.hash_key = HashKey([0; 16]);
        let is_told = |id| perms != 0 && [PropId::CO_FILES, PropId::CO_EVICTIONS].contains(&id);
        cont.props.retain(|id, _| is_told(*id));
    } else if perms & perm::GET_ACL == 0 {
        cont.props.remove(&PropId::CO_ACL);
    }
}
