//! Names of ntuples, and one of them by its name.

use super::append::{Appender, Writing};
use super::base::{Base, Next, Placed};
use super::columns::ColumnAdder;
use super::commit::{Version, put, put_current};
use super::home::{At, Home};
use super::import;
use super::numbers::Numbers;
use super::pipeline::Pipeline;
use super::place::{self, Records};
use super::record::{self, Anchor, Config, Entry, Made, Tag};
use super::source::StoreSource;
use crate::bucket::Bucket;
use crate::error::{AskedBy, BadName, Error, Fault, Named, Result};
use crate::estimate::{Medium, blob_bytes};
use crate::format::Header;
use crate::format::schema::{Known, Schema};
use crate::ntuple::Ntuple;
use crate::write::{self, CLUSTER_BYTES, Given, Options, Room};
use dolmen_client::{Container, ObjectClass};
use dolmen_env::{Clock, RealClock};
use std::sync::Arc;

/// Bytes of a column group unless it is said: one request reads so much in the time that it takes anyway.
const GROUP_BYTES_DEFAULT: u32 = 1 << 20;

/// Bytes that a column group may be said to have.
pub(super) const GROUP_BYTES_MAX: u32 = 64 << 20;

/// For how long a version that was replaced is kept unless it is said: a day.
const KEEP_NS_DEFAULT: u64 = 86_400_000_000_000;

/// For how long a writer that is silent is taken to be there unless it is said: ten minutes.
const LEASE_NS_DEFAULT: u64 = 600_000_000_000;

/// The longest that a writer may be silent: whatever else a record says was not written by one that can be.
pub(super) const LEASE_NS_MAX: u64 = 86_400_000_000_000;

/// How a container is used as a store of ntuples.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Where the time comes from that is noted of versions in a container, and how long something takes. Whether a writer was silent for too
    /// long says the clock of the store alone.
    pub clock: Arc<dyn Clock>,
    /// For how long what a silent writer has written is not freed; a day at most.
    pub lease_ns: u64,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { clock: Arc::new(RealClock), lease_ns: LEASE_NS_DEFAULT }
    }
}

impl StoreOptions {
    fn limited(&self) -> Self {
        Self { clock: Arc::clone(&self.clock), lease_ns: self.lease_ns.min(LEASE_NS_MAX) }
    }
}

/// How an ntuple is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateOptions {
    /// Bytes of a column group, about; what suits where the store is if none are said: 1 MiB in a container, in an object store what is estimated for
    /// one ([`blob_bytes`](crate::estimate::blob_bytes)).
    pub group_bytes: Option<u32>,
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
            group_bytes: None,
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

/// The ntuples of a container, or of an object store; a cheap handle, `Send` and `Sync`.
#[derive(Clone, Debug)]
pub struct Store {
    home: Home,
    options: StoreOptions,
}

impl Store {
    /// The ntuples of a container. Nothing is asked and nothing made: any container can have some, also beside other things.
    #[must_use]
    pub fn new(cont: &Container, options: &StoreOptions) -> Self {
        Self { home: Home::Container(cont.clone()), options: options.limited() }
    }

    /// The ntuples in an object store of the S3 kind. Nothing is asked and nothing made.
    #[must_use]
    pub fn in_bucket(bucket: Arc<dyn Bucket>, options: &StoreOptions) -> Self {
        let options = options.limited();
        let home = Home::bucket(bucket, Arc::clone(&options.clock), options.lease_ns);
        Self { home, options }
    }

    /// The container; none if it is in an object store.
    #[must_use]
    pub fn container(&self) -> Option<&Container> {
        match &self.home {
            Home::Container(cont) => Some(cont),
            Home::Bucket(_) => None,
        }
    }

    pub(super) fn home(&self) -> &Home {
        &self.home
    }

    /// The time that is noted of versions: in an object store by its own clock, once that has answered.
    pub(super) fn now_ns(&self) -> u64 {
        let of_store = match &self.home {
            Home::Container(_) => None,
            Home::Bucket(home) => home.bucket().now_ns(),
        };
        of_store.unwrap_or_else(|| self.options.clock.now_ns())
    }

    /// Numbers for what is made.
    pub(super) fn numbers(&self) -> Numbers {
        Numbers::new(&self.home, &self.options.clock, self.options.lease_ns)
    }

    /// All ntuples, by their names.
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Corrupt`].
    pub fn list(&self) -> Result<Vec<Listed>> {
        self.listed(At::Latest)
    }

    pub(super) fn listed(&self, at: At<'_>) -> Result<Vec<Listed>> {
        let mut listed = Vec::new();
        for (name, entry) in self.entries(at)? {
            let Entry { number, created_ns } = entry?;
            listed.push(Listed { name, created_ns, number });
        }
        listed.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(listed)
    }

    /// All names, with what the catalogue has under them.
    pub(super) fn entries(&self, at: At<'_>) -> Result<Vec<(Box<str>, Result<Entry>)>> {
        let mut entries = Vec::new();
        for name in self.home.dkeys(at, Records::Catalogue)? {
            let Some(entry) = self.home.get(at, Records::Catalogue, &name, place::ID)? else { continue };
            entries.push((String::from_utf8_lossy(&name).into(), Entry::read(&entry)));
        }
        Ok(entries)
    }

    /// The ntuple of that name.
    ///
    /// # Errors
    /// [`Error::NoNtuple`].
    pub fn ntuple(&self, name: &str) -> Result<Stored> {
        let Some(entry) = self.entry(At::Latest, name)? else {
            return Err(self.no_ntuple(name));
        };
        Ok(self.numbered(name, entry.number))
    }

    /// The error that there is none of that name.
    pub(super) fn no_ntuple(&self, name: &str) -> Error {
        match self.entries(At::Latest) {
            Ok(entries) => {
                let others = entries.into_iter().map(|(name, _)| name).collect();
                Error::NoNtuple { name: name.into(), others }
            }
            Err(error) => error,
        }
    }

    /// What the catalogue has under a name.
    pub(super) fn entry(&self, at: At<'_>, name: &str) -> Result<Option<Entry>> {
        let found = self.home.get(at, Records::Catalogue, name.as_bytes(), place::ID)?;
        found.map(|entry| Entry::read(&entry)).transpose()
    }

    pub(super) fn numbered(&self, name: &str, number: u64) -> Stored {
        Stored { store: self.clone(), name: name.into(), number }
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
        self.create_of(header, &[], options, &Options::default())
    }

    /// Makes an ntuple with the entries of these arrays, of fields at the top of the schema in `header`, written as `how` says: it is there with
    /// all of them, or not.
    ///
    /// # Errors
    /// As [`create`](Self::create), and of [`cut`](write::cut) and [`seal_in`](write::seal_in); [`Error::OtherSchema`] if there is no array of a field.
    pub fn create_of(
        &self,
        header: &Header,
        fields: &[(&str, Given<'_>)],
        options: &CreateOptions,
        how: &Options,
    ) -> Result<Stored> {
        self.check_name(&header.name)?;
        write::check_names(header)?;
        import::check(&header.schema)?;
        let of = (header, header.schema.known());
        let (stored, _) = self.make(of, Made::Created, (options, how.cluster_bytes), |writing, class| {
            let (mut clusters, mut room) = (Vec::new(), Room::default());
            for entries in write::cut(fields, how)? {
                let sealed = write::seal_in(&header.schema, fields, entries, how, &mut room)?;
                let columns = (sealed.entry_count, &sealed.columns[..]);
                clusters.push(writing.put(class, &header.schema, 0, columns)?);
            }
            Ok(clusters)
        })?;
        Ok(stored)
    }

    /// Makes an ntuple with the clusters that `put` writes, of about so many bytes: it is there with all of them, or not.
    pub(super) fn make(
        &self,
        (header, known): (&Header, Known),
        made: Made,
        (options, cluster_bytes): (&CreateOptions, u64),
        put: impl FnOnce(&mut Writing, ObjectClass) -> Result<Vec<Placed>>,
    ) -> Result<(Stored, Version)> {
        let group_bytes = self.group_bytes(options, cluster_bytes);
        let options = &CreateOptions { group_bytes: Some(group_bytes), ..options.clone() };
        let config = Config { keep_ns: 0, group_bytes, class: 0, order: options.order.clone() };
        let class = self.class(options)?;
        let (base, envelope) = Base::before_first(header, known, class);
        let (numbers, measures) = (self.numbers(), options.measures);
        let writing = Writing { numbers, pipeline: Pipeline::new(&self.home), config, measures };
        writing.wholly(|writing| {
            let stored = self.numbered(&header.name, writing.numbers.next()?);
            let clusters = put(writing, class)?;
            writing.pipeline.finish()?;
            let mut first = base.append(&clusters, made, self.now_ns())?;
            first.put_header(&envelope)?;
            self.publish(&stored, &first, options, &writing.numbers)?;
            Ok((stored, Version::of(&first.base.anchor)))
        })
    }

    /// Looks whether a name is taken, before anything is written for it; that it is not is certain with the transaction alone.
    pub(super) fn check_name(&self, name: &str) -> Result<()> {
        if name.is_empty() {
            let (of, why) = (Named::Ntuple, BadName::Empty);
            return Err(Error::BadName { of, name: name.into(), why });
        }
        match self.entry(At::Latest, name)? {
            Some(_) => Err(Error::Exists { name: name.into() }),
            None => Ok(()),
        }
    }

    /// Writes the first version of an ntuple, and gives it its name.
    pub(super) fn publish(
        &self,
        stored: &Stored,
        first: &Next,
        options: &CreateOptions,
        numbers: &Numbers,
    ) -> Result<()> {
        self.publish_if(stored, first, options, numbers, |_| Ok(()))
    }

    /// The same, if something else holds in the transaction.
    pub(super) fn publish_if(
        &self,
        stored: &Stored,
        first: &Next,
        options: &CreateOptions,
        numbers: &Numbers,
        holds: impl Fn(At<'_>) -> Result<()>,
    ) -> Result<()> {
        let Next { base: Base { anchor, .. }, values } = first;
        let entry = Entry { number: stored.number, created_ns: anchor.time_ns }.write();
        let config = Config {
            keep_ns: options.keep_ns,
            group_bytes: self.group_bytes(options, CLUSTER_BYTES),
            class: anchor.class,
            order: options.order.clone(),
        };
        // All but the name, and in this order: after a power cut there is no name of what is not there, whatever is left of a transaction.
        let own = stored.own();
        self.home.unseen(|at| {
            put(&self.home, own, at, anchor, values)?;
            self.home.put(at, own, place::CONFIG, &[(place::RECORD, &config.write())])?;
            put_current(&self.home, own, at, anchor)
        })?;
        self.home.settle()?;
        self.home.transact(|at| {
            if self.entry(at, &stored.name)?.is_some() {
                return Err(Error::Exists { name: stored.name.clone() });
            }
            holds(at)?;
            numbers.end_in(at)?;
            self.check_put(at, stored, anchor)?;
            self.home.put(at, Records::Catalogue, stored.name.as_bytes(), &[(place::ID, &entry)])
        })
    }

    /// Whether what was written before the transaction is there: a container may have gone back to a snapshot since.
    fn check_put(&self, at: At<'_>, stored: &Stored, anchor: &Anchor) -> Result<()> {
        if !self.home.goes_back() {
            return Ok(());
        }
        let version = place::version(anchor.version);
        for (dkey, akey) in
            [(&*version, place::ANCHOR), (place::CONFIG, place::RECORD), (place::CURRENT, place::ANCHOR)]
        {
            if self.home.get(at, stored.own(), dkey, akey)?.is_none() {
                return Err(Error::WentBack);
            }
        }
        Ok(())
    }

    /// Bytes of a group, of clusters with so many.
    pub(super) fn group_bytes(&self, options: &CreateOptions, cluster_bytes: u64) -> u32 {
        let suits = || match &self.home {
            Home::Container(_) => GROUP_BYTES_DEFAULT,
            Home::Bucket(_) => {
                u32::try_from(blob_bytes(&Medium::S3, cluster_bytes)).unwrap_or(GROUP_BYTES_MAX)
            }
        };
        options.group_bytes.unwrap_or_else(suits).clamp(1, GROUP_BYTES_MAX)
    }

    /// The class of objects of clusters, as many groups as fit now.
    pub(super) fn class(&self, options: &CreateOptions) -> Result<ObjectClass> {
        self.home.class(options.class)
    }
}

/// Whether something failed since what it referred to is not there any more.
fn is_gone(error: &Error) -> bool {
    matches!(
        error,
        Error::Freed { .. } | Error::Corrupt { fault: Fault::Short { .. } | Fault::Reference, .. }
    )
}

/// Seconds since 1970.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// Numbers that follow each other, in words.
fn ranges(numbers: impl Iterator<Item = u64>) -> Vec<Box<str>> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let word = |&(first, last): &(u64, u64)| match first == last {
        true => first.to_string().into(),
        false => format!("{first} to {last}").into(),
    };
    ranges.iter().map(word).collect()
}

/// An ntuple of a store; a cheap handle, `Send` and `Sync`.
#[derive(Clone, Debug)]
pub struct Stored {
    store: Store,
    name: Box<str>,
    number: u64,
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

    pub(super) fn home(&self) -> &Home {
        &self.store.home
    }

    /// The store that it is in.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Its own records.
    pub(super) fn own(&self) -> Records {
        Records::Ntuple(self.number)
    }

    fn value(&self, at: At<'_>, dkey: &[u8], akey: &[u8]) -> Result<Option<Vec<u8>>> {
        self.home().get(at, self.own(), dkey, akey)
    }

    /// Does something with the current version; again with the one that is current then, if that was replaced and freed meanwhile.
    pub(super) fn with_current<T>(&self, mut act: impl FnMut() -> Result<T>) -> Result<T> {
        let mut before = None;
        loop {
            match act() {
                Err(error) if is_gone(&error) => {
                    let now = Some(self.current(At::Latest)?.version);
                    if now == before {
                        return Err(error);
                    }
                    before = now;
                }
                done => return done,
            }
        }
    }

    /// The current version, to go on from.
    pub(super) fn base(&self) -> Result<Base> {
        self.with_current(|| {
            let current = self.current(At::Latest)?;
            Base::load(&self.source(&current), current)
        })
    }

    /// The anchor of the current version.
    pub(super) fn current(&self, at: At<'_>) -> Result<Anchor> {
        let found = self.value(at, place::CURRENT, place::ANCHOR)?;
        Anchor::read(&found.ok_or_else(|| self.gone())?)
    }

    pub(super) fn config(&self, at: At<'_>) -> Result<Config> {
        let found = self.value(at, place::CONFIG, place::RECORD)?;
        Config::read(&found.ok_or_else(|| self.gone())?)
    }

    /// Whether it has its name still.
    pub(super) fn check_named(&self, at: At<'_>) -> Result<()> {
        let entry = self.store.entry(at, &self.name)?.ok_or_else(|| self.gone())?;
        if entry.number == self.number { Ok(()) } else { Err(self.gone()) }
    }

    /// The error that it was destroyed.
    fn gone(&self) -> Error {
        Error::NoNtuple { name: self.name.clone(), others: vec![self.name.clone()] }
    }

    /// Where the bytes of a version come from.
    pub(super) fn source(&self, anchor: &Anchor) -> StoreSource {
        StoreSource::new(self.home(), self.own(), anchor)
    }

    /// The anchor of a version.
    pub(super) fn anchor(&self, at: At<'_>, version: u64) -> Result<Anchor> {
        let found = self.value(at, &place::version(version), place::ANCHOR)?;
        match found {
            Some(found) => Anchor::read(&found),
            None => Err(self.no_version(at, AskedBy::Number, &version)?),
        }
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
                let found = self.value(at, &place::tag(name), place::RECORD)?;
                let Some(found) = found else { return Err(self.no_version(at, AskedBy::Tag, &name)?) };
                self.anchor(at, Tag::read(&found)?.version)
            }
            When::Time(time_ns) => {
                let mut anchors = self.anchors(at)?;
                let behind = anchors.partition_point(|anchor| anchor.time_ns <= time_ns);
                let Some(last) = behind.checked_sub(1) else {
                    return Err(self.no_version(at, AskedBy::Time, &seconds(time_ns))?);
                };
                let is_next = |next: &Anchor| next.version == anchors[last].version + 1;
                if anchors.get(behind).is_none_or(is_next)
                    || time_ns < self.replaced_ns(at, anchors[last].version)?
                {
                    return Ok(anchors.swap_remove(last));
                }
                Err(self.no_version(at, AskedBy::FreedTime, &seconds(time_ns))?)
            }
        }
    }

    /// When a version was replaced by one that was freed since.
    fn replaced_ns(&self, at: At<'_>, version: u64) -> Result<u64> {
        let found = self.value(at, &place::version(version), place::REPLACED)?;
        found.map_or(Ok(0), |found| record::read_replaced(&found))
    }

    /// The error that there is no such version, which tells what there is.
    pub(super) fn no_version(
        &self,
        at: At<'_>,
        by: AskedBy,
        asked: &dyn core::fmt::Display,
    ) -> Result<Error> {
        let others = match by {
            AskedBy::Number | AskedBy::FreedTime => {
                ranges(self.anchors(at)?.iter().map(|anchor| anchor.version))
            }
            AskedBy::Time => {
                self.anchors(at)?.first().map(|anchor| seconds(anchor.time_ns).into()).into_iter().collect()
            }
            AskedBy::Tag => {
                let dkeys = self.home().dkeys(at, self.own())?;
                dkeys.iter().filter_map(|dkey| place::tag_of(dkey)).map(Into::into).collect()
            }
        };
        let name = asked.to_string().into();
        Ok(Error::NoVersion { name, by, others })
    }

    /// Anchors of all versions that are there, the oldest first.
    pub(super) fn anchors(&self, at: At<'_>) -> Result<Vec<Anchor>> {
        let mut anchors = Vec::new();
        for dkey in self.home().dkeys(at, self.own())? {
            if place::version_of(&dkey).is_some()
                && let Some(found) = self.value(at, &dkey, place::ANCHOR)?
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
        self.with_current(|| {
            let anchor = self.anchor_of(At::Latest, when)?;
            Ntuple::open_families(self.source(&anchor), &anchor.header, &anchor.footers)
        })
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
