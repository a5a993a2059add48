//! Where an ntuple is: in a file of ROOT, or in a store.

use super::home::{Held, Home, RootPlace, open_file, root_file, root_place};
use super::list;
use super::version::VersionArg;
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::Answer;
use crate::path::{shown_outside, word};
use crate::place::{self, ContArg, PoolArg};
use clap::Args;
use dolmen_remote::address;
use dolmen_rntuple::Ntuple;
use dolmen_rntuple::rootfile::RootFile;
use dolmen_rntuple::rootfile::tree::Tree;
use dolmen_rntuple::store::StoreSource;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

/// An ntuple to be read.
#[derive(Args, Clone, Debug)]
pub(crate) struct Source {
    /// FILE [NTUPLE] of a file of ROOT, or POOL CONT NTUPLE; of an object store s3://BUCKET/FILE [NTUPLE], s3://BUCKET PREFIX NTUPLE or
    /// s3://BUCKET/PREFIX NTUPLE
    #[arg(value_names = ["FILE|POOL", "NTUPLE|CONT", "NTUPLE"], num_args = 1..=3, required = true)]
    pub(crate) words: Vec<OsString>,
    #[command(flatten)]
    pub(crate) version: VersionArg,
    #[command(flatten)]
    pub(crate) wait: WaitArg,
}

/// What has ntuples.
#[derive(Args, Debug)]
pub(crate) struct Place {
    /// FILE of ROOT, or POOL CONT; of an object store s3://BUCKET/FILE, s3://BUCKET PREFIX or s3://BUCKET/PREFIX, or s3://BUCKET or a prefix below
    /// which there are stores, for their addresses
    #[arg(value_names = ["FILE|POOL", "CONT"], num_args = 1..=2, required = true)]
    words: Vec<OsString>,
    #[command(flatten)]
    wait: WaitArg,
}

/// How long a pool is waited for that another process has.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct WaitArg {
    /// Wait so long for another process that uses the pool, instead of failing at once
    #[arg(long, value_name = "SECONDS", value_parser = place::wait())]
    wait: Option<u64>,
}

impl WaitArg {
    pub(crate) fn pool(self, pool: &Path) -> PoolArg {
        PoolArg { wait: self.wait, ..PoolArg::new(pool.to_owned()) }
    }
}

/// An ntuple that is open for reading, and what keeps it open.
pub(crate) enum Opened {
    File(Ntuple<RootFile>),
    Stored(Ntuple<StoreSource>, Held),
}

/// What can be read entry by entry.
pub(crate) enum Any {
    Ntuple(Box<Opened>),
    Tree(Tree),
}

/// Does the same with an ntuple wherever it is.
macro_rules! each {
    ($opened:expr, $ntuple:ident => $do:expr) => {
        match $opened {
            $crate::ntuple::source::Opened::File($ntuple) => $do,
            $crate::ntuple::source::Opened::Stored($ntuple, _held) => $do,
        }
    };
}
pub(crate) use each;

impl Source {
    /// What it is called in what is told.
    pub(crate) fn shown(&self) -> String {
        let words: Vec<_> = self.words.iter().map(|word| shown_outside(Path::new(word))).collect();
        words.join(" ")
    }

    /// Opens an ntuple.
    pub(crate) fn open(&self) -> Outcome<Opened> {
        match &self.words[..] {
            [pool, cont, name] => self.open_stored(pool, cont, name),
            [file, rest @ ..] => {
                let (file, name) = (Path::new(file), rest.first().map(text).transpose()?);
                match self.place(file, name)? {
                    RootPlace::File(root) => Ok(Opened::File(open_file(file, root, name)?)),
                    RootPlace::Store(home) => self.opened(home, name.expect("a store has several")),
                }
            }
            [] => unreachable!("one word is required"),
        }
    }

    /// Opens an ntuple, or a tree of a file.
    pub(crate) fn open_any(&self) -> Outcome<Any> {
        let [file, rest @ ..] = &self.words[..] else { unreachable!("one word is required") };
        if rest.len() > 1 {
            return Ok(Any::Ntuple(self.open()?.into()));
        }
        let (file, name) = (Path::new(file), rest.first().map(text).transpose()?);
        let root = match self.place(file, name)? {
            RootPlace::File(root) => root,
            RootPlace::Store(home) => {
                return Ok(Any::Ntuple(self.opened(home, name.expect("a store has several"))?.into()));
            }
        };
        any_of(file, root, name)
    }

    /// Refuses to write to the file that this is read from, however it is written, and to what is no file.
    pub(crate) fn refuse_own(&self, to: &Path) -> Outcome<()> {
        refuse_special(to)?;
        let [file, rest @ ..] = &self.words[..] else { unreachable!("one word is required") };
        let file = Path::new(file);
        let is_own = rest.len() < 2
            && match (address(file), address(to)) {
                (Some(one), Some(other)) => one == other,
                (None, None) => {
                    file.canonicalize().is_ok_and(|one| to.canonicalize().is_ok_and(|to| to == one))
                }
                _ => false,
            };
        if !is_own {
            return Ok(());
        }
        let failure = Failure::new(Exit::Usage, "it is read from that file, which would be replaced");
        Err(failure.hint("name another file with --to; it can take the place of this one when it is there"))
    }

    /// The container and the ntuple that three words name.
    pub(crate) fn stored(&self) -> Outcome<Option<(ContArg, &str)>> {
        let [pool, cont, name] = &self.words[..] else { return Ok(None) };
        let cont = ContArg { pool: self.wait.pool(Path::new(pool)), cont: text(cont)?.to_owned() };
        Ok(Some((cont, text(name)?)))
    }

    /// What these words name, at its current version; a pool is waited for as another one.
    pub(crate) fn of_words(words: &[OsString], like: &PoolArg) -> Self {
        Self { words: words.to_vec(), version: VersionArg::default(), wait: WaitArg { wait: like.wait } }
    }

    /// The file that the first word names, or, with a name behind it, the store of ntuples at that address.
    fn place(&self, file: &Path, name: Option<&str>) -> Outcome<RootPlace> {
        refuse_pool(file, name)?;
        let found = root_place(file).doing(|| format!("read {}", shown_outside(file)))?;
        match &found {
            RootPlace::File(_) if self.version.is_told() => {
                let failure = Failure::new(Exit::Usage, "a file has one version of an ntuple");
                Err(failure.hint("name POOL CONT NTUPLE for versions"))
            }
            RootPlace::Store(_) if name.is_none() => Err(no_object(file)),
            _ => Ok(found),
        }
    }

    fn open_stored(&self, pool: &OsString, cont: &OsString, name: &OsString) -> Outcome<Opened> {
        let home = Home::open(&self.wait.pool(Path::new(pool)), text(cont)?, false)?;
        self.opened(home, text(name)?)
    }

    pub(crate) fn opened(&self, home: Home, name: &str) -> Outcome<Opened> {
        let ntuple = self.version.open(&home.store, name).map_err(|failure| match &self.words[..] {
            [bucket, prefix] if is_bucket(bucket) && failure.exit == Exit::Missing => {
                let (bucket, prefix) = (word(Path::new(bucket)), word(Path::new(prefix)));
                failure
                    .hint(format!("if {prefix} is a prefix, name the ntuple, too: {bucket} {prefix} NTUPLE"))
            }
            _ => failure,
        });
        Ok(Opened::Stored(ntuple.doing(|| format!("open {}", self.shown()))?, home.into_held()))
    }
}

/// A container, or a prefix of a bucket, and the name of what is made in it, in two or three words.
pub(crate) fn destination(words: &[OsString], like: &Source) -> Outcome<(ContArg, String)> {
    let (pool, cont, name) = match words {
        [pool, cont, name] => (Path::new(pool), text(cont)?, name),
        [bucket, prefix] if is_bucket(bucket) => {
            let (bucket, prefix) = (word(Path::new(bucket)), word(Path::new(prefix)));
            let why =
                format!("the name of an ntuple is missing: {bucket} {prefix} is the store {bucket}/{prefix}");
            let hint = format!(
                "write --into {bucket} {prefix} NTUPLE; {bucket}/ {prefix} is ntuple {prefix} of the bucket as a whole"
            );
            return Err(Failure::new(Exit::Usage, why).hint(hint));
        }
        // The bucket as a whole is a store as well: with a slash behind it.
        [store, name] if address(Path::new(store)).is_some() => {
            let store = text(store)?;
            let end = store["s3://".len()..].find('/').map_or(store.len(), |at| at + "s3://".len());
            (Path::new(&store[..end]), store[end..].trim_matches('/'), name)
        }
        _ => {
            let failure = Failure::new(Exit::Usage, "a container and the name of an ntuple are missing");
            return Err(failure.hint("write --into POOL CONT NTUPLE, or s3://BUCKET/PREFIX NTUPLE"));
        }
    };
    Ok((ContArg { pool: like.wait.pool(pool), cont: cont.to_owned() }, text(name)?.to_owned()))
}

/// Whether a word is a bucket, and nothing behind it.
fn is_bucket(word: &OsString) -> bool {
    address(Path::new(word)).is_some_and(|address| !address["s3://".len()..].contains('/'))
}

/// An ntuple or a tree of the file of ROOT at a path; the only one if there is no name.
pub(crate) fn any_at(path: &Path, name: Option<&str>) -> Outcome<Any> {
    any_of(path, root_file(path).doing(|| format!("read {}", shown_outside(path)))?, name)
}

/// An ntuple or a tree of a file; the only ntuple, or else the only tree, if there is no name.
fn any_of(path: &Path, root: RootFile, name: Option<&str>) -> Outcome<Any> {
    let doing = || format!("read {}", shown_outside(path));
    let (ntuples, trees) = (root.ntuples(), root.trees());
    let tree = match (name, &ntuples[..], &trees[..]) {
        (Some(name), ..) => trees.iter().find(|tree| &***tree == name && !ntuples.contains(tree)),
        (None, [], [only]) => Some(only),
        (None, [], [_, ..]) => {
            let failure = Failure::new(Exit::Usage, "it has several trees");
            let one = "name one of them, behind the file, or, for import and append, with --tree";
            let failure = failure.hint(format!("{one}: {}", trees.join(", ")));
            return Err(failure).doing(doing);
        }
        (None, ..) => None,
    };
    match tree {
        Some(tree) => Ok(Any::Tree(Tree::open(&Arc::new(root), tree).doing(doing)?)),
        None => Ok(Any::Ntuple(Opened::File(open_file(path, root, name)?).into())),
    }
}

/// Refuses to write a file where one cannot take the place of what is there, among the files of a pool, and to the standard output.
fn refuse_special(to: &Path) -> Outcome<()> {
    if to == Path::new("-") {
        let failure = Failure::new(Exit::Usage, "nothing is written to the standard output");
        return Err(failure.hint("name a file with --to; one that is called so is ./-"));
    }
    let is_special = |there: std::fs::Metadata| !there.is_file() && !there.is_dir();
    if address(to).is_none() && to.metadata().is_ok_and(is_special) {
        let failure = Failure::new(Exit::Usage, format!("{} is no regular file", shown_outside(to)));
        return Err(failure.hint("name another with --to"));
    }
    // What cannot be looked at cannot be written either, which is told then.
    if address(to).is_none()
        && let Ok(Some(pool)) = dolmen_local::pool_around(to)
    {
        let why = format!("{} is within the pool {}", shown_outside(to), shown_outside(&pool));
        return Err(Failure::new(Exit::Usage, why).hint("name a file elsewhere with --to"));
    }
    Ok(())
}

/// Refuses a pool in place of a file, and says which words are missing.
fn refuse_pool(file: &Path, name: Option<&str>) -> Outcome<()> {
    let is_pool = address(file).is_none()
        && (file
            .to_str()
            .is_some_and(|text| ["file:", "unix:", "tcp://"].iter().any(|of| text.starts_with(of)))
            || place::pool_directory(file).is_ok_and(|dir| dir.is_dir()));
    if !is_pool {
        return Ok(());
    }
    let (pool, cont) = (word(file), name.map_or_else(|| "CONT".to_owned(), |name| word(Path::new(name))));
    let failure = Failure::new(Exit::Usage, format!("{} is no file of ROOT", shown_outside(file)));
    let hint = format!("of a pool, container and ntuple are named too: {pool} {cont} NTUPLE");
    let hint = format!("{hint}; `dolmen ntuple list {pool} {cont}` shows which there are");
    Err(failure.hint(hint))
}

/// Why nothing is read of an address alone.
fn no_object(address: &Path) -> Failure {
    let shown = shown_outside(address);
    let failure = Failure::new(Exit::Missing, format!("there is no file of ROOT at {shown}"));
    let store = word(address);
    failure.hint(format!(
        "of a store of ntuples at an address one is named: {store} NTUPLE; `dolmen ntuple list {store}` shows which there are"
    ))
}

fn text(word: &OsString) -> Outcome<&str> {
    let wrong = || Failure::new(Exit::Usage, format!("{} is no text", shown_outside(Path::new(word))));
    word.to_str().ok_or_else(wrong)
}

pub(crate) fn list(place: &Place) -> Outcome<Answer> {
    match &place.words[..] {
        [file] => {
            let path = Path::new(file);
            let doing = || format!("read {}", shown_outside(path));
            if let Err(failure) = refuse_pool(path, None) {
                let pool = word(path);
                let hint = format!("name a container, too: {pool} CONT; see `dolmen cont list {pool}`");
                return Err(failure.hint(hint));
            }
            match root_place(path).doing(doing)? {
                RootPlace::File(root) => list::of_file(root).doing(doing),
                RootPlace::Store(home) => {
                    let answer = list::of_store(&home)?;
                    let is_empty = answer.json.as_array().is_some_and(Vec::is_empty);
                    if is_empty { list::of_bucket(home.shown(), answer).doing(doing) } else { Ok(answer) }
                }
            }
        }
        [pool, cont] => {
            let home = Home::open(&place.wait.pool(Path::new(pool)), text(cont)?, false)?;
            let answer = list::of_store(&home)?;
            home.close()?;
            Ok(answer)
        }
        _ => unreachable!("one or two words are required"),
    }
}
