//! User attributes of pools and containers.

use crate::error::{Der, Result};
use crate::event::{Ev, go};
use crate::handle;
use crate::raw::{In, Out, Text};
use crate::types::{Handle, Names};
use core::ffi::c_int;
use dolmen_client::{Error, Way, limits};
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

    async fn names(&self, way: Way) -> Result<Vec<String>> {
        Ok(match self {
            Self::Pool(pool) => pool.client.attr_names_by(way).await?,
            Self::Cont(cont) => cont.client.attr_names_by(way).await?,
        })
    }

    /// Gives the program all names, and tells the room that they need.
    async fn list(&self, way: Way, buf: Out<u8>, size: Out<usize>) -> Result<()> {
        let room = size.get()?;
        let (mut at, mut is_full) = (0_usize, buf.is_null());
        let names = self.names(way).await?;
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

    async fn get(
        &self,
        way: Way,
        count: c_int,
        names: Names,
        bufs: In<Out<u8>>,
        sizes: Out<usize>,
    ) -> Result<()> {
        let names = owned(count, names)?;
        let bufs = if bufs.is_null() { Vec::new() } else { bufs.list(names.len())?.to_vec() };
        let rooms = sizes.list(names.len())?.to_vec();
        for (index, (name, room)) in names.iter().zip(rooms).enumerate() {
            let value = match self {
                Self::Pool(pool) => pool.client.attr_by(way, name).await?,
                Self::Cont(cont) => cont.client.attr_by(way, name).await?,
            };
            if let Some(buf) = bufs.get(index).filter(|buf| !buf.is_null()) {
                buf.copy_from(&value[..value.len().min(room)])?;
            }
            sizes.at(index).set(value.len())?;
        }
        Ok(())
    }

    async fn set(
        &self,
        way: Way,
        count: c_int,
        names: Names,
        values: In<In<u8>>,
        sizes: In<usize>,
    ) -> Result<()> {
        self.check_writable()?;
        let names = listed(count, names)?;
        let (values, sizes) = (values.list(names.len())?, sizes.list(names.len())?);
        let mut attrs = Vec::with_capacity(names.len());
        for ((name, value), &size) in names.iter().zip(values).zip(sizes) {
            // An attribute of nothing would be told from none by its name alone, and DAOS has none either.
            if value.is_null() || !(1..=VALUE_BYTES_MAX).contains(&size) {
                return Err(Der::INVAL);
            }
            attrs.push((name.str()?.to_owned(), value.list(size)?.to_vec()));
        }
        let set = match self {
            Self::Pool(pool) => pool.client.set_attrs_by(way, &attrs).await,
            Self::Cont(cont) => cont.client.set_attrs_by(way, &attrs).await,
        };
        Ok(set?)
    }

    /// Removes those that there are.
    async fn remove(&self, way: Way, count: c_int, names: Names) -> Result<()> {
        self.check_writable()?;
        let mut names = owned(count, names)?;
        let known = self.names(way).await?;
        names.retain(|name| known.contains(name));
        if names.is_empty() {
            return Ok(());
        }
        match self.remove_all(way, &names).await {
            // Somebody else has removed one since, and all are removed or none. One by one such a miss is said of the
            // name that is gone.
            Err(Error::NotFound) => {}
            other => return Ok(other?),
        }
        for name in &names {
            match self.remove_all(way, core::slice::from_ref(name)).await {
                Ok(()) | Err(Error::NotFound) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Ok(())
    }

    async fn remove_all(&self, way: Way, names: &[String]) -> dolmen_client::Result<()> {
        match self {
            Self::Pool(pool) => pool.client.remove_attrs_by(way, names).await,
            Self::Cont(cont) => cont.client.remove_attrs_by(way, names).await,
        }
    }
}

fn owned(count: c_int, names: Names) -> Result<Vec<String>> {
    listed(count, names)?.iter().map(|name| Ok(name.str()?.to_owned())).collect()
}

fn listed<'a>(count: c_int, names: Names) -> Result<&'a [Text]> {
    let count = usize::try_from(count).ok().filter(|count| (1..=limits::IODS_MAX).contains(count));
    names.list(count.ok_or(Der::INVAL)?)
}

/// Names of the attributes of a container, each with its zero.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_list_attr(coh: Handle, buf: Out<u8>, size: Out<usize>, ev: Ev) -> c_int {
    go(ev, move |way| async move { Owner::cont(coh)?.list(way, buf, size).await })
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
    go(ev, move |way| async move { Owner::cont(coh)?.get(way, count, names, bufs, sizes).await })
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
    go(ev, move |way| async move { Owner::cont(coh)?.set(way, count, names, values, sizes).await })
}

/// Removes attributes of a container.
#[unsafe(no_mangle)]
extern "C" fn daos_cont_del_attr(coh: Handle, count: c_int, names: Names, ev: Ev) -> c_int {
    go(ev, move |way| async move { Owner::cont(coh)?.remove(way, count, names).await })
}

/// Names of the attributes of a pool, each with its zero.
#[unsafe(no_mangle)]
extern "C" fn daos_pool_list_attr(poh: Handle, buf: Out<u8>, size: Out<usize>, ev: Ev) -> c_int {
    go(ev, move |way| async move { Owner::pool(poh)?.list(way, buf, size).await })
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
    go(ev, move |way| async move { Owner::pool(poh)?.get(way, count, names, bufs, sizes).await })
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
    go(ev, move |way| async move { Owner::pool(poh)?.set(way, count, names, values, sizes).await })
}

/// Removes attributes of a pool.
#[unsafe(no_mangle)]
extern "C" fn daos_pool_del_attr(poh: Handle, count: c_int, names: Names, ev: Ev) -> c_int {
    go(ev, move |way| async move { Owner::pool(poh)?.remove(way, count, names).await })
}
