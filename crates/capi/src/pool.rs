//! Pools: connections, state, containers.

use crate::cont::allowed;
use crate::error::{Der, Result, der};
use crate::event::{self, Ev, go};
use crate::handle::{self, Entry};
use crate::life;
use crate::place::{self, PoolHandle};
use crate::prop::{self, List, Value};
use crate::raw::{In, Out, Text, allocate};
use crate::types::{CPoolCont, CPoolInfo, CPoolSpace, CRebuild, CSpace, CUuid, Handle, RankList, fixed};
use core::ffi::{c_int, c_uint};
use core::sync::atomic::Ordering;
use dolmen_client::{Error, POOL_PROPS, PoolInfo, PropId, PropValue, Props, SpaceReport, Way};
use std::sync::Arc;

/// How a pool may be connected to.
//= daos:src/include/daos_pool.h DAOS_PC_*
pub(crate) const CONNECT_RO: u32 = 1;
pub(crate) const CONNECT_RW: u32 = 2;
pub(crate) const CONNECT_EX: u32 = 4;
/// What a query asks for.
//= daos:src/include/daos_pool.h enum daos_pool_info_bit
const DISABLED_RANKS: u64 = 8 | 16;
/// No rebuild was ever necessary.
//= daos:src/include/daos_pool.h daos_rebuild_state_t
const NOT_STARTED: i32 = 1;

const NO_LABEL: &str = "pool_label_not_set";

/// State of a target.
//= daos:src/include/daos_pool.h daos_target_info_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CTarget {
    padding: u32,
    state: u32,
    perf: u64,
    space: CSpace,
}

const _: () = assert!(size_of::<CTarget>() == 48);

/// Connects to the pool that a label or UUID means.
#[unsafe(no_mangle)]
extern "C" fn daos_pool_connect2(
    pool: Text,
    sys: Text,
    flags: c_uint,
    poh: Out<Handle>,
    info: Out<CPoolInfo>,
    ev: Ev,
) -> c_int {
    go(ev, move |way| connect(way, pool, sys, flags, poh, info))
}

/// As [`daos_pool_connect2`]: the name that programs ask the loader for.
#[unsafe(no_mangle)]
extern "C" fn daos_pool_connect(
    pool: Text,
    sys: Text,
    flags: c_uint,
    poh: Out<Handle>,
    info: Out<CPoolInfo>,
    ev: Ev,
) -> c_int {
    daos_pool_connect2(pool, sys, flags, poh, info, ev)
}

async fn connect(
    way: Way,
    pool: Text,
    sys: Text,
    flags: c_uint,
    poh: Out<Handle>,
    info: Out<CPoolInfo>,
) -> Result<()> {
    life::check()?;
    if ![CONNECT_RO, CONNECT_RW, CONNECT_EX].contains(&flags) {
        return Err(Der::INVAL);
    }
    let poh = poh.check()?;
    let bits = if info.is_null() { 0 } else { info.get()?.bits };
    let (place, pool) = (place::system(sys.str_if_any()?)?, pool.str()?.to_owned());
    let opened = place::connect_by(way, place, &pool, flags, flags != CONNECT_RO).await?;
    if !info.is_null() {
        info.set(info_of(&opened.client.query_by(way).await?, bits))?;
    }
    poh.set(handle::insert(Entry::Pool(Arc::new(opened)))?)
}

/// Gives a connection up; refused while containers are open through it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn daos_pool_disconnect(poh: Handle, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let pool = handle::pool(poh)?;
        if pool.conts.load(Ordering::Acquire) > 0 {
            return Err(Der::BUSY);
        }
        drop(handle::remove(poh, |entry| matches!(entry, Entry::Pool(_)))?);
        event::let_go(pool.number);
        pool.leave(way).await;
        Ok(())
    })
}

/// Space of one target: all of it counts as the first medium.
fn space_of(report: &SpaceReport) -> CSpace {
    CSpace { total: [report.total_bytes, 0], free: [report.free_bytes, 0] }
}

fn info_of(info: &PoolInfo, bits: u64) -> CPoolInfo {
    let frees: Vec<u64> = info.space.iter().map(|report| report.free_bytes).collect();
    let targets = frees.len() as u64;
    let (total, free) = (info.space.iter().map(|report| report.total_bytes).sum(), frees.iter().sum::<u64>());
    let count = u32::try_from(info.map.targets.len()).unwrap_or(u32::MAX);
    let is_down = |state| state != dolmen_types::TargetState::UpIn;
    let disabled = info.map.targets.iter().filter(|target| is_down(target.state)).count();
    CPoolInfo {
        uuid: CUuid::from(info.map.pool),
        ntargets: count,
        nnodes: u32::try_from(ranks(info).len()).unwrap_or(u32::MAX),
        ndisabled: u32::try_from(disabled).unwrap_or(u32::MAX),
        map_ver: info.map.version,
        leader: 0,
        bits,
        space: CPoolSpace {
            space: CSpace { total: [total, 0], free: [free, 0] },
            free_min: [frees.iter().copied().min().unwrap_or(0), 0],
            free_max: [frees.iter().copied().max().unwrap_or(0), 0],
            free_mean: [free.checked_div(targets).unwrap_or(0), 0],
            ntargets: count,
            padding: 0,
        },
        rebuild: CRebuild { state: NOT_STARTED, ..CRebuild::default() },
    }
}

/// The engines that serve, or those that do not.
fn ranks_of(info: &PoolInfo, bits: u64) -> Vec<u32> {
    let wants_up = bits & DISABLED_RANKS == 0;
    ranks(info).into_iter().filter(|rank| serves(info, *rank) == wants_up).collect()
}

/// Whether all targets of an engine are there.
fn serves(info: &PoolInfo, rank: u32) -> bool {
    let mut own = info.map.targets.iter().filter(|target| target.rank == rank);
    own.all(|target| target.state == dolmen_types::TargetState::UpIn)
}

/// The engines that have targets of the pool, ascending.
fn ranks(info: &PoolInfo) -> Vec<u32> {
    let mut ranks: Vec<u32> = info.map.targets.iter().map(|target| target.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// Ranks, state and properties of a pool.
#[unsafe(no_mangle)]
extern "C" fn daos_pool_query(
    poh: Handle,
    list: Out<Out<RankList>>,
    info: Out<CPoolInfo>,
    props: Out<List>,
    ev: Ev,
) -> c_int {
    go(ev, move |way| async move {
        let pool = handle::pool(poh)?;
        let bits = if info.is_null() { 0 } else { info.get()?.bits };
        let found = pool.client.query_by(way).await?;
        let recorded = if props.is_null() { Props::new() } else { told(pool.client.props_by(way).await)? };
        if !info.is_null() {
            info.set(info_of(&found, bits))?;
        }
        let all: Vec<u32> = (1..=27).collect();
        prop::tell(props, &all, |kind| property(&pool, &found, &recorded, kind))?;
        // Last, since nobody frees the ranks of a question that has failed.
        if !list.is_null() {
            list.set(rank_list(&ranks_of(&found, bits))?)?;
        }
        Ok(())
    })
}

/// Ranks as memory of a C program.
pub(crate) fn rank_list(ranks: &[u32]) -> Result<Out<RankList>> {
    let memory = Out::of(allocate(size_of_val(ranks))?.cast::<u32>());
    memory.copy_from(ranks)?;
    let list = Out::of(allocate(size_of::<RankList>())?.cast::<RankList>());
    let nr = u32::try_from(ranks.len()).map_err(|_wide| Der::OVERFLOW)?;
    list.set(RankList { ranks: memory.as_ptr(), nr })?;
    Ok(list)
}

/// What somebody has set of a pool's properties; none for whoever may not read them.
fn told(props: dolmen_client::Result<Props>) -> Result<Props> {
    match props {
        Err(Error::NoPermission) => Ok(Props::new()),
        props => Ok(props?),
    }
}

/// A property of a pool.
fn property(pool: &PoolHandle, info: &PoolInfo, recorded: &Props, kind: u32) -> Option<Value> {
    let recorded = |id: PropId| recorded.get(&id).cloned();
    match kind {
        prop::PO_LABEL => {
            let label = info.label.as_ref().map_or(pool.label.as_deref(), |label| Some(label.as_str()));
            Some(Value::Text(label.unwrap_or(NO_LABEL).to_owned()))
        }
        prop::PO_ACL => match recorded(PropId::PO_ACL) {
            Some(PropValue::Bytes(list)) => Some(Value::Bytes(list)),
            // Whoever may not read it is told none.
            _ => None,
        },
        prop::PO_OWNER | prop::PO_OWNER_GROUP => {
            let id = if kind == prop::PO_OWNER { PropId::PO_OWNER } else { PropId::PO_OWNER_GROUP };
            match recorded(id) {
                Some(PropValue::Text(name)) => Some(Value::Text(name)),
                _ => None,
            }
        }
        prop::PO_SVC_LIST => Some(Value::Ranks(ranks(info))),
        kind => POOL_PROPS.iter().find(|prop| prop.id == kind).map(|prop| Value::Number(prop.value)),
    }
}

/// State of a target.
#[unsafe(no_mangle)]
extern "C" fn daos_pool_query_target(
    poh: Handle,
    target: u32,
    rank: u32,
    info: Out<CTarget>,
    ev: Ev,
) -> c_int {
    go(ev, move |way| async move {
        let pool = handle::pool(poh)?;
        let found = pool.client.query_by(way).await?;
        let mut of_rank = found.map.targets.iter().enumerate().filter(|(_, target)| target.rank == rank);
        let (index, entry) = of_rank.nth(target as usize).ok_or(Der::NONEXIST)?;
        let space = found.space.get(index).map_or(CSpace::default(), space_of);
        info.set(CTarget { padding: 0, state: entry.state as u32, perf: 0, space })
    })
}

/// The containers of a pool: how many, and as many as there is room for.
#[unsafe(no_mangle)]
extern "C" fn daos_pool_list_cont(poh: Handle, count: Out<u64>, conts: Out<CPoolCont>, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let pool = handle::pool(poh)?;
        let room = usize::try_from(count.get()?).unwrap_or(usize::MAX);
        let found = pool.client.containers_by(way).await?;
        count.set(found.len() as u64)?;
        if conts.is_null() {
            return Ok(());
        }
        for (index, cont) in found.iter().take(room).enumerate() {
            let label = cont.label.as_ref().map_or("container_label_not_set", |label| label.as_str());
            conts.at(index).set(CPoolCont { uuid: cont.uuid.into(), label: fixed(label) })?;
        }
        if found.len() > room { Err(Der::TRUNC) } else { Ok(()) }
    })
}

/// What a list with owner and group allows somebody to do with a pool.
#[unsafe(no_mangle)]
extern "C" fn daos_pool_get_perms(
    props: Out<List>,
    uid: u32,
    gids: In<u32>,
    count: usize,
    perms: Out<u64>,
) -> c_int {
    let kinds = [prop::PO_ACL, prop::PO_OWNER, prop::PO_OWNER_GROUP];
    der(|| perms.check()?.set(allowed(props, kinds, uid, gids, count)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_client::Uuid;
    use dolmen_types::{PoolMap, TargetInfo, TargetState};

    #[test]
    fn who_may_not_read_properties_is_told_none_and_what_failed_is_told_as_that() {
        let set = Props::from([(PropId::PO_OWNER, PropValue::Text("anna@".to_owned()))]);
        assert_eq!(told(Ok(set.clone())), Ok(set));
        assert_eq!(told(Err(Error::NoPermission)), Ok(Props::new()));
        for (error, der) in [
            (Error::Unreachable { rank: 0 }, Der::UNREACH),
            (Error::TimedOut, Der::TIMEDOUT),
            (Error::Busy, Der::BUSY),
        ] {
            assert_eq!(told(Err(error)), Err(der));
        }
    }

    #[test]
    fn engines_that_do_not_serve_are_told_apart() {
        let target = |rank, state| TargetInfo { rank, state };
        let targets = vec![
            target(0, TargetState::UpIn),
            target(0, TargetState::UpIn),
            target(2, TargetState::Down),
            target(5, TargetState::UpIn),
        ];
        let map = PoolMap { version: 1, pool: Uuid::nil(), targets };
        let info = PoolInfo { map, label: None, space: Vec::new(), cont_count: 0 };
        assert_eq!(ranks_of(&info, 0), [0, 5]);
        assert_eq!(ranks_of(&info, 4), [0, 5]);
        assert_eq!(ranks_of(&info, 8), [2]);
        assert_eq!(ranks_of(&info, 16), [2]);
        assert_eq!(info_of(&info, 0).ndisabled, 1);
    }
}
