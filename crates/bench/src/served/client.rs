//! A client that does nothing wrong: a connection of its own, and one object.

use super::{CONT, Ground, POOL, Way};
use crate::error::Result;
use dolmen_client::{At, Container, Object, Pool};
use dolmen_codec::pool::ContName;
use dolmen_codec::wire::{PoolAccess, PoolName};
use dolmen_net::client::{CertsFrom, Link, LinkOptions, Remote};
use dolmen_types::{
    Credentials, Durability, Head, IoBuf, Label, ObjectClass, ObjectType, PropId, PropValue, Props,
};
use std::sync::Arc;

/// Keys of its object; the values of others are replaced again and again.
const KEYS: u64 = 1000;

pub(super) struct Client {
    object: Object,
    _cont: Container,
    _pool: Pool,
    buf: IoBuf,
}

/// Who he is over the network, where nobody knows.
pub(super) fn cred() -> Credentials {
    Credentials { uid: dolmen_env::user_id(), ..Credentials::default() }
}

fn label(text: &str) -> Result<Label> {
    Ok(Label::new(text).map_err(dolmen_types::Error::from)?)
}

/// Makes the container of all clients.
pub(super) fn make_container(ground: &Ground) -> Result<()> {
    let durability = (PropId::CO_DURABILITY, PropValue::Number(Durability::Process as u64));
    let props: Props = [durability].into_iter().collect();
    pool(ground, Way::Socket)?.create_container(Some(label(CONT)?), props)?;
    Ok(())
}

fn pool(ground: &Ground, way: Way) -> Result<Pool> {
    let ring_bytes = if way == Way::Rings { LinkOptions::default().ring_bytes } else { 0 };
    let options = LinkOptions { ring_bytes, certs: CertsFrom::Nowhere, ..LinkOptions::default() };
    let link = Link::connect(ground.address(way), &options)?;
    let head = Head { cred: cred(), ..Head::default() };
    let remote = Remote::open(&link, &head, PoolName::Label(label(POOL)?), PoolAccess::ReadWrite)?;
    Ok(Pool::connect(Arc::new(remote), cred())?)
}

impl Client {
    /// A client of this number: each has another object.
    pub(super) fn connect(ground: &Ground, way: Way, number: u64) -> Result<Self> {
        let pool = pool(ground, way)?;
        let cont = pool.open_container(&ContName::Label(label(CONT)?))?;
        let oid = cont.oid(ObjectType::MultiHashed, ObjectClass::SX, 7, number)?;
        let object = cont.object(oid)?;
        Ok(Self { object, _cont: cont, _pool: pool, buf: IoBuf::default() })
    }

    pub(super) fn update(&self, number: u64, value: &[u8]) -> Result<()> {
        self.object.put(At::Latest, &(number % KEYS).to_le_bytes(), b"a", value)?;
        Ok(())
    }

    /// Reads what [`Client::update`] wrote; whether it is as long.
    pub(super) fn fetch(&mut self, number: u64, value: &[u8]) -> Result<bool> {
        let found = self.object.get(At::Latest, &(number % KEYS).to_le_bytes(), b"a", &mut self.buf)?;
        Ok(found == Some(value.len()))
    }
}
