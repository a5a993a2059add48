//! POSIX names in a container, on the DFS layout.
mod access;
mod attr;
mod cache;
mod chunks;
mod dir;
mod error;
mod file;
pub mod layout;
mod list;
mod mount;
mod node;
mod path;
mod rename;
mod resolve;
mod store;
pub mod tree;

pub use access::{Cred, Rights};
pub use attr::{SetAttrs, SetTime, Stat, XattrCond};
pub use dir::{Dir, OpenOptions};
pub use error::{Error, Result, What, errno};
pub use file::File;
pub use layout::inode::{FileKind, Time};
pub use list::{Cookie, Entry, Names};
pub use mount::{Dfs, FormatOptions, LAYOUT_POSIX, MountOptions, STATFS_TYPE, Statfs};
pub use rename::RenameMode;
pub use resolve::Follow;
