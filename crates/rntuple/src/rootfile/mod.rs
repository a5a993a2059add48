//! ROOT's file as a container: its keys, its directories, and anchors of ntuples in them, read and written.
//!
//! All numbers of the file itself are big-endian, those of an ntuple's envelopes and pages are not.

mod anchor;
mod big;
mod export;
mod file;
mod key;
mod layout;
pub mod tree;
mod write;

pub use anchor::Anchor;
pub use export::{VirtualFile, export, export_on};
pub use file::RootFile;
pub use key::Key;
pub use layout::FileTime;
pub use write::{FORMAT_VERSION, FileOptions, Output, RootWriter, local_output};
