//! Entries: making, removing, moving.

use super::mount::Mounted;
use super::obj::{Obj, PERMISSIONS, name, parent};
use super::table::Ptr;
use crate::error::{PosixResult, errno};
use crate::raw::{Out, Text};
use crate::types::ObjId;
use core::ffi::c_int;
use dolmen_client::{ObjectClass, Oid};
use dolmen_dfs::{Dir, Error, FileKind, RenameMode, tree};
use std::sync::Arc;

/// Makes a directory.
#[unsafe(no_mangle)]
extern "C" fn dfs_mkdir(dfs: Ptr<Mounted>, dir: Ptr<Obj>, entry: Text, mode: u32, class: u32) -> c_int {
    errno(|| {
        let (mounted, dir) = parent(dfs, dir)?;
        mounted.check_writable()?;
        Ok(dir.mkdir_as(name(entry)?, mode & PERMISSIONS, ObjectClass(class))?)
    })
}

/// Removes an entry: a file, a symbolic link, an empty directory, or, with `force`, any directory with all below it.
#[unsafe(no_mangle)]
extern "C" fn dfs_remove(
    dfs: Ptr<Mounted>,
    dir: Ptr<Obj>,
    entry: Text,
    force: bool,
    oid: Out<ObjId>,
) -> c_int {
    errno(|| {
        let (mounted, dir) = parent(dfs, dir)?;
        mounted.check_writable()?;
        remove(&mounted, &dir, name(entry)?, force, oid)
    })
}

/// Removes an entry.
pub(super) fn remove(
    mounted: &Mounted,
    dir: &Dir,
    name: &[u8],
    force: bool,
    oid: Out<ObjId>,
) -> PosixResult<()> {
    let (kind, removed) = match dir.remove(name) {
        Err(Error::NotEmpty) if force => {
            let removed = dir.lstat(name)?.oid;
            tree::remove(dir, name, &tree::Options::default())?;
            (FileKind::Directory, removed)
        }
        // What it was nobody can tell.
        Err(error) if error.is_damage() => {
            dir.discard(name)?;
            (FileKind::File, Oid::default())
        }
        done => done?,
    };
    if matches!(kind, FileKind::Directory | FileKind::Symlink) {
        mounted.note_moved();
    }
    oid.set_if_wanted(removed.into());
    Ok(())
}

fn rename(
    (dfs, from, old): (Ptr<Mounted>, Ptr<Obj>, Text),
    (to, new): (Ptr<Obj>, Text),
    mode: RenameMode,
    oid: Out<ObjId>,
) -> PosixResult<()> {
    let (mounted, from) = parent(dfs, from)?;
    let (other, to) = parent(dfs, to)?;
    debug_assert!(Arc::ptr_eq(&mounted, &other), "both are of this mount");
    mounted.check_writable()?;
    let (old, new) = (name(old)?, name(new)?);
    let mut replaced = Oid::default();
    if !oid.is_null() {
        replaced = match to.lstat(new) {
            Err(Error::NotFound) => Oid::default(),
            found => found?.oid,
        };
    }
    from.rename(old, &to, new, mode)?;
    mounted.note_moved();
    oid.set_if_wanted(replaced.into());
    Ok(())
}

/// Moves an entry; what had the new name is replaced, and its object told.
#[unsafe(no_mangle)]
extern "C" fn dfs_move(
    dfs: Ptr<Mounted>,
    from: Ptr<Obj>,
    old: Text,
    to: Ptr<Obj>,
    new: Text,
    oid: Out<ObjId>,
) -> c_int {
    errno(|| rename((dfs, from, old), (to, new), RenameMode::Replace, oid))
}

/// Exchanges two entries.
#[unsafe(no_mangle)]
extern "C" fn dfs_exchange(dfs: Ptr<Mounted>, one: Ptr<Obj>, a: Text, other: Ptr<Obj>, b: Text) -> c_int {
    errno(|| rename((dfs, one, a), (other, b), RenameMode::Exchange, Out::NULL))
}
