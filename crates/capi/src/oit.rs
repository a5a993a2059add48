//! Object id tables: the objects of a snapshot, and marks on them.
//!
//! A table is read from the snapshot when it is opened. Marks are values of an object of the container: of type `OitV2`,
//! with the snapshot's epoch as the lower half of its id, as DAOS has it; such objects are in no table.

use crate::cont::ContHandle;
use crate::error::{Der, Result};
use crate::event::{Ev, ending_of, go, run};
use crate::handle::{self, Entry};
use crate::object::is_table;
use crate::raw::Out;
use crate::types::{CAnchor, Handle, Iov, ObjId};
use core::ffi::c_int;
use dolmen_client::{
    Anchor, At, Cond, Epoch, Error, FetchIod, IoBuf, Key, NewValue, Object, ObjectClass, ObjectType, Oid,
    Output, Payload, UpdateIod, Want, Way,
};
use std::sync::Arc;

/// The dkey of all marks.
const MARKS: &[u8] = b"marks";
/// A mark has at most so many bytes.
//= daos:src/include/daos_obj.h DAOS_OIT_MARKER_MAX_LEN
const MARK_BYTES_MAX: usize = 32;
/// Marks that are read at a time.
const BATCH_LEN: usize = 256;

/// An open object id table.
pub(crate) struct OitHandle {
    cont: Arc<ContHandle>,
    marks: Object,
    /// Ascending.
    oids: Vec<Oid>,
}

impl OitHandle {
    pub(crate) fn cont(&self) -> &ContHandle {
        &self.cont
    }
}

type Filter = extern "C" fn(ObjId, Out<Iov>, Out<bool>) -> c_int;

/// The object with the marks of a snapshot.
fn marks_of(cont: &ContHandle, epoch: Epoch) -> Result<Object> {
    Ok(cont.client.object(Oid::new(ObjectType::OitV2, ObjectClass::S1, 0, epoch.0))?)
}

/// Removes the marks of a snapshot that is gone.
///
/// # Errors
/// Those of the client.
pub(crate) async fn forget_marks(way: Way, cont: &ContHandle, epoch: Epoch) -> Result<()> {
    punch(way, cont, &marks_of(cont, epoch)?).await
}

async fn punch(way: Way, cont: &ContHandle, marks: &Object) -> Result<()> {
    if way == Way::Now {
        marks.punch(At::Latest, Cond::NONE)?;
        return Ok(());
    }
    let start = |event: &mut _| Ok(marks.punch_on(event, At::Latest, Cond::NONE)?);
    ending_of(&cont.pool, start).await?.result?;
    Ok(())
}

/// # Errors
/// `NONEXIST` unless there is a snapshot at this epoch.
pub(crate) async fn check_snapshot(way: Way, cont: &ContHandle, epoch: Epoch) -> Result<()> {
    let is_there = cont.client.snapshots_by(way).await?.iter().any(|snapshot| snapshot.epoch == epoch);
    if is_there { Ok(()) } else { Err(Der::NONEXIST) }
}

/// Opens the table of a snapshot.
#[unsafe(no_mangle)]
extern "C" fn daos_oit_open(coh: Handle, epoch: u64, oh: Out<Handle>, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let oh = oh.check()?;
        let cont = handle::cont(coh)?;
        check_snapshot(way, &cont, Epoch(epoch)).await?;
        let mut oids = Vec::new();
        let mut walk = cont.client.objects(Some(Epoch(epoch)));
        loop {
            let page = walk.next_page_by(way).await?;
            if page.is_empty() {
                break;
            }
            oids.extend(page.into_iter().filter(|&oid| !is_table(oid)));
        }
        oids.sort_unstable();
        let marks = marks_of(&cont, Epoch(epoch))?;
        oh.set(handle::insert(Entry::Oit(Arc::new(OitHandle { cont, marks, oids })))?)
    })
}

/// Gives a table's handle up.
#[unsafe(no_mangle)]
extern "C" fn daos_oit_close(oh: Handle, ev: Ev) -> c_int {
    run(ev, || handle::remove(oh, |entry| matches!(entry, Entry::Oit(_))).map(drop))
}

/// Removes the marks of a table.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_snap_oit_destroy(coh: Handle, oh: Handle, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let (cont, table) = (handle::cont(coh)?, handle::oit(oh)?);
        cont.check_writable()?;
        punch(way, &cont, &table.marks).await
    })
}

/// The next objects after the anchor.
#[unsafe(no_mangle)]
extern "C" fn daos_oit_list(
    oh: Handle,
    oids: Out<ObjId>,
    nr: Out<u32>,
    anchor: Out<CAnchor>,
    ev: Ev,
) -> c_int {
    go(ev, move |way| list(way, oh, oids, nr, anchor, |_oid, _mark| Ok(true)))
}

/// The next objects without a mark.
#[unsafe(no_mangle)]
extern "C" fn daos_oit_list_unmarked(
    oh: Handle,
    oids: Out<ObjId>,
    nr: Out<u32>,
    anchor: Out<CAnchor>,
    ev: Ev,
) -> c_int {
    go(ev, move |way| list(way, oh, oids, nr, anchor, |_oid, mark| Ok(mark.is_empty())))
}

/// The next objects of which a function of the program says so.
#[unsafe(no_mangle)]
extern "C" fn daos_oit_list_filter(
    oh: Handle,
    oids: Out<ObjId>,
    nr: Out<u32>,
    anchor: Out<CAnchor>,
    filter: Option<Filter>,
    ev: Ev,
) -> c_int {
    go(ev, move |way| async move {
        let filter = filter.ok_or(Der::INVAL)?;
        let is_wanted = move |oid: Oid, mark: &[u8]| {
            let mut bytes = [0_u8; MARK_BYTES_MAX];
            bytes[..mark.len()].copy_from_slice(mark);
            let mut iov = Iov { buf: Out::of(bytes.as_mut_ptr()), buf_len: mark.len(), len: mark.len() };
            let mut is_listed = false;
            let said = filter(oid.into(), Out::of(&raw mut iov), Out::of(&raw mut is_listed));
            if said == 0 { Ok(is_listed) } else { Err(Der::from_code(said)) }
        };
        list(way, oh, oids, nr, anchor, is_wanted).await
    })
}

/// Gives the program the next objects that are wanted.
async fn list(
    way: Way,
    oh: Handle,
    oids: Out<ObjId>,
    nr: Out<u32>,
    anchor: Out<CAnchor>,
    mut is_wanted: impl FnMut(Oid, &[u8]) -> Result<bool>,
) -> Result<()> {
    let table = handle::oit(oh)?;
    let room = nr.get()? as usize;
    let own = anchor.get()?;
    if room == 0 || oids.is_null() {
        return Err(Der::INVAL);
    }
    let position = own.anchor()?;
    let mut at = if position.is_eof() { table.oids.len() } else { table.after(position.position())? };
    let mut found = Vec::new();
    while at < table.oids.len() && found.len() < room {
        let batch = &table.oids[at..table.oids.len().min(at + BATCH_LEN)];
        let marks = table.marks(way, batch).await?;
        for (&oid, mark) in batch.iter().zip(&marks) {
            if found.len() == room {
                break;
            }
            at += 1;
            if is_wanted(oid, mark)? {
                found.push(ObjId::from(oid));
            }
        }
    }
    oids.copy_from(&found)?;
    let end = match at.checked_sub(1) {
        Some(last) if at < table.oids.len() => Anchor::after(&key_of(table.oids[last])).ok_or(Der::MISC)?,
        None if !table.oids.is_empty() => Anchor::default(),
        _ => Anchor::eof(),
    };
    anchor.set(own.moved_to(&end))?;
    nr.set(u32::try_from(found.len()).map_err(|_wide| Der::OVERFLOW)?)
}

fn key_of(oid: Oid) -> [u8; 16] {
    oid.to_bytes()
}

impl OitHandle {
    /// Where the listing goes on.
    fn after(&self, position: &[u8]) -> Result<usize> {
        if position.is_empty() {
            return Ok(0);
        }
        let last = Oid::from_bytes(position.try_into().map_err(|_other| Der::INVAL)?);
        Ok(self.oids.partition_point(|&oid| oid <= last))
    }

    /// Marks an object, or takes its mark away.
    async fn put(&self, way: Way, oid: Oid, mark: &[u8]) -> Result<dolmen_client::Result<()>> {
        let (marks, key) = (&self.marks, key_of(oid));
        if way == Way::Now {
            let put = if mark.is_empty() {
                marks.punch_akeys(At::Latest, MARKS, &[&key], Cond::NONE)
            } else {
                marks.put(At::Latest, MARKS, &key, mark)
            };
            return Ok(put.map(drop));
        }
        let start = |event: &mut _| {
            if mark.is_empty() {
                return Ok(marks.punch_akeys_on(event, At::Latest, MARKS, &[&key], Cond::NONE)?);
            }
            let value = NewValue::Single(Payload::Owned(IoBuf::from(mark)));
            let iod = UpdateIod { akey: Key::from_slice(&key), cond: Cond::NONE, value };
            Ok(marks.update_on(event, At::Latest, MARKS, Cond::NONE, vec![iod])?)
        };
        Ok(ending_of(&self.cont.pool, start).await?.result.map(drop))
    }

    /// The marks of some objects; empty where there is none.
    async fn marks(&self, way: Way, oids: &[Oid]) -> Result<Vec<Vec<u8>>> {
        let want = Want::Single { room_bytes: MARK_BYTES_MAX };
        let iod = |oid: &Oid| FetchIod { akey: Key::from_slice(&key_of(*oid)), want: want.clone() };
        let iods: Vec<FetchIod> = oids.iter().map(iod).collect();
        let mut buf = IoBuf::zeroed(oids.len() * MARK_BYTES_MAX);
        let found = if way == Way::Now {
            self.marks.fetch(At::Latest, MARKS, Cond::NONE, &iods, &mut buf)?
        } else {
            let given = core::mem::take(&mut buf);
            let start = |event: &mut _| {
                Ok(self.marks.fetch_on(event, At::Latest, MARKS, Cond::NONE, &iods, given)?)
            };
            let ending = ending_of(&self.cont.pool, start).await?;
            buf = ending.buf.ok_or(Der::MISC)?;
            let Output::Fetched(found) = ending.result? else { return Err(Der::MISC) };
            found
        };
        let mark = |(index, size): (usize, u64)| {
            let len = usize::try_from(size).unwrap_or(0).min(MARK_BYTES_MAX);
            buf[index * MARK_BYTES_MAX..][..len].to_vec()
        };
        Ok(found.iter().map(|found| found.size_bytes).enumerate().map(mark).collect())
    }
}

/// Marks an object of the table; no bytes take the mark away.
#[unsafe(no_mangle)]
extern "C" fn daos_oit_mark(oh: Handle, oid: ObjId, marker: Out<Iov>, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let table = handle::oit(oh)?;
        table.cont.check_writable()?;
        let mark = if marker.is_null() { Vec::new() } else { marker.get()?.bytes()?.to_vec() };
        if mark.len() > MARK_BYTES_MAX {
            return Err(Der::INVAL);
        }
        let oid = oid.oid();
        if table.oids.binary_search(&oid).is_err() {
            return Err(Der::NONEXIST);
        }
        match table.put(way, oid, &mark).await? {
            Ok(_) | Err(Error::NotFound) => Ok(()),
            Err(error) => Err(error.into()),
        }
    })
}
