//! Names of ntuples, and one of them by its name.

use super::append::Appender;
use super::base::Base;
use super::columns::ColumnAdder;
use super::commit::{Version, put, put_current, settle, value};
use super::import;
use super::numbers::Numbers;
use super::place;
use super::record::{Anchor, Config, Entry, Made, Tag};
use super::source::StoreSource;
use crate::error::{Error, Result};
use crate::format::Header;
use crate::format::schema::Schema;
use crate::ntuple::Ntuple;
use dolmen_client::{At, Cond, Container, Object, ObjectClass, ObjectType, Page, Tx};
use dolmen_env::{Clock, RealClock};
use dolmen_types::Anchor as ListAnchor;
use std::sync::Arc;

/// Bytes of a column group unless it is said: one request reads so much in the time that it takes anyway.
const GROUP_BYTES_DEFAULT: u32 = 1 << 20;

/// Bytes that a column group may be said to have.
pub(super) const GROUP_BYTES_MAX: u32 = 64 << 20;

/// For how long a version that was replaced is kept unless it is said: a day.
const KEEP_NS_DEFAULT: u64 = 86_400_000_000_000;

/// For how long a writer that is silent is taken to be there unless it is said: ten minutes.
const LEASE_NS_DEFAULT: u64 = 600_000_000_000;

/// How a container is used as a store of ntuples.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// For how long what a silent writer has written is not freed.
    pub lease_ns: u64,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { clock: Arc::new(RealClock), lease_ns: LEASE_NS_DEFAULT }
    }
}

/// How an ntuple is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateOptions {
    /// Bytes of a column group, about.
    pub group_bytes: u32,
    /// Class of the objects of clusters.
    pub class: ObjectClass,
    /// For how long versions that were replaced are kept.
    pub keep_ns: u64,
    /// Columns in the order in which they are packed: those that are read together next to each other. Those that it does not name come
    /// behind them, as the schema has them.
    pub order: Vec<u32>,
    /// Whether pages that come without zones are decompressed to find these.
    pub measures: bool,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            group_bytes: GROUP_BYTES_DEFAULT,
            class: ObjectClass::SX,
            keep_ns: KEEP_NS_DEFAULT,
            order: Vec::new(),
            measures: true,
        }
    }
}

/// An ntuple in a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its name.
    pub name: Box<str>,
    /// When it was made, in nanoseconds since 1970.
    pub created_ns: u64,
    /// Its number in the container.
    pub number: u64,
}

/// Which version of an ntuple.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When<'a> {
    /// The current one.
    Now,
    /// That with this number.
    Version(u64),
    /// That which a tag keeps.
    Tag(&'a str),
    /// The last that was made at this time or before, in nanoseconds since 1970.
    Time(u64),
}

/// The ntuples of a container; a cheap handle, `Send` and `Sync`.
#[derive(Clone, Debug)]
pub struct Store {
    cont: Container,
    options: StoreOptions,
}

impl Store {
    /// The ntuples of a container. Nothing is asked and nothing made: any container can have some, also beside other things.
    #[must_use]
    pub fn new(cont: &Container, options: &StoreOptions) -> Self {
        Self { cont: cont.clone(), options: options.clone() }
    }

    /// The container.
    #[must_use]
    pub fn container(&self) -> &Container {
        &self.cont
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.options.clock.now_ns()
    }

    /// Numbers for what is made.
    pub(super) fn numbers(&self) -> Result<Numbers> {
        Numbers::new(&self.cont, &self.options.clock, self.options.lease_ns)
    }

    /// All ntuples, by their names.
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Corrupt`].
    pub fn list(&self) -> Result<Vec<Listed>> {
        self.listed(At::Latest)
    }

    pub(super) fn listed(&self, at: At<'_>) -> Result<Vec<Listed>> {
        let catalogue = place::catalogue(&self.cont)?;
        let mut listed = Vec::new();
        for name in dkeys(&catalogue, at)? {
            let Some(entry) = value(&catalogue, at, &name, place::ID)? else { continue };
            let Entry { number, created_ns } = Entry::read(&entry)?;
            listed.push(Listed { name: String::from_utf8_lossy(&name).into(), created_ns, number });
        }
        listed.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(listed)
    }

    /// The ntuple of that name.
    ///
    /// # Errors
    /// [`Error::NoNtuple`].
    pub fn ntuple(&self, name: &str) -> Result<Stored> {
        let catalogue = place::catalogue(&self.cont)?;
        let Some(entry) = value(&catalogue, At::Latest, name.as_bytes(), place::ID)? else {
            let others = self.list()?.into_iter().map(|listed| listed.name).collect();
            return Err(Error::NoNtuple { name: name.into(), others });
        };
        self.numbered(name, Entry::read(&entry)?.number)
    }

    pub(super) fn numbered(&self, name: &str, number: u64) -> Result<Stored> {
        let own = place::ntuple(&self.cont, number)?;
        Ok(Stored { store: self.clone(), name: name.into(), number, own })
    }

    /// Opens an ntuple for reading.
    ///
    /// # Errors
    /// [`Error::NoNtuple`], [`Error::NoVersion`]; those of reading.
    pub fn open(&self, name: &str, when: When<'_>) -> Result<Ntuple<StoreSource>> {
        self.ntuple(name)?.open(when)
    }

    /// Makes an ntuple without entries; its name is that in `header`.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Unsupported`] of a field of an unknown role; [`Error::Store`].
    pub fn create(&self, header: &Header, options: &CreateOptions) -> Result<Stored> {
        self.check_name(&header.name)?;
        import::check(&header.schema)?;
        let mut numbers = self.numbers()?;
        let stored = self.numbered(&header.name, numbers.next()?)?;
        let (base, envelope) = Base::before_first(header, header.schema.known(), self.class(options)?);
        let mut first = base.append(&[], Made::Created, self.now_ns())?;
        first.put_header(&envelope)?;
        put(&stored.own, At::Latest, &first.base.anchor, &first.values)?;
        self.publish(&stored, &first.base.anchor, options, &numbers)?;
        Ok(stored)
    }

    /// Looks whether a name is taken, before anything is written for it; that it is not is certain with the transaction alone.
    pub(super) fn check_name(&self, name: &str) -> Result<()> {
        let catalogue = place::catalogue(&self.cont)?;
        match value(&catalogue, At::Latest, name.as_bytes(), place::ID)? {
            Some(_) => Err(Error::Exists { name: name.into() }),
            None => Ok(()),
        }
    }

    /// Gives an ntuple whose first version is written its name.
    pub(super) fn publish(
        &self,
        stored: &Stored,
        anchor: &Anchor,
        options: &CreateOptions,
        numbers: &Numbers,
    ) -> Result<()> {
        self.publish_if(stored, anchor, options, numbers, |_| Ok(()))
    }

    /// The same, if something else holds in the transaction.
    pub(super) fn publish_if(
        &self,
        stored: &Stored,
        anchor: &Anchor,
        options: &CreateOptions,
        numbers: &Numbers,
        holds: impl Fn(&Tx) -> Result<()>,
    ) -> Result<()> {
        let catalogue = place::catalogue(&self.cont)?;
        let entry = Entry { number: stored.number, created_ns: anchor.time_ns }.write();
        let config = Config {
            keep_ns: options.keep_ns,
            group_bytes: options.group_bytes.clamp(1, GROUP_BYTES_MAX),
            class: anchor.class,
            order: options.order.clone(),
        };
        // All but the name, and in this order: after a power cut there is no name of what is not there, whatever is left of a transaction.
        stored.own.put(At::Latest, place::CONFIG, place::RECORD, &config.write())?;
        put_current(&stored.own, At::Latest, anchor)?;
        settle(&self.cont)?;
        self.cont.transact(|tx| {
            if value(&catalogue, At::Tx(tx), stored.name.as_bytes(), place::ID)?.is_some() {
                return Err(Error::Exists { name: stored.name.clone() });
            }
            holds(tx)?;
            numbers.end_in(tx)?;
            catalogue.put(At::Tx(tx), stored.name.as_bytes(), place::ID, &entry)?;
            Ok(())
        })
    }

    /// The class of objects of clusters, as many groups as fit now.
    pub(super) fn class(&self, options: &CreateOptions) -> Result<ObjectClass> {
        Ok(self.cont.oid(ObjectType::DkeyUint64, options.class, 0, 0)?.class())
    }
}

/// An ntuple of a container; a cheap handle, `Send` and `Sync`.
#[derive(Clone, Debug)]
pub struct Stored {
    store: Store,
    name: Box<str>,
    number: u64,
    own: Object,
}

impl Stored {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The container.
    #[must_use]
    pub fn container(&self) -> &Container {
        &self.store.cont
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn own(&self) -> &Object {
        &self.own
    }

    /// The anchor of the current version.
    pub(super) fn current(&self, at: At<'_>) -> Result<Anchor> {
        let found = value(&self.own, at, place::CURRENT, place::ANCHOR)?;
        Anchor::read(&found.ok_or_else(|| self.gone())?)
    }

    pub(super) fn config(&self, at: At<'_>) -> Result<Config> {
        let found = value(&self.own, at, place::CONFIG, place::RECORD)?;
        Config::read(&found.ok_or_else(|| self.gone())?)
    }

    /// Whether it has its name still.
    pub(super) fn check_named(&self, at: At<'_>) -> Result<()> {
        let catalogue = place::catalogue(self.container())?;
        let entry = value(&catalogue, at, self.name.as_bytes(), place::ID)?.ok_or_else(|| self.gone())?;
        if Entry::read(&entry)?.number == self.number { Ok(()) } else { Err(self.gone()) }
    }

    /// The error that it was destroyed.
    fn gone(&self) -> Error {
        Error::NoNtuple { name: self.name.clone(), others: Vec::new() }
    }

    /// Where the bytes of a version come from.
    pub(super) fn source(&self, anchor: &Anchor) -> Result<StoreSource> {
        Ok(StoreSource::new(&self.store.cont, self.own.clone(), ObjectClass(anchor.class)))
    }

    /// The anchor of a version.
    pub(super) fn anchor(&self, at: At<'_>, version: u64) -> Result<Anchor> {
        let found = value(&self.own, at, &place::version(version), place::ANCHOR)?;
        let none = || Error::NoVersion { name: version.to_string().into() };
        Anchor::read(&found.ok_or_else(none)?)
    }

    /// The current version, or another.
    ///
    /// # Errors
    /// [`Error::NoVersion`], [`Error::NoNtuple`] if it was destroyed.
    pub fn version(&self, when: When<'_>) -> Result<Version> {
        Ok(Version::of(&self.anchor_of(At::Latest, when)?))
    }

    pub(super) fn anchor_of(&self, at: At<'_>, when: When<'_>) -> Result<Anchor> {
        match when {
            When::Now => self.current(at),
            When::Version(number) => self.anchor(at, number),
            When::Tag(name) => {
                let found = value(&self.own, at, &place::tag(name), place::RECORD)?;
                let none = || Error::NoVersion { name: name.into() };
                self.anchor(at, Tag::read(&found.ok_or_else(none)?)?.version)
            }
            When::Time(time_ns) => {
                let anchors = self.anchors(at)?.into_iter();
                let last = anchors.rev().find(|anchor| anchor.time_ns <= time_ns);
                last.ok_or_else(|| Error::NoVersion { name: time_ns.to_string().into() })
            }
        }
    }

    /// Anchors of all versions that are there, the oldest first.
    pub(super) fn anchors(&self, at: At<'_>) -> Result<Vec<Anchor>> {
        let mut anchors = Vec::new();
        for dkey in dkeys(&self.own, at)? {
            if place::version_of(&dkey).is_some()
                && let Some(found) = value(&self.own, at, &dkey, place::ANCHOR)?
            {
                anchors.push(Anchor::read(&found)?);
            }
        }
        anchors.sort_unstable_by_key(|anchor| anchor.version);
        Ok(anchors)
    }

    /// Opens a version for reading.
    ///
    /// # Errors
    /// As [`version`](Self::version); those of reading.
    pub fn open(&self, when: When<'_>) -> Result<Ntuple<StoreSource>> {
        let anchor = self.anchor_of(At::Latest, when)?;
        Ntuple::open_families(self.source(&anchor)?, &anchor.header, &anchor.footers)
    }

    /// Begins to append.
    ///
    /// # Errors
    /// [`Error::NoNtuple`] if it was destroyed; those of reading its metadata.
    pub fn append(&self) -> Result<Appender> {
        Appender::begin(self.clone())
    }

    /// Begins to add columns with values for the entries that there are: those that `schema` has behind what the ntuple's has.
    ///
    /// # Errors
    /// [`Error::OtherSchema`] unless it begins with the ntuple's schema, and goes on with fields of their own; [`Error::Exists`] for a name at
    /// the top that is taken; those of reading the metadata.
    pub fn add_columns(&self, schema: &Schema) -> Result<ColumnAdder> {
        ColumnAdder::begin(self.clone(), schema)
    }
}

/// All dkeys of an object.
pub(super) fn dkeys(object: &Object, at: At<'_>) -> Result<Vec<Vec<u8>>> {
    let (mut found, mut anchor) = (Vec::new(), ListAnchor::default());
    while !anchor.is_eof() {
        found.extend(object.list_dkeys(at, &mut anchor, Page::default())?.iter().map(<[u8]>::to_vec));
    }
    Ok(found)
}

/// Removes a dkey in a transaction.
pub(super) fn punch(object: &Object, tx: &Tx, dkey: &[u8]) -> Result<()> {
    object.punch_dkey(At::Tx(tx), dkey, Cond::NONE)?;
    Ok(())
}
