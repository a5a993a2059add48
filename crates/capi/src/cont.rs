//! Containers: making, opening, closing, destroying; properties, owners and access.

use crate::acl::{self, Acl, CAcl, User, Who};
use crate::error::{Der, Result, der};
use crate::event::{Ev, go, run};
use crate::fs;
use crate::handle::{self, Entry};
use crate::place::PoolHandle;
use crate::prop::{self, List, Value};
use crate::raw::{Out, Text};
use crate::types::{CContInfo, CUuid, Handle};
use core::ffi::{c_int, c_uint};
use core::sync::atomic::Ordering;
use dolmen_client::{
    ContName, Container, Epoch, Error, Label, OpenFor, PropId, PropValue, Props, Uuid, Way, Whose,
};
use dolmen_codec::now;
use std::sync::Arc;

/// How a container may be opened.
//= daos:src/include/daos_cont.h DAOS_COO_*
pub(crate) const OPEN_RO: u32 = 1;
pub(crate) const OPEN_RW: u32 = 2;
const OPEN_EX: u32 = 4;
/// Handles of the same user, or of all users, are ended.
const EVICT: u32 = 32 | EVICT_ALL;
const EVICT_ALL: u32 = 64;
const OPEN_FLAGS: u32 = 255;

/// An open container.
pub(crate) struct ContHandle {
    pub(crate) client: Container,
    pub(crate) pool: Arc<PoolHandle>,
    /// Whether anything may be changed through it.
    pub(crate) writable: bool,
    /// What it was opened with.
    pub(crate) flags: u32,
    /// By which other processes share it that has its container alone; 0 for others.
    pub(crate) word: u64,
}

impl ContHandle {
    /// `shared` is what other processes are told: the flags and the word.
    pub(crate) fn new(client: Container, pool: Arc<PoolHandle>, shared: (u32, u64)) -> Self {
        pool.conts.fetch_add(1, Ordering::AcqRel);
        let (flags, word) = shared;
        Self { client, pool, writable: flags & (OPEN_RW | OPEN_EX) != 0, flags, word }
    }

    /// # Errors
    /// `NO_PERM` if it was opened for reading.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.writable { Ok(()) } else { Err(Der::NO_PERM) }
    }
}

/// The container that a label or UUID means.
///
/// # Errors
/// `INVAL` for what is neither.
pub(crate) fn name(text: &str) -> Result<ContName> {
    match Uuid::try_parse(text) {
        Ok(uuid) => Ok(ContName::Uuid(uuid)),
        Err(_) => Ok(ContName::Label(Label::new(text)?)),
    }
}

/// A container that was not there is not there, whoever says so.
fn found<T>(result: dolmen_client::Result<T>) -> Result<T> {
    result.map_err(|error| match error {
        Error::NoContainer => Der::NONEXIST,
        other => other.into(),
    })
}

/// Makes a container, and tells its UUID.
///
/// # Errors
/// `NO_PERM` through a connection for reading; `EXIST`; `INVAL` for properties that are none.
async fn create(way: Way, pool: &PoolHandle, label: Option<&str>, list: Out<List>) -> Result<Uuid> {
    let wanted = New::of(pool, label, list, None)?;
    wanted.made(way, pool).await
}

/// As [`create`], for a given layout, whatever the properties say of it.
///
/// # Errors
/// As [`create`].
pub(crate) fn create_for(
    pool: &PoolHandle,
    label: Option<&str>,
    list: Out<List>,
    layout: Option<u64>,
) -> Result<Uuid> {
    now(New::of(pool, label, list, layout)?.made(Way::Now, pool))
}

/// A container that is to be made.
struct New {
    label: Option<Label>,
    props: Props,
    taken_oids: u64,
}

impl New {
    fn of(pool: &PoolHandle, label: Option<&str>, list: Out<List>, layout: Option<u64>) -> Result<Self> {
        if !pool.writable {
            return Err(Der::NO_PERM);
        }
        let mut wanted = prop::wanted(list)?;
        wanted.props.extend(layout.map(|layout| (PropId::CO_LAYOUT_TYPE, PropValue::Number(layout))));
        let label = label.map(str::to_owned).or(wanted.label);
        let label = label.map(|label| Label::new(&label)).transpose()?;
        own(&mut wanted.props, pool)?;
        Ok(Self { label, props: wanted.props, taken_oids: wanted.taken_oids })
    }

    async fn made(self, way: Way, pool: &PoolHandle) -> Result<Uuid> {
        let made = pool.client.create_container_by(way, self.label, self.props).await?;
        if self.taken_oids > 0 {
            let name = ContName::Uuid(made.uuid);
            let opened = pool.client.open_container_for_by(way, &name, OpenFor::Any).await?;
            opened.alloc_oids_by(way, self.taken_oids).await?;
            opened.close_by(way).await?;
        }
        Ok(made.uuid)
    }
}

/// A container belongs to whoever makes it, unless it is said to be somebody else's.
fn own(props: &mut Props, pool: &PoolHandle) -> Result<()> {
    let (user, group) = pool.certified_user().unwrap_or_else(|| {
        // SAFETY: it always succeeds and touches no memory.
        let uid = unsafe { libc::geteuid() };
        // SAFETY: as above.
        let gid = unsafe { libc::getegid() };
        let user = acl::user_name(uid).unwrap_or_else(|_unknown| uid.to_string());
        (user, acl::group_name(gid).unwrap_or_else(|_unknown| gid.to_string()))
    });
    for (kind, name) in [(prop::CO_OWNER, user), (prop::CO_OWNER_GROUP, group)] {
        let owner = props.entry(PropId(kind)).or_insert_with(|| PropValue::Text(format!("{name}@")));
        if !matches!(owner, PropValue::Text(name) if acl::is_principal(name)) {
            return Err(Der::INVAL);
        }
    }
    Ok(())
}

/// Makes a container.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_create2(poh: Handle, uuid: Out<CUuid>, props: Out<List>, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let pool = handle::pool(poh)?;
        uuid.set_if_wanted(create(way, &pool, None, props).await?.into());
        Ok(())
    })
}

/// As [`daos_cont_create2`]: the name that programs ask the loader for.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_create(poh: Handle, uuid: Out<CUuid>, props: Out<List>, ev: Ev) -> c_int {
    daos_cont_create2(poh, uuid, props, ev)
}

/// Makes a container with a label.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_create_with_label(
    poh: Handle,
    label: Text,
    props: Out<List>,
    uuid: Out<CUuid>,
    ev: Ev,
) -> c_int {
    go(ev, move |way| async move {
        let pool = handle::pool(poh)?;
        let new = New::of(&pool, Some(label.str()?), props, None)?;
        uuid.set_if_wanted(new.made(way, &pool).await?.into());
        Ok(())
    })
}

/// Opens a container for a program.
///
/// # Errors
/// `NONEXIST`; `NO_PERM` for what its list does not allow, whatever the pool was connected to for; `BUSY` to have it alone
/// while others have it.
pub(crate) fn open(pool: &Arc<PoolHandle>, cont: &ContName, flags: u32) -> Result<Arc<ContHandle>> {
    now(open_by(Way::Now, pool, cont, flags))
}

/// As [`open`], on a way of the caller's.
async fn open_by(way: Way, pool: &Arc<PoolHandle>, cont: &ContName, flags: u32) -> Result<Arc<ContHandle>> {
    let modes = [OPEN_RO, OPEN_RW, OPEN_EX].iter().filter(|&mode| flags & mode != 0).count();
    if modes != 1 || flags & !OPEN_FLAGS != 0 {
        return Err(Der::INVAL);
    }
    let whose = match flags & EVICT {
        0 => None,
        flags if flags & EVICT_ALL == 0 => Some(Whose::Own),
        _ => Some(Whose::All),
    };
    let word = if flags & OPEN_EX == 0 { 0 } else { drawn_word()? };
    let wanted = wanted(flags, word);
    let opened = match whose {
        None => found(pool.client.open_container_for_by(way, cont, wanted).await)?,
        Some(whose) => open_without_others(way, pool, cont, wanted, whose).await?,
    };
    Ok(Arc::new(ContHandle::new(opened, Arc::clone(pool), (flags, word))))
}

/// Opens a container, and ends the handles that others have on it.
///
/// # Errors
/// As [`open`]; `BUSY` if there are others still, or again.
pub(crate) async fn open_without_others(
    way: Way,
    pool: &PoolHandle,
    cont: &ContName,
    wanted: OpenFor,
    whose: Whose,
) -> Result<Container> {
    let open = |wanted| pool.client.open_container_for_by(way, cont, wanted);
    match found(open(wanted).await) {
        // Nobody else had it.
        Ok(opened) if matches!(wanted, OpenFor::Alone(_)) => return Ok(opened),
        Ok(opened) => {
            evict_by(way, pool, &opened, whose).await?;
            return Ok(opened);
        }
        Err(Der::BUSY) => {}
        Err(other) => return Err(other),
    }
    // Somebody has it alone, or has it that is to be had alone.
    let evicting = found(open(OpenFor::Evicting).await)?;
    evict_by(way, pool, &evicting, whose).await?;
    evicting.close_by(way).await?;
    found(open(wanted).await)
}

/// What an engine is told that a handle with these flags is for.
fn wanted(flags: u32, word: u64) -> OpenFor {
    match flags & (OPEN_RO | OPEN_EX) {
        0 => OpenFor::Change,
        OPEN_EX => OpenFor::Alone(word),
        _ => OpenFor::Any,
    }
}

/// The word by which a handle that has its container alone is shared, and nobody else guesses it.
pub(crate) fn drawn_word() -> Result<u64> {
    Ok(dolmen_env::entropy_u64().map_err(|_no_entropy| Der::IO)?.max(1))
}

/// What it is told of one that another process has shared.
pub(crate) fn wanted_again((flags, word): (u32, u64)) -> OpenFor {
    match wanted(flags, word) {
        OpenFor::Alone(word) => OpenFor::Joining(word),
        other => other,
    }
}

/// Ends every other handle on a container, with all that this process has open through them, and what other processes of
/// this user have, or all. Errors of what is under way on them are its own.
///
/// # Errors
/// Of the engine that takes them from others.
async fn evict_by(way: Way, pool: &PoolHandle, opened: &Container, whose: Whose) -> Result<()> {
    let cont = opened.uuid();
    fs::evict(pool.uuid, cont);
    let is_meant = |own: &ContHandle| own.pool.uuid == pool.uuid && own.client.uuid() == cont;
    for entry in handle::evict(is_meant) {
        if let Entry::Cont(gone) = &entry {
            gone.pool.conts.fetch_sub(1, Ordering::AcqRel);
            // Ignored: what is left of it is closed with its last use, and whoever evicts counts what is open.
            let _closed = gone.client.clone().close_by(way).await;
        }
    }
    Ok(opened.evict_others_by(way, whose).await?)
}

/// Opens the container that a label or UUID means.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_open2(
    poh: Handle,
    cont: Text,
    flags: c_uint,
    coh: Out<Handle>,
    info: Out<CContInfo>,
    ev: Ev,
) -> c_int {
    go(ev, move |way| async move {
        let pool = handle::pool(poh)?;
        let coh = coh.check()?;
        let cont = name(cont.str()?)?;
        let opened = open_by(way, &pool, &cont, flags).await?;
        if !info.is_null() {
            info.set(info_of(way, &opened).await?)?;
        }
        coh.set(handle::insert(Entry::Cont(opened))?)
    })
}

/// As [`daos_cont_open2`]: the name that programs ask the loader for.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_open(
    poh: Handle,
    cont: Text,
    flags: c_uint,
    coh: Out<Handle>,
    info: Out<CContInfo>,
    ev: Ev,
) -> c_int {
    daos_cont_open2(poh, cont, flags, coh, info, ev)
}

/// Gives an open container up; what is under way on it goes on.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn daos_cont_close(coh: Handle, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let Entry::Cont(cont) = handle::remove(coh, |entry| matches!(entry, Entry::Cont(_)))? else {
            return Err(Der::NO_HDL);
        };
        cont.pool.conts.fetch_sub(1, Ordering::AcqRel);
        if way == Way::Later && Arc::strong_count(&cont) == 1 {
            // Ignored: as with the last use of a handle, nobody needs to be told, and a pool that is gone has none.
            let _closed = cont.client.clone().close_by(way).await;
        }
        Ok(())
    })
}

/// Destroys the container that a label or UUID means; one that is open only if `force` says so.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_destroy2(poh: Handle, cont: Text, force: c_int, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let pool = handle::pool(poh)?;
        if !pool.writable {
            return Err(Der::NO_PERM);
        }
        let cont = name(cont.str()?)?;
        found(pool.client.destroy_container_by(way, &cont, force != 0).await)
    })
}

/// As [`daos_cont_destroy2`]: the name that programs ask the loader for.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_destroy(poh: Handle, cont: Text, force: c_int, ev: Ev) -> c_int {
    daos_cont_destroy2(poh, cont, force, ev)
}

async fn info_of(way: Way, cont: &ContHandle) -> Result<CContInfo> {
    let info = cont.client.query_by(way).await?;
    let time = |id| match info.cont.props.get(&id) {
        Some(PropValue::Number(epoch)) => *epoch,
        // A service that does not know, being older.
        _ => 0,
    };
    Ok(CContInfo {
        uuid: info.cont.uuid.into(),
        last_snapshot: info.last_snapshot.0,
        handles: info.handles,
        snapshots: info.snapshots,
        md_otime: time(PropId::CO_OPENED),
        md_mtime: time(PropId::CO_CHANGED),
    })
}

/// State and properties of a container.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_query(coh: Handle, info: Out<CContInfo>, props: Out<List>, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let cont = handle::cont(coh)?;
        if !info.is_null() {
            info.set(info_of(way, &cont).await?)?;
        }
        tell(way, &cont, props).await
    })
}

/// Tells a program the properties that its list names, or all of DAOS's.
async fn tell(way: Way, cont: &ContHandle, list: Out<List>) -> Result<()> {
    if list.is_null() {
        return Ok(());
    }
    let props = cont.client.props_by(way, &[]).await?;
    let all: Vec<u32> = props.keys().map(|id| id.0).filter(|kind| *kind < 1 << 16).collect();
    prop::tell(list, &all, |kind| {
        Some(match props.get(&PropId(kind))? {
            PropValue::Number(number) => Value::Number(*number),
            PropValue::Text(text) => Value::Text(text.clone()),
            PropValue::Bytes(bytes) if kind == prop::CO_ACL && bytes.is_empty() => {
                Value::Bytes(Acl::of_new_container().encode())
            }
            PropValue::Bytes(bytes) => Value::Bytes(bytes.clone()),
        })
    })
}

/// Sets properties.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_set_prop(coh: Handle, props: Out<List>, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let cont = handle::cont(coh)?;
        cont.check_writable()?;
        if props.is_null() {
            return Err(Der::INVAL);
        }
        let mut wanted = prop::wanted(props)?;
        if let Some(label) = wanted.label {
            wanted.props.insert(PropId::CO_LABEL, PropValue::Text(label));
        }
        Ok(cont.client.set_props_by(way, &wanted.props).await?)
    })
}

/// Says that a container can be trusted: nothing here ever makes one that cannot.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_status_clear(coh: Handle, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let cont = handle::cont(coh)?;
        cont.check_writable()?;
        let healthy = Props::from([(PropId(prop::CO_STATUS), PropValue::Number(0))]);
        Ok(cont.client.set_props_by(way, &healthy).await?)
    })
}

/// The list, the owner and the group of a container.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_get_acl(coh: Handle, props: Out<Out<List>>, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let (cont, props) = (handle::cont(coh)?, props.check()?);
        let list = prop::boxed(prop::make(&[prop::CO_ACL, prop::CO_OWNER, prop::CO_OWNER_GROUP])?)?;
        if let Err(error) = tell(way, &cont, list).await {
            prop::daos_prop_free(list);
            return Err(error);
        }
        props.set(list)
    })
}

async fn set_acl(way: Way, cont: &ContHandle, acl: &Acl) -> Result<()> {
    cont.check_writable()?;
    Ok(cont.client.set_acl_by(way, acl).await?)
}

/// Replaces the list of a container.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_overwrite_acl(coh: Handle, acl: Out<CAcl>, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let (cont, acl) = (handle::cont(coh)?, acl::read(acl)?);
        set_acl(way, &cont, &acl).await
    })
}

/// Adds entries to the list of a container, or replaces those of the same principals.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_update_acl(coh: Handle, acl: Out<CAcl>, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let cont = handle::cont(coh)?;
        let new = acl::read(acl)?;
        let mut own = cont.client.acl_by(way).await?;
        new.entries().iter().for_each(|entry| own.put(entry.clone()));
        set_acl(way, &cont, &own).await
    })
}

/// Removes an entry from the list of a container.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_delete_acl(coh: Handle, kind: c_uint, principal: Text, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let cont = handle::cont(coh)?;
        let who = Who::from_number(kind).ok_or(Der::INVAL)?;
        let named = if who.text().is_some() { None } else { Some(principal.str()?.to_owned()) };
        let mut own = cont.client.acl_by(way).await?;
        if !own.remove(who, named.as_deref()) {
            return Err(Der::NONEXIST);
        }
        set_acl(way, &cont, &own).await
    })
}

/// Gives a container to a user, a group, or both.
///
/// # Errors
/// `INVAL` for what is no principal, or nobody; `NONEXIST` for one that the system does not know, if it has to.
pub(crate) async fn set_owner(
    way: Way,
    coh: Handle,
    user: Text,
    group: Text,
    must_exist: bool,
) -> Result<()> {
    let cont = handle::cont(coh)?;
    cont.check_writable()?;
    let mut props = Props::new();
    for (kind, name) in [(prop::CO_OWNER, user), (prop::CO_OWNER_GROUP, group)] {
        let Some(name) = name.str_if_any()? else { continue };
        if !acl::is_principal(name) {
            return Err(Der::INVAL);
        }
        if must_exist {
            acl::check_known(name, kind == prop::CO_OWNER_GROUP)?;
        }
        props.insert(PropId(kind), PropValue::Text(name.to_owned()));
    }
    if props.is_empty() {
        return Err(Der::INVAL);
    }
    Ok(cont.client.set_props_by(way, &props).await?)
}

/// Gives a container to a user, a group, or both, which the system has to know.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_set_owner(coh: Handle, user: Text, group: Text, ev: Ev) -> c_int {
    go(ev, move |way| set_owner(way, coh, user, group, true))
}

/// As [`daos_cont_set_owner`], but only other systems need to know them.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_set_owner_no_check(coh: Handle, user: Text, group: Text, ev: Ev) -> c_int {
    go(ev, move |way| set_owner(way, coh, user, group, false))
}

/// What a list with owner and group allows somebody.
pub(crate) fn allowed(
    list: Out<List>,
    kinds: [u32; 3],
    uid: u32,
    gids: crate::raw::In<u32>,
    count: usize,
) -> Result<u64> {
    let entries = prop::entries(list)?;
    let entry = |kind| entries.iter().find(|entry| entry.kind == kind).ok_or(Der::INVAL);
    let [list, owner, group] = kinds;
    let own = acl::read(entry(list)?.acl())?;
    let name = format!("{}@", acl::user_name(uid)?);
    let mut groups = Vec::new();
    for &gid in gids.list(count)? {
        groups.push(format!("{}@", acl::group_name(gid)?));
    }
    let user = User { name: &name, groups: &groups };
    Ok(own.allows(&user, entry(owner)?.text()?, entry(group)?.text()?))
}

/// What a list with owner and group allows somebody to do with a container.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_get_perms(
    props: Out<List>,
    uid: u32,
    gids: crate::raw::In<u32>,
    count: usize,
    perms: Out<u64>,
) -> c_int {
    let kinds = [prop::CO_ACL, prop::CO_OWNER, prop::CO_OWNER_GROUP];
    der(|| perms.check()?.set(allowed(props, kinds, uid, gids, count)?))
}

/// The first of so many numbers for object ids.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_alloc_oids(coh: Handle, count: u64, oid: Out<u64>, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let (cont, oid) = (handle::cont(coh)?, oid.check()?);
        cont.check_writable()?;
        oid.set(cont.client.alloc_oids_by(way, count).await?)
    })
}

/// Frees versions that no reader can see.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_aggregate(coh: Handle, epoch: u64, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let cont = handle::cont(coh)?;
        cont.check_writable()?;
        let epoch = if epoch == u64::MAX { Epoch::ZERO } else { Epoch(epoch) };
        Ok(cont.client.aggregate_by(way, epoch).await.map(drop)?)
    })
}

/// Waits for changes of others: does not exist, as in DAOS.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_subscribe(coh: Handle, _epoch: Out<u64>, ev: Ev) -> c_int {
    run(ev, || {
        handle::cont(coh)?;
        Err(Der::NOSYS)
    })
}
