//! Snapshots of containers.

use crate::cont::ContHandle;
use crate::error::{Der, Result};
use crate::event::{Ev, go};
use crate::handle;
use crate::oit;
use crate::raw::{Out, Text};
use crate::types::{CAnchor, EpochRange, Handle};
use core::ffi::{c_int, c_uint};
use dolmen_client::{Anchor, Epoch, Snapshot, Way};

/// Makes a snapshot; its objects can be listed.
//= daos:src/include/daos_cont.h enum daos_snapshot_opts
const CREATE: c_uint = 1;
const WITH_TABLE: c_uint = 2;
/// Room for a name with its zero.
//= daos:src/include/daos_cont.h DAOS_SNAPSHOT_MAX_LEN
const NAME_BYTES: usize = 128;

async fn create(way: Way, coh: Handle, epoch: Out<u64>, name: Text, options: c_uint) -> Result<()> {
    if options & !(CREATE | WITH_TABLE) != 0 {
        return Err(Der::INVAL);
    }
    if options & CREATE == 0 {
        return Err(Der::NOSYS);
    }
    let (cont, epoch) = (handle::cont(coh)?, epoch.check()?);
    cont.check_writable()?;
    let name = name.str_if_any()?.map(str::to_owned);
    epoch.set(cont.client.create_snapshot_by(way, name.as_deref()).await?.0)
}

/// Keeps the state of now, with a name or without.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_create_snap(coh: Handle, epoch: Out<u64>, name: Text, ev: Ev) -> c_int {
    go(ev, move |way| create(way, coh, epoch, name, CREATE))
}

/// As [`daos_cont_create_snap`]; every snapshot's objects can be listed, whether that is asked for or not.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_create_snap_opt(
    coh: Handle,
    epoch: Out<u64>,
    name: Text,
    options: c_uint,
    ev: Ev,
) -> c_int {
    go(ev, move |way| create(way, coh, epoch, name, options))
}

/// The next snapshots after the anchor; without room only how many there are.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_list_snap(
    coh: Handle,
    nr: Out<c_int>,
    epochs: Out<u64>,
    names: Out<Out<u8>>,
    anchor: Out<CAnchor>,
    ev: Ev,
) -> c_int {
    go(ev, move |way| async move {
        let cont = handle::cont(coh)?;
        let room = nr.get()?;
        let snapshots = cont.client.snapshots_by(way).await?;
        if epochs.is_null() && names.is_null() {
            return nr.set(c_int::try_from(snapshots.len()).map_err(|_wide| Der::OVERFLOW)?);
        }
        let room = usize::try_from(room).map_err(|_negative| Der::INVAL)?;
        let own = anchor.get()?;
        let position = own.anchor()?;
        let first = first_after(&snapshots, &position)?;
        let rest = &snapshots[first..];
        let told = &rest[..rest.len().min(room)];
        for (index, snapshot) in told.iter().enumerate() {
            tell(snapshot, index, epochs, names)?;
        }
        let end = match told.last() {
            Some(last) if told.len() < rest.len() => {
                Anchor::after(&last.epoch.0.to_le_bytes()).ok_or(Der::MISC)?
            }
            None if !rest.is_empty() => position,
            _ => Anchor::eof(),
        };
        anchor.set(own.moved_to(&end))?;
        nr.set(c_int::try_from(told.len()).map_err(|_wide| Der::OVERFLOW)?)
    })
}

/// Where a listing goes on.
fn first_after(snapshots: &[Snapshot], position: &Anchor) -> Result<usize> {
    if position.is_eof() {
        return Ok(snapshots.len());
    }
    match position.position() {
        [] => Ok(0),
        bytes => {
            let last = u64::from_le_bytes(bytes.try_into().map_err(|_other| Der::INVAL)?);
            Ok(snapshots.partition_point(|snapshot| snapshot.epoch.0 <= last))
        }
    }
}

fn tell(snapshot: &Snapshot, index: usize, epochs: Out<u64>, names: Out<Out<u8>>) -> Result<()> {
    if !epochs.is_null() {
        epochs.at(index).set(snapshot.epoch.0)?;
    }
    if !names.is_null() {
        let name = snapshot.name.as_deref().unwrap_or("");
        let to = names.at(index).get()?;
        let fits = name.len().min(NAME_BYTES - 1);
        to.copy_from(&name.as_bytes()[..fits])?;
        to.at(fits).set(0)?;
    }
    Ok(())
}

/// Destroys the snapshots of a range of epochs, with what is marked in their tables.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_destroy_snap(coh: Handle, range: EpochRange, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let cont = handle::cont(coh)?;
        cont.check_writable()?;
        if range.hi < range.lo {
            return Err(Der::INVAL);
        }
        let snapshots = cont.client.snapshots_by(way).await?;
        let is_gone = |epoch: &Epoch| (range.lo..=range.hi).contains(&epoch.0);
        let gone: Vec<Epoch> = snapshots.iter().map(|snapshot| snapshot.epoch).filter(is_gone).collect();
        if gone.is_empty() {
            return Err(Der::NONEXIST);
        }
        for epoch in gone {
            destroy(way, &cont, epoch).await?;
        }
        Ok(())
    })
}

async fn destroy(way: Way, cont: &ContHandle, epoch: Epoch) -> Result<()> {
    cont.client.destroy_snapshot_by(way, epoch).await?;
    oit::forget_marks(way, cont, epoch).await
}

/// Returns a container to a snapshot.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_rollback(coh: Handle, epoch: u64, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let cont = handle::cont(coh)?;
        cont.check_writable()?;
        Ok(cont.client.rollback_by(way, Epoch(epoch)).await.map(drop)?)
    })
}

/// Makes the objects of a snapshot listable, which they are.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_snap_oit_create(coh: Handle, epoch: u64, name: Text, ev: Ev) -> c_int {
    go(ev, move |way| async move {
        let cont = handle::cont(coh)?;
        match name.str_if_any()?.map(str::to_owned) {
            None => oit::check_snapshot(way, &cont, Epoch(epoch)).await,
            Some(name) => {
                let is_named = |snapshot: &Snapshot| snapshot.name.as_ref() == Some(&name);
                let snapshots = cont.client.snapshots_by(way).await?;
                if snapshots.iter().any(is_named) { Ok(()) } else { Err(Der::NONEXIST) }
            }
        }
    })
}
