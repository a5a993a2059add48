//! Where an ntuple is: in a file of ROOT, or in a store.

use super::home::{Held, Home, open_file, root_file};
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::output::{Answer, Table, date};
use crate::path::shown_outside;
use crate::place::PoolArg;
use clap::Args;
use dolmen_rntuple::Ntuple;
use dolmen_rntuple::rootfile::RootFile;
use dolmen_rntuple::store::{StoreSource, When};
use serde_json::json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// An ntuple to be read.
#[derive(Args, Debug)]
pub(crate) struct Source {
    /// FILE [NTUPLE] of a file of ROOT, or POOL CONT NTUPLE; of an object store s3://BUCKET/FILE [NTUPLE] or s3://BUCKET PREFIX NTUPLE
    #[arg(value_names = ["FILE|POOL", "NTUPLE|CONT", "NTUPLE"], num_args = 1..=3, required = true)]
    words: Vec<OsString>,
    #[command(flatten)]
    version: VersionArg,
}

/// What has ntuples.
#[derive(Args, Debug)]
pub(crate) struct Place {
    /// FILE of ROOT, or POOL CONT; of an object store s3://BUCKET/FILE or s3://BUCKET PREFIX
    #[arg(value_names = ["FILE|POOL", "CONT"], num_args = 1..=2, required = true)]
    words: Vec<OsString>,
}

/// A version of an ntuple in a container; the current one if none is told.
#[derive(Args, Clone, Debug)]
pub(crate) struct VersionArg {
    /// The version with this number, of an ntuple in a container
    #[arg(long, value_name = "NUMBER")]
    version: Option<u64>,
    /// The version that this tag keeps
    #[arg(long, value_name = "TAG", conflicts_with = "version")]
    tag: Option<String>,
    /// The last version that was made by this time, in seconds since 1970 (UTC)
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["version", "tag"])]
    at: Option<u64>,
}

impl VersionArg {
    pub(crate) fn when(&self) -> When<'_> {
        match (self.version, &self.tag, self.at) {
            (Some(version), ..) => When::Version(version),
            (None, Some(tag), _) => When::Tag(tag),
            (None, None, Some(seconds)) => When::Time(seconds.saturating_mul(1_000_000_000)),
            (None, None, None) => When::Now,
        }
    }

    fn is_told(&self) -> bool {
        self.version.is_some() || self.tag.is_some() || self.at.is_some()
    }
}

/// An ntuple that is open for reading, and what keeps it open.
pub(crate) enum Opened {
    File(Ntuple<RootFile>),
    Stored(Ntuple<StoreSource>, Held),
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

    pub(crate) fn open(&self) -> Outcome<Opened> {
        match &self.words[..] {
            [pool, cont, name] => self.open_stored(pool, cont, name),
            [file, rest @ ..] => {
                if self.version.is_told() {
                    let failure = Failure::new(Exit::Usage, "a file has one version of an ntuple");
                    return Err(failure.hint("name POOL CONT NTUPLE for versions"));
                }
                let name = rest.first().map(text).transpose()?;
                Ok(Opened::File(open_file(Path::new(file), name)?))
            }
            [] => unreachable!("one word is required"),
        }
    }

    fn open_stored(&self, pool: &OsString, cont: &OsString, name: &OsString) -> Outcome<Opened> {
        let home = Home::open(&PoolArg::new(PathBuf::from(pool)), text(cont)?, false)?;
        let ntuple = home.store.open(text(name)?, self.version.when());
        let ntuple = ntuple.doing(|| format!("open {}", self.shown()))?;
        Ok(Opened::Stored(ntuple, home.into_held()))
    }
}

fn text(word: &OsString) -> Outcome<&str> {
    let wrong = || Failure::new(Exit::Usage, format!("{} is no text", shown_outside(Path::new(word))));
    word.to_str().ok_or_else(wrong)
}

pub(crate) fn list(place: &Place) -> Outcome<Answer> {
    match &place.words[..] {
        [file] => {
            let path = Path::new(file);
            let names = root_file(path).doing(|| format!("read {}", shown_outside(path)))?.ntuples();
            let text = if names.is_empty() { "no ntuples".to_owned() } else { names.join("\n") };
            let names: Vec<_> = names.iter().map(|name| json!({ "name": &**name })).collect();
            Ok(Answer::new(text, names.into()))
        }
        [pool, cont] => {
            let home = Home::open(&PoolArg::new(PathBuf::from(pool)), text(cont)?, false)?;
            let (mut table, mut all) =
                (Table::new(&["name", "made (UTC)", "version", "entries"]), Vec::new());
            for listed in home.store.list()? {
                let version = home.store.ntuple(&listed.name)?.version(When::Now)?;
                let made_s = i64::try_from(listed.created_ns / 1_000_000_000).unwrap_or(i64::MAX);
                let numbers = [version.number.to_string(), version.entry_count.to_string()];
                table.row([listed.name.to_string(), date(made_s)].into_iter().chain(numbers));
                all.push(json!({
                    "name": &*listed.name,
                    "created_ns": listed.created_ns,
                    "version": version.number,
                    "entries": version.entry_count,
                }));
            }
            home.close()?;
            let text = if all.is_empty() { "no ntuples".to_owned() } else { table.text() };
            Ok(Answer::new(text, all.into()))
        }
        _ => unreachable!("one or two words are required"),
    }
}
