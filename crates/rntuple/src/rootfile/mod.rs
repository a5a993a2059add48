//! ROOT's file as a container: its keys, its directories, and anchors of ntuples in them.
//!
//! All numbers of the file itself are big-endian, those of an ntuple's envelopes and pages are not.

mod anchor;
mod big;
mod file;
mod key;

pub use anchor::Anchor;
pub use file::RootFile;
pub use key::Key;
