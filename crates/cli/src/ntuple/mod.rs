//! `dolmen ntuple`: event data (RNTuple) in containers, object stores and files of ROOT.

mod brought;
mod entries;
mod fields;
mod filter;
mod home;
mod list;
mod made;
mod parquet;
mod picture;
mod read;
mod rows;
mod source;
mod stored;
mod version;
mod words;

pub(crate) use words::meant;

use crate::failure::{Exit, Failure, Outcome};
use crate::interrupt;
use crate::output::Answer;
use crate::progress::Bar;
use clap::Subcommand;

/// Fields, versions and tags that are named at most where all are told as text.
const TOLD_MAX: usize = 12;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the ntuples of a container, or the ntuples and trees of a file of ROOT
    List(source::Place),
    /// Show the fields of an ntuple, with the bytes that each takes, or the branches of a tree
    Show(read::Show),
    /// Print entries of an ntuple or a tree, as lines of JSON or CSV
    Read(entries::Read),
    /// Print the first entries of an ntuple or a tree
    Head(entries::Head),
    /// Import an ntuple of a file of ROOT, its pages bit for bit as they are, or a tree
    Import(brought::Import),
    /// Copy a version of an ntuple to another container or object store, its pages bit for bit as they are
    Copy(stored::Copy),
    /// Append all entries of ntuples with the same fields and columns, or of trees with such branches: of files of ROOT, or of one that is stored
    Append(brought::Append),
    /// Add fields to an ntuple, with the values that another one, or a tree, has of as many entries
    AddColumn(made::AddColumn),
    /// Make an ntuple, or a file of ROOT, of some fields and of the entries that conditions hold for
    Skim(made::Skim),
    /// Write a file of ROOT with the pages as they are
    Export(read::Export),
    /// Write entries of an ntuple or a tree to a file of Parquet
    ToParquet(made::ToParquet),
    /// Serve an ntuple over HTTP as a file of ROOT that is nowhere, until it is interrupted
    Serve(read::Serve),
    /// Tell what reading fields takes: bytes, requests, time and money, without reading them
    Estimate(read::Estimate),
    /// Draw the size of each field, stored and in memory, and what reading it costs, as a PNG
    Plot(read::Plot),
    /// List the versions of an ntuple, and its tags
    Versions(stored::Named),
    /// Have a tag keep a version
    Tag(stored::Tag),
    /// Remove a tag
    Untag(stored::Untag),
    /// Have columns that are read together lie together in what is written from now on
    Pack(stored::Pack),
    /// Set for how long versions are kept that were replaced, or tell it
    Keep(stored::Keep),
    /// Remove versions that no tag keeps and that were kept for long enough
    Expire(stored::Named),
    /// Make an ntuple of some fields of another one, with the same pages
    Clone(stored::CloneFields),
    /// Write all clusters anew, with another compression or other pages, while others read and append
    Reshape(stored::Reshape),
    /// Read all pages and compare them with their checksums; damaged ones are put right by a file with the same pages
    Scrub(stored::Scrub),
    /// Free versions that were kept for long enough, and what writers that are gone have left
    Gc(stored::Collect),
    /// Remove an ntuple with all of its versions; one of which tags keep versions only with --force
    Destroy(stored::Destroy),
}

pub(crate) fn run(command: &Command, as_json: bool) -> Outcome<Answer> {
    match command {
        Command::List(place) => source::list(place),
        Command::Show(args) => read::show(args),
        Command::Read(args) => entries::read(args, as_json),
        Command::Head(args) => entries::head(args, as_json),
        Command::Import(args) => brought::import(args),
        Command::Copy(args) => stored::copy(args),
        Command::Append(args) => brought::append(args),
        Command::AddColumn(args) => made::add_column(args),
        Command::Skim(args) => made::skim(args),
        Command::Export(args) => read::export(args),
        Command::ToParquet(args) => made::to_parquet(args),
        Command::Serve(args) => read::serve(args, as_json),
        Command::Estimate(args) => read::estimate(args),
        Command::Plot(args) => read::plot(args),
        Command::Versions(args) => stored::versions(args),
        Command::Tag(args) => stored::tag(args),
        Command::Untag(args) => stored::untag(args),
        Command::Pack(args) => stored::pack(args),
        Command::Keep(args) => stored::keep(args),
        Command::Expire(args) => stored::expire(args),
        Command::Clone(args) => stored::clone(args),
        Command::Reshape(args) => stored::reshape(args),
        Command::Scrub(args) => stored::scrub(args),
        Command::Gc(args) => stored::collect(args),
        Command::Destroy(args) => stored::destroy(args),
    }
}

/// Has the command stop at its next step when a signal comes, so that it leaves nothing half made.
fn heard() {
    interrupt::stop();
}

/// Shows how far it is; an error if a signal has come.
fn step(bar: &Bar, done: u64) -> dolmen_rntuple::Result<()> {
    bar.at(done);
    if interrupt::is_asked() { Err(dolmen_rntuple::Error::Stopped) } else { Ok(()) }
}

/// The name of the field that a branch of a tree becomes, or a field of a field.
fn field_name(branch: &str) -> String {
    branch.split('[').next().unwrap_or(branch).trim_end_matches('.').replace('.', "_")
}

/// What makes room for ntuples.
const WHEN_FULL: &str = "`dolmen ntuple destroy` removes an ntuple, `keep` and `expire` versions that were replaced, and `gc` (`--alone`, \
                         if nobody writes) what was begun; `dolmen cont aggregate POOL CONT` gives their space back";

impl From<dolmen_rntuple::Error> for Failure {
    fn from(error: dolmen_rntuple::Error) -> Self {
        use dolmen_rntuple::Error as E;
        let why = error.to_string();
        match error {
            E::Store { source: source @ dolmen_client::Error::NoSpace { .. } } => {
                Self::from(source).hint(WHEN_FULL)
            }
            E::Store { source } => source.into(),
            E::Corrupt { .. } => Self::new(Exit::Damaged, why),
            E::BadPage { source, .. } => {
                let of_bytes = match *source {
                    E::Store { source } => source.to_string(),
                    other => other.to_string(),
                };
                Self::new(Exit::Damaged, format!("{why}: {of_bytes}")).hint(
                    "`dolmen ntuple scrub` tells all that is damaged, and with --repair-from FILE puts it right by the file that was imported, or an export from before",
                )
            }
            E::Unsupported { .. } | E::BranchRefused { .. } | E::TooBig { .. } => Self::new(Exit::Other, why),
            E::NoNtuple { .. } | E::NoTree { .. } | E::NoField { .. } | E::NoVersion { .. } => {
                Self::new(Exit::Missing, why)
            }
            E::Tagged { .. } => Self::new(Exit::Taken, why),
            E::Exists { .. } => {
                Self::new(Exit::Taken, why).hint("choose another name, or remove the old one first")
            }
            E::OtherSchema => {
                Self::new(Exit::Usage, why).hint("`dolmen ntuple show` tells the fields of both")
            }
            E::Behind { .. }
            | E::Changed { .. }
            | E::Expired
            | E::Lost
            | E::WentBack
            | E::Freed { .. }
            | E::Contended { .. }
            | E::Slow { .. } => Self::new(Exit::InUse, why).hint("run the command again"),
            E::Stopped => interrupt::failure(),
            E::OtherFields(_)
            | E::NoFill { .. }
            | E::BadName { .. }
            | E::OtherStore
            | E::NoEntries { .. }
            | E::NoFit { .. }
            | E::NotFlat { .. } => Self::new(Exit::Usage, why),
            E::Bucket { source } => {
                use dolmen_rntuple::bucket::Failure as F;
                let exit = match source.failure {
                    F::Unreachable => Exit::Nobody,
                    F::Denied => Exit::Refused,
                    F::NoBucket => Exit::Missing,
                    F::Invalid | F::Refused => Exit::Usage,
                    F::Other | F::Stopped | F::Doubtful => Exit::Other,
                };
                match source.failure {
                    // What this program misses in an answer is no matter of address and region; what an endpoint says has the answer behind it.
                    F::Invalid if source.source.source().is_none() => {
                        Self::new(exit, source.source.to_string())
                    }
                    _ => Self::new(exit, format!("{why}: {}", said(&*source.source))),
                }
            }
            E::Io { source, .. } => Self::new(exit_of(source.kind()), source.to_string()),
        }
    }
}

/// What an object store says, without the frame that it has for programs.
fn said(source: &dyn std::error::Error) -> String {
    let text = source.to_string();
    let Some((before, frame)) = text.split_once("<?xml").or_else(|| text.split_once("<Error>")) else {
        return text;
    };
    let part = |name: &str| {
        let behind = frame.split_once(&format!("<{name}>"))?.1;
        Some(behind.split_once('<')?.0.trim().to_owned()).filter(|part| !part.is_empty())
    };
    let before = before.trim_end_matches([':', ' ', '\n']);
    match (part("Message"), part("Code")) {
        (Some(said), Some(code)) => format!("{before}: {said} ({code})"),
        (Some(said), None) | (None, Some(said)) => format!("{before}: {said}"),
        (None, None) => before.to_owned(),
    }
}

/// The exit code of what the system says.
fn exit_of(kind: std::io::ErrorKind) -> Exit {
    use std::io::ErrorKind as K;
    match kind {
        K::NotFound => Exit::Missing,
        K::PermissionDenied | K::ReadOnlyFilesystem => Exit::Refused,
        K::AlreadyExists => Exit::Taken,
        K::IsADirectory | K::NotADirectory => Exit::Usage,
        K::StorageFull | K::QuotaExceeded => Exit::Full,
        _ => Exit::Device,
    }
}

#[cfg(test)]
mod tests {
    use super::said;

    #[test]
    fn what_an_object_store_says_has_no_tags_in_it() {
        let xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>NoSuchBucket</Code><Message>There is none</Message></Error>";
        for (text, shown) in [
            (
                "status code: 404 Not Found: ".to_owned() + xml,
                "status code: 404 Not Found: There is none (NoSuchBucket)",
            ),
            ("403: <Error><Code>AccessDenied</Code></Error>".to_owned(), "403: AccessDenied"),
            ("500: <?xml version='1.0'?><html>".to_owned(), "500"),
            ("no answer".to_owned(), "no answer"),
        ] {
            assert_eq!(said(&std::io::Error::other(text)), shown);
        }
    }
}
