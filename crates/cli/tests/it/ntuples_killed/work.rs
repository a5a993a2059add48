//! What those do who are killed: they append, add columns, reshape, free and read, and say so, for ever.

use super::events::{self, borrowed, options, owner};
use core::time::Duration;
use dolmen_client::{ContName, Container, Credentials, Pool, Transport};
use dolmen_codec::wire::PoolAccess;
use dolmen_env::{Address, Clock, RealClock, Rng};
use dolmen_local::OpenOptions;
use dolmen_net::client::{Link, LinkOptions, reach};
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::store::{ColumnAdder, Store, StoreOptions, Stored, When};
use dolmen_rntuple::write::{self, Options};
use dolmen_rntuple::{Array, Entries, Error, Result, Values};
use dolmen_types::{Head, Label};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

/// Who waits for a daemon that was killed waits for so long: longer than any start takes.
const PATIENCE: Duration = Duration::from_secs(100);

/// What somebody does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Append,
    Change,
    Read,
}

impl Role {
    pub(super) const ALL: [Self; 3] = [Self::Append, Self::Change, Self::Read];
}

/// A pool, in this process (`file:`) or at a daemon, and a container of it.
pub(super) struct Open {
    pub(super) pool: Pool,
    pub(super) cont: Container,
}

impl Open {
    pub(super) fn new(address: &str, cont: &str) -> Self {
        let cred = Credentials::default();
        let transport: Arc<dyn Transport> = match address.strip_prefix("file:") {
            Some(path) => Arc::new(dolmen_local::open(Path::new(path), &OpenOptions::default()).unwrap()),
            None => {
                let addresses = reach::addresses(address).unwrap().unwrap();
                let options = LinkOptions { patience: PATIENCE, ..LinkOptions::default() };
                let link = connect(&addresses, &options);
                let head = Head { cred, ..Head::default() };
                let name = reach::pool_name("p").unwrap();
                Arc::new(reach::pool(&link, &head, name, PoolAccess::ReadWrite).unwrap())
            }
        };
        let pool = Pool::connect(transport, cred).unwrap();
        let cont = pool.open_container(&ContName::Label(Label::new(cont).unwrap())).unwrap();
        Self { pool, cont }
    }

    pub(super) fn store(&self) -> Store {
        Store::new(&self.cont, &StoreOptions::default())
    }
}

/// Connects; to a daemon that was killed when the next one is there.
fn connect(addresses: &[Address], options: &LinkOptions) -> Link {
    let end_ns = RealClock.monotonic_ns() + u64::try_from(PATIENCE.as_nanos()).unwrap();
    loop {
        match reach::system(addresses, options) {
            Ok(link) => return link,
            Err(_) if RealClock.monotonic_ns() < end_ns => dolmen_env::yield_now(),
            Err(error) => panic!("no daemon comes: {error}"),
        }
    }
}

/// Says a line at once, so that it is there whole or not at all, whenever the kill comes.
fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Works until it is killed.
pub(super) fn work(role: Role, stored: &Stored, writer: u64) {
    let mut rng = Rng::from_seed(writer);
    for step in 0.. {
        match role {
            Role::Append => append(stored, owner(writer, step)),
            Role::Change => change(stored, step, &mut rng),
            Role::Read => {
                let (version, sum) = look(stored, &mut rng);
                say(&format!("read {version} {sum}"));
            }
        }
    }
}

/// One append of several clusters; again if columns were added meanwhile.
pub(super) fn append(stored: &Stored, owner: i64) {
    while let Err(error) = try_append(stored, owner) {
        assert!(matches!(error, Error::OtherFields(_)), "an append: {error}");
    }
    say(&format!("appended {owner}"));
}

fn try_append(stored: &Stored, owner: i64) -> Result<()> {
    let mut appender = stored.append()?;
    let schema = appender.schema().clone();
    let fields = events::arrays(&[owner], events::added_count(&schema));
    let fields = borrowed(&fields);
    for range in write::cut(&fields, &options())? {
        appender.push(&write::seal(&schema, &fields, range, &options())?)?;
        say("put");
    }
    match appender.commit() {
        Ok(_) => Ok(()),
        Err(error) => {
            appender.discard()?;
            Err(error)
        }
    }
}

/// Adds a column, reshapes a part, or frees what nobody needs.
fn change(stored: &Stored, step: u64, rng: &mut Rng) {
    match step % 4 {
        0 => add_column(stored),
        1 | 2 => {
            let first = rng.below(stored.version(When::Now).unwrap().entry_count + 1);
            let options = Options {
                compression: [Compression::Zstd(1), Compression::Lz4, Compression::None][rng.index(3)],
                page_bytes: 100 + u32::try_from(rng.below(2000)).unwrap(),
                cluster_bytes: 300 + rng.below(5000),
                ..Options::default()
            };
            match stored.reshape(first, 1 + rng.below(10_000), &options) {
                Ok(_) => say("reshaped"),
                Err(Error::Changed { .. } | Error::OtherSchema) => say("reshaped in vain"),
                Err(error) => panic!("a reshape: {error}"),
            }
        }
        _ => {
            // Others write meanwhile: nothing of theirs goes.
            stored_store(stored).collect().unwrap();
            say("collected");
        }
    }
}

fn stored_store(stored: &Stored) -> Store {
    Store::new(stored.store().container().unwrap(), &StoreOptions::default())
}

fn add_column(stored: &Stored) {
    let schema = stored.open(When::Now).unwrap().header().schema.clone();
    let number = events::added_count(&schema);
    if number == events::ADDED_MAX {
        say("has all columns");
        return;
    }
    let (name, none) = (events::name_of_added(number), events::added(&[], number));
    let mut after = schema;
    write::schema(&mut after, &[(&name, &none)], Compression::Zstd(1)).unwrap();
    let mut adder = match stored.add_columns(&after) {
        Ok(adder) => adder,
        Err(Error::OtherSchema | Error::Exists { .. }) => return say("added in vain"),
        Err(error) => panic!("an addition: {error}"),
    };
    loop {
        let pushed = push_missing(stored, &mut adder, number, &after);
        match pushed.and_then(|()| adder.commit()) {
            Ok(_) => return say("added"),
            Err(Error::Behind { .. }) => say("behind"),
            Err(Error::Changed { .. } | Error::OtherSchema) => {
                adder.discard().unwrap();
                return say("added in vain");
            }
            Err(error) => panic!("an addition: {error}"),
        }
    }
}

fn push_missing(
    stored: &Stored,
    adder: &mut ColumnAdder,
    number: usize,
    schema: &dolmen_rntuple::format::schema::Schema,
) -> Result<()> {
    let ntuple = stored.open(When::Now)?;
    let name = events::name_of_added(number);
    let fields = [ntuple.field("owner")?, ntuple.field("at")?];
    while let Some(&entries) = adder.missing().first() {
        let Entries { first, end } = entries;
        let [Array::Values(Values::I64(owners)), Array::Values(Values::I32(places))] =
            &ntuple.read(&fields, entries)?[..]
        else {
            panic!("other fields were written")
        };
        let of_cluster: Vec<_> = owners.iter().copied().zip(places.iter().copied()).collect();
        let array = events::added(&of_cluster, number);
        let sealed = write::seal(schema, &[(&name, &array)], 0..end - first, &options())?;
        adder.push(&sealed)?;
        say("put");
    }
    Ok(())
}

/// Reads a whole version, the current one or one of before; its number, and the checksum of what was read.
pub(super) fn look(stored: &Stored, rng: &mut Rng) -> (u64, u64) {
    let current = stored.version(When::Now).unwrap().number;
    let number = if rng.one_in(2) { current } else { 1 + rng.below(current) };
    let ntuple = stored.open(When::Version(number)).unwrap();
    (number, events::sum(&events::read(&ntuple).unwrap()))
}
