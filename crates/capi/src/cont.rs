//! Containers: making, opening, closing, destroying.

use crate::error::{Der, Result};
use crate::event::{Ev, run};
use crate::handle::{self, Entry};
use crate::place::PoolHandle;
use crate::raw::{Out, Text};
use crate::types::{CContInfo, CUuid, Handle};
use core::ffi::{c_int, c_uint};
use core::sync::atomic::Ordering;
use dolmen_client::{ContName, Container, Label, Props, Uuid};
use std::sync::Arc;

/// How a container may be opened.
//= daos:src/include/daos_cont.h DAOS_COO_*
const OPEN_RO: u32 = 1;
const OPEN_RW: u32 = 2;
const OPEN_EX: u32 = 4;
const OPEN_FLAGS: u32 = 255;

/// An open container.
pub(crate) struct ContHandle {
    pub(crate) client: Container,
    pub(crate) pool: Arc<PoolHandle>,
    /// Whether anything may be changed through it.
    pub(crate) writable: bool,
    /// What it was opened with.
    pub(crate) flags: u32,
}

impl ContHandle {
    pub(crate) fn new(client: Container, pool: Arc<PoolHandle>, flags: u32) -> Self {
        pool.conts.fetch_add(1, Ordering::AcqRel);
        Self { client, pool, writable: flags & (OPEN_RW | OPEN_EX) != 0, flags }
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

/// Makes a container with a random UUID.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_create_with_label(
    poh: Handle,
    label: Text,
    _prop: Out<u8>,
    uuid: Out<CUuid>,
    ev: Ev,
) -> c_int {
    run(ev, || {
        let pool = handle::pool(poh)?;
        if !pool.writable {
            return Err(Der::NO_PERM);
        }
        let made = pool.client.create_container(Some(Label::new(label.str()?)?), Props::new())?;
        uuid.set_if_wanted(made.uuid.into());
        Ok(())
    })
}

/// Opens the container that a label or UUID means.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_open2(
    poh: Handle,
    cont: Text,
    flags: c_uint,
    coh: Out<Handle>,
    _info: Out<CContInfo>,
    ev: Ev,
) -> c_int {
    run(ev, || {
        let pool = handle::pool(poh)?;
        let modes = [OPEN_RO, OPEN_RW, OPEN_EX].iter().filter(|&mode| flags & mode != 0).count();
        if modes != 1 || flags & !OPEN_FLAGS != 0 {
            return Err(Der::INVAL);
        }
        if flags & OPEN_RO == 0 && !pool.writable {
            return Err(Der::NO_PERM);
        }
        let coh = coh.check()?;
        let opened = pool.client.open_container(&name(cont.str()?)?)?;
        coh.set(handle::insert(Entry::Cont(Arc::new(ContHandle::new(opened, pool, flags))))?)
    })
}

/// Gives an open container up; what is under way on it goes on.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn daos_cont_close(coh: Handle, ev: Ev) -> c_int {
    run(ev, || {
        let Entry::Cont(cont) = handle::remove(coh, |entry| matches!(entry, Entry::Cont(_)))? else {
            return Err(Der::NO_HDL);
        };
        cont.pool.conts.fetch_sub(1, Ordering::AcqRel);
        Ok(())
    })
}

/// Destroys the container that a label or UUID means.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_destroy2(poh: Handle, cont: Text, force: c_int, ev: Ev) -> c_int {
    run(ev, || {
        let pool = handle::pool(poh)?;
        if !pool.writable {
            return Err(Der::NO_PERM);
        }
        Ok(pool.client.destroy_container(&name(cont.str()?)?, force != 0)?)
    })
}
