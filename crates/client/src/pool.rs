//! A connection to a pool.

use crate::client::{Core, Options, unexpected};
use crate::container::Container;
use dolmen_codec::Transport;
use dolmen_codec::pool::{ContHandle, ContName, OpenFor, PoolInfo, PoolReply, PoolVerb};
use dolmen_codec::verb::Audit;
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
        Ok(Self { core: Core::connect(transport, options)? })
    }

    /// Map, label and space of the pool. The map is taken over for all later requests.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn query(&self) -> Result<PoolInfo> {
        self.core.query()
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
        self.create_container_as(uuid_of_random(self.core.random_u128()), label, props)
    }

    /// Creates a container with a given UUID.
    ///
    /// # Errors
    /// `Exists` if UUID or label is taken; `Invalid::Property`.
    pub fn create_container_as(&self, uuid: Uuid, label: Option<Label>, props: Props) -> Result<ContHandle> {
        let make = || PoolVerb::ContCreate { uuid, label: label.clone(), props: props.clone() };
        match self.core.ask_change(make)? {
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
        let make = || PoolVerb::ContOpen(name.clone(), wanted);
        match self.core.ask_pool(self.core.mutation_id(), make)? {
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
        let uuid = match name {
            ContName::Uuid(uuid) => *uuid,
            ContName::Label(label) => {
                let all = self.containers()?;
                let found = all.iter().find(|cont| cont.label.as_ref() == Some(label));
                found.ok_or(Error::NotFound)?.uuid
            }
        };
        self.done(|| PoolVerb::ContDestroy(ContName::Uuid(uuid), force))
    }

    /// All containers.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn containers(&self) -> Result<Vec<ContHandle>> {
        match self.core.ask_pool(self.core.read_id(), || PoolVerb::ContList)? {
            PoolReply::Conts(handles) => Ok(handles),
            _ => Err(unexpected()),
        }
    }

    /// Owner, group and access control list of the pool, as far as somebody has set them.
    ///
    /// # Errors
    /// `NoPermission`; those of the transport.
    pub fn props(&self) -> Result<Props> {
        match self.core.ask_pool(self.core.read_id(), || PoolVerb::Props)? {
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
        self.done(|| PoolVerb::SetAttrs(None, attrs.to_vec()))
    }

    /// Reads a user attribute of the pool.
    ///
    /// # Errors
    /// `NotFound` if it is not set.
    pub fn attr(&self, name: &str) -> Result<Vec<u8>> {
        attr(&self.core, || PoolVerb::Attr(None, name.to_owned()))
    }

    /// Names of the user attributes of the pool, sorted.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn attr_names(&self) -> Result<Vec<String>> {
        attr_names(&self.core, || PoolVerb::AttrNames(None))
    }

    /// Removes user attributes of the pool.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn remove_attrs(&self, names: &[String]) -> Result<()> {
        self.done(|| PoolVerb::RemoveAttrs(None, names.to_vec()))
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
}

impl core::fmt::Debug for Pool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pool").field("client", &self.core.client()).field("map", &self.core.map()).finish()
    }
}

pub(crate) fn done(core: &Core, make: impl FnMut() -> PoolVerb<'static>) -> Result<()> {
    match core.ask_change(make)? {
        PoolReply::Done => Ok(()),
        _ => Err(unexpected()),
    }
}

pub(crate) fn attr(core: &Core, make: impl FnMut() -> PoolVerb<'static>) -> Result<Vec<u8>> {
    match core.ask_pool(core.read_id(), make)? {
        PoolReply::Attr(value) => Ok(value),
        _ => Err(unexpected()),
    }
}

pub(crate) fn attr_names(core: &Core, make: impl FnMut() -> PoolVerb<'static>) -> Result<Vec<String>> {
    match core.ask_pool(core.read_id(), make)? {
        PoolReply::AttrNames(names) => Ok(names),
        _ => Err(unexpected()),
    }
}
