//! User attributes of pools and containers.

use crate::error::{Der, Result};
use crate::event::{Ev, run};
use crate::handle;
use crate::raw::{In, Out, Text};
use crate::types::{Handle, Names};
use core::ffi::c_int;
use dolmen_client::{Container, Error, Pool, limits};
use std::sync::Arc;

/// Values are records of the service.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// Whose attributes.
enum Owner {
    Pool(Arc<crate::place::PoolHandle>),
    Cont(Arc<crate::cont::ContHandle>),
}

impl Owner {
    fn pool(poh: Handle) -> Result<Self> {
        handle::pool(poh).map(Self::Pool)
    }

    fn cont(coh: Handle) -> Result<Self> {
        handle::cont(coh).map(Self::Cont)
    }

    fn check_writable(&self) -> Result<()> {
        let writable = match self {
            Self::Pool(pool) => pool.writable,
            Self::Cont(cont) => cont.writable,
        };
        if writable { Ok(()) } else { Err(Der::NO_PERM) }
    }

    fn by<T>(&self, of_pool: impl FnOnce(&Pool) -> T, of_cont: impl FnOnce(&Container) -> T) -> T {
        match self {
            Self::Pool(pool) => of_pool(&pool.client),
            Self::Cont(cont) => of_cont(&cont.client),
        }
    }

    fn names(&self) -> Result<Vec<String>> {
        Ok(self.by(Pool::attr_names, Container::attr_names)?)
    }

    /// Gives the program all names, and tells the room that they need.
    fn list(&self, buf: Out<u8>, size: Out<usize>) -> Result<()> {
        let room = size.get()?;
        let (mut at, mut is_full) = (0_usize, buf.is_null());
        let names = self.names()?;
        for name in &names {
            let end = at + name.len() + 1;
            is_full |= end > room;
            if !is_full {
                buf.at(at).copy_from(name.as_bytes())?;
                buf.at(end - 1).set(0)?;
            }
            at = end;
        }
        size.set(at)
    }

    fn get(&self, count: c_int, names: Names, bufs: In<Out<u8>>, sizes: Out<usize>) -> Result<()> {
        let names = listed(count, names)?;
        let bufs = if bufs.is_null() { &[] } else { bufs.list(names.len())? };
        for (index, name) in names.iter().enumerate() {
            let name = name.str()?;
            let value = self.by(|pool| pool.attr(name), |cont| cont.attr(name))?;
            let room = sizes.at(index).get()?;
            if let Some(buf) = bufs.get(index).filter(|buf| !buf.is_null()) {
                buf.copy_from(&value[..value.len().min(room)])?;
            }
            sizes.at(index).set(value.len())?;
        }
        Ok(())
    }

    fn set(&self, count: c_int, names: Names, values: In<In<u8>>, sizes: In<usize>) -> Result<()> {
        self.check_writable()?;
        let names = listed(count, names)?;
        let (values, sizes) = (values.list(names.len())?, sizes.list(names.len())?);
        let mut attrs = Vec::with_capacity(names.len());
        for ((name, value), &size) in names.iter().zip(values).zip(sizes) {
            if size > VALUE_BYTES_MAX {
                return Err(Der::INVAL);
            }
            attrs.push((name.str()?.to_owned(), value.list(size)?.to_vec()));
        }
        Ok(self.by(|pool| pool.set_attrs(&attrs), |cont| cont.set_attrs(&attrs))?)
    }

    /// Removes those that there are.
    fn remove(&self, count: c_int, names: Names) -> Result<()> {
        self.check_writable()?;
        let names: Result<Vec<String>> =
            listed(count, names)?.iter().map(|name| Ok(name.str()?.to_owned())).collect();
        let mut names = names?;
        let known = self.names()?;
        names.retain(|name| known.contains(name));
        if names.is_empty() {
            return Ok(());
        }
        match self.by(|pool| pool.remove_attrs(&names), |cont| cont.remove_attrs(&names)) {
            // Somebody else has removed one at the same time.
            Err(Error::NotFound) => Ok(()),
            other => Ok(other?),
        }
    }
}

fn listed<'a>(count: c_int, names: Names) -> Result<&'a [Text]> {
    let count = usize::try_from(count).ok().filter(|count| (1..=limits::IODS_MAX).contains(count));
    names.list(count.ok_or(Der::INVAL)?)
}

/// Names of the attributes of a container, each with its zero.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_list_attr(coh: Handle, buf: Out<u8>, size: Out<usize>, ev: Ev) -> c_int {
    run(ev, || Owner::cont(coh)?.list(buf, size))
}

/// Reads attributes of a container.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_get_attr(
    coh: Handle,
    count: c_int,
    names: Names,
    bufs: In<Out<u8>>,
    sizes: Out<usize>,
    ev: Ev,
) -> c_int {
    run(ev, || Owner::cont(coh)?.get(count, names, bufs, sizes))
}

/// Sets attributes of a container.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_set_attr(
    coh: Handle,
    count: c_int,
    names: Names,
    values: In<In<u8>>,
    sizes: In<usize>,
    ev: Ev,
) -> c_int {
    run(ev, || Owner::cont(coh)?.set(count, names, values, sizes))
}

/// Removes attributes of a container.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_del_attr(coh: Handle, count: c_int, names: Names, ev: Ev) -> c_int {
    run(ev, || Owner::cont(coh)?.remove(count, names))
}

/// Names of the attributes of a pool, each with its zero.
#[unsafe(no_mangle)]
extern "C" fn daos_pool_list_attr(poh: Handle, buf: Out<u8>, size: Out<usize>, ev: Ev) -> c_int {
    run(ev, || Owner::pool(poh)?.list(buf, size))
}

/// Reads attributes of a pool.
#[unsafe(no_mangle)]
extern "C" fn daos_pool_get_attr(
    poh: Handle,
    count: c_int,
    names: Names,
    bufs: In<Out<u8>>,
    sizes: Out<usize>,
    ev: Ev,
) -> c_int {
    run(ev, || Owner::pool(poh)?.get(count, names, bufs, sizes))
}

/// Sets attributes of a pool.
#[unsafe(no_mangle)]
extern "C" fn daos_pool_set_attr(
    poh: Handle,
    count: c_int,
    names: Names,
    values: In<In<u8>>,
    sizes: In<usize>,
    ev: Ev,
) -> c_int {
    run(ev, || Owner::pool(poh)?.set(count, names, values, sizes))
}

/// Removes attributes of a pool.
#[unsafe(no_mangle)]
extern "C" fn daos_pool_del_attr(poh: Handle, count: c_int, names: Names, ev: Ev) -> c_int {
    run(ev, || Owner::pool(poh)?.remove(count, names))
}
