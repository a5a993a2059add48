//! Systems: what they are, and their pools. Clocks, and lists of ranks.

use crate::error::{Der, Result, der, silent};
use crate::event::{Ev, go, run};
use crate::life;
use crate::place;
use crate::pool::rank_list;
use crate::raw::{Out, Text, allocate, duplicate, release};
use crate::types::{CUuid, Handle, RankList, fixed};
use core::ffi::{c_char, c_int, c_uint};
use dolmen_client::Epoch;
use dolmen_codec::wire::RankInfo;

/// What a system is.
//= daos:src/include/daos_types.h struct daos_sys_info
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CSystem {
    name: [c_char; 64],
    provider: [c_char; 64],
    agent_path: [c_char; 4096],
    nr_ranks: u32,
    ranks: *mut CRankUri,
    nr_ms_ranks: u32,
    ms_ranks: *mut u32,
}

/// An engine and its address.
//= daos:src/include/daos_types.h struct daos_rank_uri
#[derive(Clone, Copy)]
#[repr(C)]
struct CRankUri {
    rank: u32,
    uri: *mut c_char,
}

/// A pool of a system.
//= daos:src/include/daos_mgmt.h daos_mgmt_pool_info_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CPool {
    uuid: CUuid,
    label: *mut c_char,
    svc: *mut RankList,
    leader: u32,
}

/// A time of the system.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CTime {
    seconds: i64,
    nanoseconds: i64,
}

const _: () = assert!(size_of::<CSystem>() == 4256);
const _: () = assert!(size_of::<CPool>() == 40);

/// What a system is called, and where it is.
#[unsafe(no_mangle)]
extern "C" fn daos_mgmt_get_sys_info(sys: Text, info: Out<Out<CSystem>>) -> c_int {
    der(|| {
        life::check()?;
        let info = info.check()?;
        let place = place::system(sys.str_if_any()?)?;
        let address = place::text(&place);
        let (name, engines) = match place::described(&place)? {
            Some(found) => {
                let uri = |info: &RankInfo| info.addresses.first().cloned().unwrap_or_default();
                (found.name, found.ranks.iter().map(|info| (info.rank, uri(info))).collect())
            }
            None => (address.clone(), vec![(0, address.clone())]),
        };
        info.set(told(&name, &engines)?)
    })
}

/// A description as memory of a C program. The first engine is the one where pools are made.
fn told(name: &str, engines: &[(u32, String)]) -> Result<Out<CSystem>> {
    let ranks = Out::of(allocate(engines.len() * size_of::<CRankUri>())?.cast::<CRankUri>());
    for (index, (rank, uri)) in engines.iter().enumerate() {
        ranks.at(index).set(CRankUri { rank: *rank, uri: duplicate(uri.as_bytes())? })?;
    }
    let ms_ranks = Out::of(allocate(size_of::<u32>())?.cast::<u32>());
    ms_ranks.set(engines.first().map_or(0, |engine| engine.0))?;
    let provider = engines.first().and_then(|engine| engine.1.split(':').next()).unwrap_or("");
    let system = Out::of(allocate(size_of::<CSystem>())?.cast::<CSystem>());
    system.set(CSystem {
        name: fixed(name),
        provider: fixed(provider),
        agent_path: [0; 4096],
        nr_ranks: u32::try_from(engines.len()).map_err(|_wide| Der::OVERFLOW)?,
        ranks: ranks.as_ptr(),
        nr_ms_ranks: 1,
        ms_ranks: ms_ranks.as_ptr(),
    })?;
    Ok(system)
}

/// Frees what [`daos_mgmt_get_sys_info`] gave.
#[unsafe(no_mangle)]
extern "C" fn daos_mgmt_put_sys_info(info: Out<CSystem>) {
    silent((), || {
        let Ok(system) = info.get() else { return };
        for entry in Out::of(system.ranks).list(system.nr_ranks as usize).unwrap_or(&[]) {
            release(entry.uri);
        }
        release(system.ranks);
        release(system.ms_ranks);
        release(info.as_ptr());
    });
}

/// The pools of a system: how many, and as many as there is room for.
#[unsafe(no_mangle)]
extern "C" fn daos_mgmt_list_pools(sys: Text, count: Out<u64>, pools: Out<CPool>, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        life::check()?;
        let room = usize::try_from(count.get()?).unwrap_or(usize::MAX);
        let place = place::system(sys.str_if_any()?)?;
        let found = place::pools(way, &place).await?;
        count.set(found.len() as u64)?;
        if pools.is_null() {
            return Ok(());
        }
        if found.len() > room {
            return Err(Der::TRUNC);
        }
        for (index, (uuid, label)) in found.iter().enumerate() {
            let label = duplicate(label.as_deref().unwrap_or("").as_bytes())?;
            let svc = rank_list(&[0])?.as_ptr();
            pools.at(index).set(CPool { uuid: CUuid::from(*uuid), label, svc, leader: 0 })?;
        }
        Ok(())
    })
}

/// Sets what DAOS's own tests inject faults with: does not exist.
#[unsafe(no_mangle)]
extern "C" fn daos_debug_set_params(
    _sys: Text,
    _rank: u32,
    _key: c_uint,
    _value: u64,
    _extra: u64,
    ev: Ev,
) -> c_int {
    run(ev, || Err(Der::NOSYS))
}

/// Writes a mark into the logs of engines: they have none that programs write to.
#[unsafe(no_mangle)]
extern "C" fn daos_debug_add_mark(_mark: Text) -> c_int {
    der(|| Err(Der::NOSYS))
}

/// The state of a store of DAOS's below its pools: there is none.
#[unsafe(no_mangle)]
extern "C" fn daos_mgmt_get_bs_state(_sys: Text, _store: Out<CUuid>, _state: Out<c_int>, ev: Ev) -> c_int {
    run(ev, || Err(Der::NOSYS))
}

/// Ends the service of a pool, as DAOS's own tests do: it is one with its engine, which `dmg system stop` ends.
#[unsafe(no_mangle)]
extern "C" fn daos_pool_stop_svc(poh: Handle, ev: Ev) -> c_int {
    run(ev, || {
        crate::handle::pool(poh)?;
        Err(Der::NOSYS)
    })
}

/// The version of the interface that the system serves.
#[unsafe(no_mangle)]
extern "C" fn dc_mgmt_srv_version(
    major: Out<u32>,
    minor: Out<u32>,
    patch: Out<u32>,
    tag: Out<*mut c_char>,
) -> c_int {
    der(|| {
        life::check()?;
        for (to, number) in [(major, 2), (minor, 8), (patch, 0)] {
            to.set(number)?;
        }
        let own = concat!("dolmen-", env!("CARGO_PKG_VERSION"));
        if tag.is_null() { Ok(()) } else { tag.set(duplicate(own.as_bytes())?) }
    })
}

/// The time of an epoch.
#[unsafe(no_mangle)]
extern "C" fn daos_hlc2timespec(hlc: u64, time: Out<CTime>) -> c_int {
    der(|| time.set(time_of(hlc)?))
}

/// The time of an epoch, in seconds.
#[unsafe(no_mangle)]
extern "C" fn daos_hlc2timestamp(hlc: u64, time: Out<i64>) -> c_int {
    der(|| time.set(time_of(hlc)?.seconds))
}

fn time_of(hlc: u64) -> Result<CTime> {
    let ns = Epoch(hlc).unix_ns();
    let signed = |number: u64| i64::try_from(number).map_err(|_wide| Der::OVERFLOW);
    Ok(CTime { seconds: signed(ns / 1_000_000_000)?, nanoseconds: signed(ns % 1_000_000_000)? })
}

/// The ranks of `0,2-5`; NULL for what is no such list.
#[unsafe(no_mangle)]
extern "C" fn daos_rank_list_parse(text: Text, separator: Text) -> Out<RankList> {
    let parsed = || rank_list(&ranks_of(text.str()?, separator.str()?)?);
    silent(Out::NULL, || parsed().unwrap_or(Out::NULL))
}

/// A list has at most so many: ranges are short, and what they mean is not.
const RANKS_MAX: usize = 1 << 20;

fn ranks_of(text: &str, separator: &str) -> Result<Vec<u32>> {
    let mut ranks = Vec::new();
    for word in text.split(|c| separator.contains(c)).filter(|word| !word.is_empty()) {
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_other| Der::INVAL);
        let (first, last) = match word.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(word)?, number(word)?),
        };
        if first > last || (last - first) as usize >= RANKS_MAX - ranks.len() {
            return Err(Der::INVAL);
        }
        ranks.extend(first..=last);
    }
    if ranks.is_empty() { Err(Der::INVAL) } else { Ok(ranks) }
}
