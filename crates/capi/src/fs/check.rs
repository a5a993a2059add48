//! Whole file systems: checks, counts, owners.

use super::EINVAL;
use crate::cont;
use crate::error::{PosixResult, errno};
use crate::handle;
use crate::raw::Text;
use crate::types::Handle;
use core::ffi::c_int;
use dolmen_client::{Container, Oid, OpenFor, Way, Whose};
use dolmen_codec::now;
use dolmen_dfs::{CheckReport, Dfs, Dir, Error, Follow, MountOptions, SetAttrs, tree};
use dolmen_types::shown;

//= daos:src/include/daos_fs.h DFS_CHECK_*
const PRINT: u64 = 1;
const REMOVE: u64 = 2;
const RELINK: u64 = 4;
const VERIFY: u64 = 8;
const EVICT_ALL: u64 = 16;

/// Where what nothing names gets a name.
const LOST_AND_FOUND: &str = "lost+found";

/// Mounts a container that nobody else has, nor can open as long as the mount lasts; `evicts` ends the handles that others
/// have on it.
///
/// # Errors
/// `EBUSY` if anybody has it, this process included.
fn mounted_alone(poh: Handle, name: Text, writable: bool, evicts: bool) -> PosixResult<Dfs> {
    let (pool, name) = (handle::pool(poh)?, cont::name(name.str()?)?);
    let wanted = OpenFor::Alone(cont::drawn_word()?);
    let cont = if evicts {
        let opened = cont::open_without_others(Way::Now, &pool, &name, wanted, Whose::All);
        now(opened)?
    } else {
        pool.client.open_container_for(&name, wanted)?
    };
    mounted(&cont, !writable)
}

fn mounted(cont: &Container, read_only: bool) -> PosixResult<Dfs> {
    let (uid, gid) = (super::mount::own_uid(), super::mount::own_gid());
    Ok(Dfs::mount(cont, &MountOptions { read_only, uid, gid, ..MountOptions::default() })?)
}

/// Looks for objects that nothing names, and prints, removes or names them as `flags` say. Nobody else has the container
/// meanwhile.
#[unsafe(no_mangle)]
extern "C" fn dfs_cont_check(poh: Handle, cont: Text, flags: u64, name: Text) -> c_int {
    errno(|| {
        if flags & !(PRINT | REMOVE | RELINK | VERIFY | EVICT_ALL) != 0
            || flags & REMOVE != 0 && flags & RELINK != 0
        {
            return Err(EINVAL);
        }
        let fs = mounted_alone(poh, cont, flags & (REMOVE | RELINK) != 0, flags & EVICT_ALL != 0)?;
        let report = fs.check(flags & REMOVE != 0)?;
        if flags & PRINT != 0 {
            print(&report);
        }
        if flags & VERIFY != 0 {
            // Every byte of every object that has a name is read, and so its checksums are.
            tree::digest(&fs, "/", &tree::Options::default())?;
        }
        if flags & RELINK != 0 && !report.leaked.is_empty() {
            relink(&fs, report.leaked, name)?;
        }
        Ok(())
    })
}

fn print(report: &CheckReport) {
    println!(
        "{} directories, {} files, {} symbolic links, {} files without a name that are open",
        report.dirs, report.files, report.symlinks, report.orphans
    );
    for oid in &report.leaked {
        println!("no entry names object {oid}");
    }
    for entry in &report.bad_entries {
        println!("damaged: {}/{}", shown(&entry.dir_path), shown(&entry.name));
    }
}

/// Gives objects that nothing names a name in a directory of their own.
fn relink(fs: &Dfs, leaked: Vec<Oid>, name: Text) -> PosixResult<()> {
    let made = |made: dolmen_dfs::Result<()>| match made {
        Err(Error::Exists) => Ok(()),
        other => other,
    };
    made(fs.mkdir(LOST_AND_FOUND, 0o700))?;
    let found = fs.open_dir(LOST_AND_FOUND)?;
    let found: Dir = match name.is_null() {
        false => {
            let name = super::obj::name(name)?;
            made(found.mkdir(name, 0o700))?;
            found.open_dir(name)?
        }
        true => found,
    };
    Ok(found.adopt(&leaked)?)
}

/// Counts and sizes of everything in a container, or below a directory of it, on the standard output.
#[unsafe(no_mangle)]
extern "C" fn dfs_cont_scan(poh: Handle, cont: Text, _flags: u64, subdir: Text) -> c_int {
    errno(|| {
        let pool = handle::pool(poh)?;
        let fs = mounted(&pool.client.open_container(&cont::name(cont.str()?)?)?, true)?;
        let below = subdir.str_if_any()?.unwrap_or("/");
        let usage = tree::du(&fs, below, false, &tree::Options::default())?;
        println!("{below}: {} files, {} directories, {} bytes", usage.files, usage.dirs, usage.size_bytes);
        Ok(())
    })
}

/// Sets the owners of a container and of its root directory.
#[unsafe(no_mangle)]
extern "C" fn dfs_cont_set_owner(coh: Handle, user: Text, uid: u32, group: Text, gid: u32) -> c_int {
    errno(|| {
        let cont = handle::cont(coh)?;
        let fs = Dfs::mount(&cont.client, &MountOptions { shared: true, ..MountOptions::default() })?;
        now(cont::set_owner(Way::Now, coh, user, group, false))?;
        let attrs = SetAttrs {
            uid: (!user.is_null()).then_some(uid),
            gid: (!group.is_null()).then_some(gid),
            ..SetAttrs::KEEP
        };
        Ok(fs.set_attrs("/", &attrs, Follow::No)?)
    })
}
