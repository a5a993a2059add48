//! Where stores of ntuples and files of ROOT are: in pools and directories of this machine, or in an object store.

use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::path::shown_outside;
use crate::place::{self, PoolArg, Session};
use dolmen_client::Container;
use dolmen_local::Upkeep;
use dolmen_remote::{Options, Remote, RemoteFile, RemoteOutput, address};
use dolmen_rntuple::rootfile::{self, FileOptions, RootFile};
use dolmen_rntuple::store::{Store, StoreOptions};
use dolmen_rntuple::{Ntuple, Source};
use std::path::Path;
use std::sync::Arc;

/// An open store of ntuples, and what keeps it open.
pub(crate) struct Home {
    pub(crate) store: Store,
    held: Held,
}

/// An open pool, closed when what is read of it is no longer needed; none of an object store.
pub(crate) struct Held(Option<(Container, Session)>);

impl Home {
    /// That of a container, or, if the pool is written as `s3://BUCKET`, of a prefix of that.
    pub(crate) fn open(pool: &PoolArg, cont: &str, writes: bool) -> Outcome<Self> {
        let options = StoreOptions::default();
        if let Some(bucket) = address(&pool.pool) {
            let address = format!("{}/{cont}", bucket.trim_end_matches('/'));
            let bucket = Remote::open(&address, &Options::default())?;
            return Ok(Self { store: Store::in_bucket(Arc::new(bucket), &options), held: Held(None) });
        }
        let session = match writes {
            true => place::open_with(pool, Upkeep::Thread)?,
            false => place::open_to_read(pool)?,
        };
        let cont = session.container(cont)?;
        Ok(Self { store: Store::new(&cont, &options), held: Held(Some((cont, session))) })
    }

    /// What keeps open what is read of it.
    pub(crate) fn into_held(self) -> Held {
        self.held
    }

    pub(crate) fn close(self) -> Outcome<()> {
        let Self { store, held } = self;
        drop(store);
        let Some((cont, session)) = held.0 else { return Ok(()) };
        drop(cont);
        session.close()
    }
}

/// A file of ROOT, of this machine or in an object store.
pub(crate) fn root_file(path: &Path) -> Outcome<RootFile> {
    let Some(address) = address(path) else { return Ok(RootFile::open(path)?) };
    Ok(RemoteFile::open(address, &Options::default())?.into_root()?)
}

/// An ntuple of a file of ROOT; the only one if there is no name.
pub(crate) fn open_file(path: &Path, name: Option<&str>) -> Outcome<Ntuple<RootFile>> {
    let doing = || format!("read {}", shown_outside(path));
    let mut file = root_file(path).doing(doing)?;
    let names = file.ntuples();
    let name = match (name, &names[..]) {
        (Some(name), _) => name,
        (None, [only]) => only,
        (None, []) => {
            let failure = Failure::new(Exit::Missing, format!("{} has no ntuple", shown_outside(path)));
            return Err(failure.hint("trees (TTree) are read by `dolmen.rntuple.Tree` from Python"));
        }
        (None, several) => {
            let failure = Failure::new(Exit::Usage, format!("{} has several ntuples", shown_outside(path)));
            return Err(failure.hint(format!("name one of them: {}", several.join(", "))));
        }
    };
    let anchor = file.anchor(name).doing(doing)?;
    Ntuple::open(file, &anchor).doing(doing)
}

/// Writes an ntuple to a file of ROOT, of this machine or in an object store, where it is when it is whole.
pub(crate) fn export<S: Source>(
    ntuple: &Ntuple<S>,
    to: &Path,
    options: FileOptions,
    progress: impl FnMut(u64),
) -> Outcome<()> {
    let Some(address) = address(to) else {
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
            E::Address { .. } | E::Endpoint { .. } | E::NoKeys => Self::new(Exit::Usage, error.to_string()),
            E::Certificates { ref source } | E::Start { ref source } => {
                Self::new(Exit::Other, format!("{error}: {source}"))
            }
        }
    }
}
