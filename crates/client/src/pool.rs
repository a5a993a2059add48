//! A connection to a pool.

use crate::client::{Core, Options, unexpected};
use crate::container::Container;
use dolmen_codec::pool::{ContHandle, ContName, OpenFor, PoolInfo, PoolReply, PoolVerb};
use dolmen_codec::verb::Audit;
use dolmen_codec::{Transport, Way, now};
use dolmen_types::{Credentials, Error, Label, Props, Result, Uuid, uuid_of_random};
use std::sync::Arc;

/// A connection to a pool; a cheap handle, `Send` and `Sync`, all clones are one client.
#[derive(Clone)]
pub struct Pool {
    core: Arc<Core>,
}

impl Pool {
    /// Connects with the machine's clock and entropy, without job, tenant or time limit.
    ///
    /// # Errors
    /// Those of the transport, and `Io` if the system has no entropy.
    pub fn connect(transport: Arc<dyn Transport>, cred: Credentials) -> Result<Self> {
        Self::connect_with(transport, Options::new(cred)?)
    }

    /// Connects as somebody in particular.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn connect_with(transport: Arc<dyn Transport>, options: Options) -> Result<Self> {
        now(Self::connect_by(Way::Now, transport, options))
    }

    /// As [`Pool::connect_with`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Pool::connect_with`].
    pub async fn connect_by(way: Way, transport: Arc<dyn Transport>, options: Options) -> Result<Self> {
        Ok(Self { core: Core::connect(way, transport, options).await? })
    }

    /// Map, label and space of the pool. The map is taken over for all later requests.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn query(&self) -> Result<PoolInfo> {
        self.core.query()
    }

    /// As [`Pool::query`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Pool::query`].
    pub async fn query_by(&self, way: Way) -> Result<PoolInfo> {
        self.core.query_by(way).await
    }

    /// Targets in the pool map that this client uses.
    #[must_use]
    pub fn target_count(&self) -> u16 {
        self.core.map().target_count
    }

    /// Creates a container with a random UUID, of version 4; open it by what is returned.
    ///
    /// # Errors
    /// `Exists` if the label is taken; `Invalid::Property`.
    pub fn create_container(&self, label: Option<Label>, props: Props) -> Result<ContHandle> {
        now(self.create_container_by(Way::Now, label, props))
    }

    /// As [`Pool::create_container`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Pool::create_container`].
    pub async fn create_container_by(
        &self,
        way: Way,
        label: Option<Label>,
        props: Props,
    ) -> Result<ContHandle> {
        self.create_container_as_by(way, uuid_of_random(self.core.secret_u128()?), label, props).await
    }

    /// Creates a container with a given UUID.
    ///
    /// # Errors
    /// `Exists` if UUID or label is taken; `Invalid::Property`.
    pub fn create_container_as(&self, uuid: Uuid, label: Option<Label>, props: Props) -> Result<ContHandle> {
        now(self.create_container_as_by(Way::Now, uuid, label, props))
    }

    /// As [`Pool::create_container_as`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Pool::create_container_as`].
    pub async fn create_container_as_by(
        &self,
        way: Way,
        uuid: Uuid,
        label: Option<Label>,
        props: Props,
    ) -> Result<ContHandle> {
        let make = || PoolVerb::ContCreate { uuid, label: label.clone(), props: props.clone() };
        match self.core.change_by(way, make).await? {
            PoolReply::Cont(handle) => Ok(handle),
            _ => Err(unexpected()),
        }
    }

    /// Opens a container for whatever its list allows. The handle is given back by [`Container::close`], or with its last
    /// clone.
    ///
    /// # Errors
    /// `NotFound` if there is none of this name; `NoPermission` if its list allows nothing.
    pub fn open_container(&self, name: &ContName) -> Result<Container> {
        self.open_container_for(name, OpenFor::Any)
    }

    /// Opens a container as [`Pool::open_container`] does, and says what for.
    ///
    /// # Errors
    /// `NotFound`; `NoPermission` if its list allows nothing, or no change where one is meant.
    pub fn open_container_for(&self, name: &ContName, wanted: OpenFor) -> Result<Container> {
        now(self.open_container_for_by(Way::Now, name, wanted))
    }

    /// As [`Pool::open_container_for`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Pool::open_container_for`].
    pub async fn open_container_for_by(
        &self,
        way: Way,
        name: &ContName,
        wanted: OpenFor,
    ) -> Result<Container> {
        let make = || PoolVerb::ContOpen(name.clone(), wanted);
        match self.core.change_by(way, make).await? {
            PoolReply::Cont(handle) => Ok(Container::new(Arc::clone(&self.core), handle)),
            _ => Err(unexpected()),
        }
    }

    /// Destroys a container with everything in it. A label stands for the container that has it now: if an answer is lost and
    /// the question asked again, another that has got the label meanwhile stays.
    ///
    /// # Errors
    /// `NotFound`; `NotEmpty` if it is open somewhere and `force` is not set.
    pub fn destroy_container(&self, name: &ContName, force: bool) -> Result<()> {
        now(self.destroy_container_by(Way::Now, name, force))
    }

    /// As [`Pool::destroy_container`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Pool::destroy_container`].
    pub async fn destroy_container_by(&self, way: Way, name: &ContName, force: bool) -> Result<()> {
        let uuid = match name {
            ContName::Uuid(uuid) => *uuid,
            ContName::Label(label) => {
                let all = self.containers_by(way).await?;
                let found = all.iter().find(|cont| cont.label.as_ref() == Some(label));
                found.ok_or(Error::NotFound)?.uuid
            }
        };
        self.done_by(way, || PoolVerb::ContDestroy(ContName::Uuid(uuid), force)).await
    }

    /// All containers.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn containers(&self) -> Result<Vec<ContHandle>> {
        now(self.containers_by(Way::Now))
    }

    /// As [`Pool::containers`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Pool::containers`].
    pub async fn containers_by(&self, way: Way) -> Result<Vec<ContHandle>> {
        match self.core.ask_pool_by(way, self.core.read_id(), || PoolVerb::ContList).await? {
            PoolReply::Conts(handles) => Ok(handles),
            _ => Err(unexpected()),
        }
    }

    /// Owner, group and access control list of the pool, as far as somebody has set them.
    ///
    /// # Errors
    /// `NoPermission`; those of the transport.
    pub fn props(&self) -> Result<Props> {
        now(self.props_by(Way::Now))
    }

    /// As [`Pool::props`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Pool::props`].
    pub async fn props_by(&self, way: Way) -> Result<Props> {
        match self.core.ask_pool_by(way, self.core.read_id(), || PoolVerb::Props).await? {
            PoolReply::Props(props) => Ok(props),
            _ => Err(unexpected()),
        }
    }

    /// Sets owner, group or access control list of the pool.
    ///
    /// # Errors
    /// `Invalid::Property` for anything else; `NoPermission`.
    pub fn set_props(&self, props: &Props) -> Result<()> {
        self.done(|| PoolVerb::SetProps(props.clone()))
    }

    /// Sets user attributes of the pool.
    ///
    /// # Errors
    /// `Invalid::Name`, `Invalid::Count`.
    pub fn set_attrs(&self, attrs: &[(String, Vec<u8>)]) -> Result<()> {
        now(self.set_attrs_by(Way::Now, attrs))
    }

    /// As [`Pool::set_attrs`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Pool::set_attrs`].
    pub async fn set_attrs_by(&self, way: Way, attrs: &[(String, Vec<u8>)]) -> Result<()> {
        self.done_by(way, || PoolVerb::SetAttrs(None, attrs.to_vec())).await
    }

    /// Reads a user attribute of the pool.
    ///
    /// # Errors
    /// `NotFound` if it is not set.
    pub fn attr(&self, name: &str) -> Result<Vec<u8>> {
        now(self.attr_by(Way::Now, name))
    }

    /// As [`Pool::attr`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Pool::attr`].
    pub async fn attr_by(&self, way: Way, name: &str) -> Result<Vec<u8>> {
        attr_by(&self.core, way, || PoolVerb::Attr(None, name.to_owned())).await
    }

    /// Names of the user attributes of the pool, sorted.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn attr_names(&self) -> Result<Vec<String>> {
        now(self.attr_names_by(Way::Now))
    }

    /// As [`Pool::attr_names`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Pool::attr_names`].
    pub async fn attr_names_by(&self, way: Way) -> Result<Vec<String>> {
        attr_names_by(&self.core, way, || PoolVerb::AttrNames(None)).await
    }

    /// Removes user attributes of the pool.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn remove_attrs(&self, names: &[String]) -> Result<()> {
        now(self.remove_attrs_by(Way::Now, names))
    }

    /// As [`Pool::remove_attrs`], on a way of the caller's.
    ///
    /// # Errors
    /// As [`Pool::remove_attrs`].
    pub async fn remove_attrs_by(&self, way: Way, names: &[String]) -> Result<()> {
        self.done_by(way, || PoolVerb::RemoveAttrs(None, names.to_vec())).await
    }

    /// Makes everything acknowledged durable and checkpoints every target.
    ///
    /// # Errors
    /// `Io`, `ReadOnly`.
    pub fn checkpoint(&self) -> Result<()> {
        self.done(|| PoolVerb::Checkpoint)
    }

    /// Reads and verifies every stored byte, by target.
    ///
    /// # Errors
    /// Those of the transport; damage is in the result, not an error.
    pub fn scrub(&self) -> Result<Vec<Audit>> {
        self.audits(|| PoolVerb::Scrub)
    }

    /// Audits every invariant of every target, read-only.
    ///
    /// # Errors
    /// Those of the transport; findings are in the result, not an error.
    pub fn check(&self) -> Result<Vec<Audit>> {
        self.audits(|| PoolVerb::Check)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    fn audits(&self, make: impl FnMut() -> PoolVerb<'static>) -> Result<Vec<Audit>> {
        match self.core.ask_pool(self.core.read_id(), make)? {
            PoolReply::Audits(audits) => Ok(audits),
            _ => Err(unexpected()),
        }
    }

    fn done(&self, make: impl FnMut() -> PoolVerb<'static>) -> Result<()> {
        done(&self.core, make)
    }

    async fn done_by(&self, way: Way, make: impl FnMut() -> PoolVerb<'static>) -> Result<()> {
        done_by(&self.core, way, make).await
    }
}

impl core::fmt::Debug for Pool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pool").field("client", &self.core.client()).field("map", &self.core.map()).finish()
    }
}

pub(crate) fn done(core: &Core, make: impl FnMut() -> PoolVerb<'static>) -> Result<()> {
    now(done_by(core, Way::Now, make))
}

pub(crate) async fn done_by(core: &Core, way: Way, make: impl FnMut() -> PoolVerb<'static>) -> Result<()> {
    match core.change_by(way, make).await? {
        PoolReply::Done => Ok(()),
        _ => Err(unexpected()),
    }
}

pub(crate) async fn attr_by(
    core: &Core,
    way: Way,
    make: impl FnMut() -> PoolVerb<'static>,
) -> Result<Vec<u8>> {
    match core.ask_pool_by(way, core.read_id(), make).await? {
        PoolReply::Attr(value) => Ok(value),
        _ => Err(unexpected()),
    }
}

pub(crate) async fn attr_names_by(
    core: &Core,
    way: Way,
    make: impl FnMut() -> PoolVerb<'static>,
) -> Result<Vec<String>> {
    match core.ask_pool_by(way, core.read_id(), make).await? {
        PoolReply::AttrNames(names) => Ok(names),
        _ => Err(unexpected()),
    }
}
