//! `dolmen ntuple`: event data (RNTuple) in containers, object stores and files of ROOT.

mod home;
mod picture;
mod read;
mod source;
mod stored;

use crate::failure::{Exit, Failure, Outcome};
use crate::output::Answer;
use clap::Subcommand;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the ntuples of a container, or of a file of ROOT
    List(source::Place),
    /// Show the fields of an ntuple, with the bytes that each takes
    Show(source::Source),
    /// Import an ntuple of a file of ROOT, its pages bit for bit as they are
    Import(stored::Import),
    /// Copy a version of an ntuple to another container or object store, its pages bit for bit as they are
    Copy(stored::Copy),
    /// Append all entries of an ntuple of a file of ROOT that has the same fields and columns
    Append(stored::Append),
    /// Write a file of ROOT with the pages as they are
    Export(read::Export),
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
    /// Make an ntuple of some fields of another one, with the same pages
    Clone(stored::CloneFields),
    /// Write all clusters anew, with another compression or other pages, while others read and append
    Reshape(stored::Reshape),
    /// Read all pages and compare them with their checksums; damaged ones are put right by a file with the same pages
    Scrub(stored::Scrub),
    /// Free versions that were kept for long enough, and what writers that are gone have left
    Gc(stored::Collect),
    /// Remove an ntuple with all of its versions
    Destroy(stored::Named),
}

pub(crate) fn run(command: &Command, as_json: bool) -> Outcome<Answer> {
    match command {
        Command::List(place) => source::list(place),
        Command::Show(source) => read::show(source),
        Command::Import(args) => stored::import(args),
        Command::Copy(args) => stored::copy(args),
        Command::Append(args) => stored::append(args),
        Command::Export(args) => read::export(args),
        Command::Serve(args) => read::serve(args, as_json),
        Command::Estimate(args) => read::estimate(args),
        Command::Plot(args) => read::plot(args),
        Command::Versions(args) => stored::versions(args),
        Command::Tag(args) => stored::tag(args),
        Command::Untag(args) => stored::untag(args),
        Command::Clone(args) => stored::clone(args),
        Command::Reshape(args) => stored::reshape(args),
        Command::Scrub(args) => stored::scrub(args),
        Command::Gc(args) => stored::collect(args),
        Command::Destroy(args) => stored::destroy(args),
    }
}

impl From<dolmen_rntuple::Error> for Failure {
    fn from(error: dolmen_rntuple::Error) -> Self {
        use dolmen_rntuple::Error as E;
        let why = error.to_string();
        match error {
            E::Store { source } => source.into(),
            E::Corrupt { .. } => Self::new(Exit::Damaged, why),
            E::Unsupported { .. } | E::BranchRefused { .. } | E::TooBig { .. } => Self::new(Exit::Other, why),
            E::NoNtuple { .. } | E::NoTree { .. } | E::NoField { .. } | E::NoVersion { .. } => {
                Self::new(Exit::Missing, why)
            }
            E::Exists { .. } => {
                Self::new(Exit::Taken, why).hint("choose another name, or remove the old one first")
            }
            E::OtherSchema => {
                Self::new(Exit::Usage, why).hint("`dolmen ntuple show` tells the fields of both")
            }
            E::Behind { .. } | E::Changed { .. } | E::Expired | E::Lost | E::Freed { .. } => {
                Self::new(Exit::InUse, why).hint("run the command again")
            }
            E::OtherStore | E::NoEntries { .. } | E::NoFit { .. } | E::NotFlat { .. } => {
                Self::new(Exit::Usage, why)
            }
            E::Bucket { source } => {
                use dolmen_rntuple::bucket::Failure as F;
                let exit = match source.failure {
                    F::Unreachable => Exit::Nobody,
                    F::Denied => Exit::Refused,
                    F::NoBucket => Exit::Missing,
                    F::Invalid => Exit::Usage,
                    F::Other => Exit::Other,
                };
                Self::new(exit, format!("{why}: {}", source.source))
            }
            E::Io { source, .. } => Self::new(exit_of(source.kind()), source.to_string()),
        }
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
