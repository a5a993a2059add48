//! Where stores of ntuples and files of ROOT are: in pools and directories of this machine, or in an object store.

use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::path::shown_outside;
use crate::place::{self, ContArg, PoolArg, Session};
use dolmen_client::Container;
use dolmen_env::{Clock, RealClock};
use dolmen_local::Upkeep;
use dolmen_remote::{Options, Remote, RemoteFile, RemoteOutput, Wrong, address, place_of};
use dolmen_rntuple::format::Header;
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::schema::Known;
use dolmen_rntuple::rootfile::{self, FileOptions, FileTime, Output, RootFile, RootWriter};
use dolmen_rntuple::store::{Store, StoreOptions};
use dolmen_rntuple::{Ntuple, Source, near};
use std::path::Path;
use std::sync::Arc;

/// How header, footer and page lists of a file are compressed.
pub(super) const METADATA: Compression = Compression::Zstd(5);

/// An open store of ntuples, and what keeps it open.
pub(crate) struct Home {
    pub(crate) store: Store,
    /// What it is called in what is told.
    shown: String,
    held: Held,
}

/// An open pool, closed when what is read of it is no longer needed; none of an object store.
pub(crate) struct Held(Option<(Container, Arc<Session>)>);

impl Home {
    /// That of a container, or, if the pool is written as `s3://BUCKET`, of a prefix of that.
    pub(crate) fn open(pool: &PoolArg, cont: &str, writes: bool) -> Outcome<Self> {
        if let Some(bucket) = address(&pool.pool) {
            return Self::at(&format!("{}/{cont}", bucket.trim_end_matches('/')));
        }
        let session = match writes {
            true => place::open_with(pool, Upkeep::Thread)?,
            false => place::open_to_read(pool)?,
        };
        Self::within(&Arc::new(session), cont)
    }

    /// That at an address of an object store.
    pub(crate) fn at(address: &str) -> Outcome<Self> {
        let bucket = Remote::open(address, &Options::default())?;
        let store = Store::in_bucket(Arc::new(bucket), &StoreOptions::default());
        Ok(Self { store, shown: address.to_owned(), held: Held(None) })
    }

    /// Two of them, the first to be read. A pool that both are in is open once: whoever has it keeps all others out, himself too.
    pub(crate) fn open_both(from: &ContArg, to: &ContArg) -> Outcome<(Self, Self)> {
        if !is_one_pool(&from.pool.pool, &to.pool.pool) {
            let read = Self::open(&from.pool, &from.cont, false)?;
            return Ok((read, Self::open(&to.pool, &to.cont, true)?));
        }
        let written = Self::open(&to.pool, &to.cont, true)?;
        let Some((_, session)) = &written.held.0 else { unreachable!("a bucket is no pool") };
        Ok((Self::within(session, &from.cont)?, written))
    }

    /// That of a container of an open pool.
    fn within(session: &Arc<Session>, name: &str) -> Outcome<Self> {
        let cont = session.container(name)?;
        let store = Store::new(&cont, &StoreOptions::default());
        Ok(Self { store, shown: format!("container {name}"), held: Held(Some((cont, Arc::clone(session)))) })
    }

    /// What it is called in what is told.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// What keeps open what is read of it.
    pub(crate) fn into_held(self) -> Held {
        self.held
    }

    pub(crate) fn close(self) -> Outcome<()> {
        let Self { store, held, shown: _ } = self;
        drop(store);
        let Some((cont, session)) = held.0 else { return Ok(()) };
        drop(cont);
        // Whoever has it still closes it.
        Arc::into_inner(session).map_or(Ok(()), Session::close)
    }
}

/// Whether two containers are one as they are written, or two prefixes of a bucket.
pub(super) fn is_one_store(one: &ContArg, other: &ContArg) -> bool {
    let prefix = |store: &ContArg| {
        let bucket = address(&store.pool.pool)?.trim_end_matches('/');
        Some(format!("{bucket}/{}", store.cont.trim_matches('/')))
    };
    match (prefix(one), prefix(other)) {
        (None, None) => one.cont == other.cont && is_one_pool(&one.pool.pool, &other.pool.pool),
        (one, other) => one == other,
    }
}

/// Whether two words name one pool, which is none of an object store.
fn is_one_pool(one: &Path, other: &Path) -> bool {
    if address(one).is_some() || address(other).is_some() {
        return false;
    }
    let directory = |named: &Path| place::pool_directory(named).ok()?.canonicalize().ok();
    one == other || directory(one).is_some_and(|one| directory(other) == Some(one))
}

/// What a word names that may be a file of ROOT.
pub(crate) enum RootPlace {
    File(RootFile),
    /// There is none at this address: it can be that of a store of ntuples.
    Store(Home),
}

/// A file of ROOT, of this machine or in an object store, or what else is at its address.
pub(crate) fn root_place(path: &Path) -> Outcome<RootPlace> {
    let Some(address) = place_of(path)? else { return Ok(RootPlace::File(RootFile::open(path)?)) };
    match RemoteFile::open(address, &Options::default()) {
        Ok(file) => Ok(RootPlace::File(file.into_root()?)),
        Err(dolmen_remote::Error::NoObject { .. })
        | Err(dolmen_remote::Error::Address { what: Wrong::Object, .. }) => {
            Ok(RootPlace::Store(Home::at(address)?))
        }
        Err(error) => Err(error.into()),
    }
}

/// A file of ROOT, of this machine or in an object store.
pub(crate) fn root_file(path: &Path) -> Outcome<RootFile> {
    let Some(address) = place_of(path)? else { return Ok(RootFile::open(path)?) };
    Ok(RemoteFile::open(address, &Options::default())?.into_root()?)
}

/// An ntuple of the file of ROOT at a path; the only one if there is no name.
pub(crate) fn open_at(path: &Path, name: Option<&str>) -> Outcome<Ntuple<RootFile>> {
    open_file(path, root_file(path).doing(|| format!("read {}", shown_outside(path)))?, name)
}

/// An ntuple of a file of ROOT at this path; the only one if there is no name.
pub(crate) fn open_file(path: &Path, file: RootFile, name: Option<&str>) -> Outcome<Ntuple<RootFile>> {
    let doing = || format!("read {}", shown_outside(path));
    let (names, trees) = (file.ntuples(), file.trees());
    let is_tree =
        |name: &str| trees.iter().any(|tree| &**tree == name) && !names.iter().any(|of| &**of == name);
    let failure = match (name, &names[..]) {
        (Some(name), _) if is_tree(name) => of_trees(&format!("\"{name}\" is a tree, and no ntuple")),
        (Some(name), []) if !trees.is_empty() => {
            let why = format!("there is neither an ntuple nor a tree \"{name}\"");
            let near = near(name, trees.iter().map(|tree| &**tree));
            let near = near.map_or_else(String::new, |near| format!("\"{near}\" is one; "));
            Failure::new(Exit::Missing, why).hint(format!("{near}there are trees: {}", trees.join(", ")))
        }
        (Some(name), _) => return opened(file, name).doing(doing),
        (None, [only]) => return opened(file, &only.clone()).doing(doing),
        (None, []) if trees.is_empty() => Failure::new(Exit::Missing, "it has neither an ntuple nor a tree"),
        (None, []) => of_trees(&format!("it has no ntuple, but trees: {}", trees.join(", "))),
        (None, several) => {
            let failure = Failure::new(Exit::Usage, "it has several ntuples");
            failure.hint(format!("name one of them: {}", several.join(", ")))
        }
    };
    Err(failure).doing(doing)
}

fn opened(mut file: RootFile, name: &str) -> dolmen_rntuple::Result<Ntuple<RootFile>> {
    let anchor = file.anchor(name)?;
    Ntuple::open(file, &anchor)
}

/// Why a tree is not taken.
fn of_trees(why: &str) -> Failure {
    let failure = Failure::new(Exit::Missing, why);
    failure
        .hint("`dolmen ntuple list`, `show`, `head`, `read`, `import`, `append`, `skim`, `add-column` and `to-parquet` take trees")
}

/// Begins a file of ROOT with what an ntuple is.
pub(crate) type Begin<'a> = Box<dyn FnOnce(Header, Known) -> dolmen_rntuple::Result<RootWriter> + 'a>;

/// Begins a file of ROOT, of this machine or in an object store, where it is when it is whole.
pub(crate) fn beginning(to: &Path) -> Outcome<Begin<'_>> {
    let options = file_options();
    let Some(address) = place_of(to)? else {
        return Ok(Box::new(move |header, known| RootWriter::create(to, header, known, options)));
    };
    let output = RemoteOutput::open(address, &Options::default())?;
    let name = output.name().to_owned();
    Ok(Box::new(move |header, known| RootWriter::create_on(Box::new(output), &name, header, known, options)))
}

/// A file of this machine or in an object store, which is there when it is whole.
pub(crate) fn output(to: &Path) -> Outcome<Box<dyn Output>> {
    match place_of(to)? {
        Some(address) => Ok(Box::new(RemoteOutput::open(address, &Options::default())?)),
        None => rootfile::local_output(to).map_err(|error| Failure::on_file(to, &error)),
    }
}

/// How files of ROOT are written now.
pub(crate) fn file_options() -> FileOptions {
    let time_s = RealClock.now_ns() / 1_000_000_000;
    FileOptions { time: FileTime::of_unix(time_s), compression: METADATA }
}

/// Writes an ntuple to a file of ROOT, of this machine or in an object store, where it is when it is whole.
pub(crate) fn export<S: Source>(
    ntuple: &Ntuple<S>,
    to: &Path,
    progress: impl FnMut(u64) -> dolmen_rntuple::Result<()>,
) -> Outcome<()> {
    let options = file_options();
    let Some(address) = place_of(to)? else {
        return Ok(rootfile::export(ntuple, to, options, progress)?);
    };
    let output = RemoteOutput::open(address, &Options::default())?;
    let name = output.name().to_owned();
    Ok(rootfile::export_on(ntuple, Box::new(output), &name, options, progress)?)
}

impl From<dolmen_remote::Error> for Failure {
    fn from(error: dolmen_remote::Error) -> Self {
        use dolmen_remote::Error as E;
        match error {
            E::Bucket(source) => dolmen_rntuple::Error::from(source).into(),
            E::NoObject { .. } => Self::new(Exit::Missing, error.to_string()),
            E::Address { .. }
            | E::Scheme { .. }
            | E::WithinStore { .. }
            | E::AtObject { .. }
            | E::AroundStore { .. }
            | E::Endpoint { .. }
            | E::NoKeys => Self::new(Exit::Usage, error.to_string()),
            E::Certificates { ref source } | E::Start { ref source } => {
                Self::new(Exit::Other, format!("{error}: {source}"))
            }
        }
    }
}
