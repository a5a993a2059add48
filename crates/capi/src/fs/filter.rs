//! Listing only what a predicate lets through.

use super::EINVAL;
use super::list::{CDirent, dirent, next_names};
use super::mount::Mounted;
use super::obj::{Obj, both};
use super::table::{self, Ptr};
use crate::error::errno;
use crate::pipeline::is_like;
use crate::raw::Out;
use crate::types::{CAnchor, ObjId};
use core::ffi::{c_char, c_int};
use dolmen_dfs::{Entry, FileKind, Stat};
use std::sync::Arc;

//= daos:src/include/daos_fs.h DFS_FILTER_*
const BY_NAME: u64 = 2;
const NEWER: u64 = 4;
const WITH_DIRS: u64 = 8;

/// What entries are asked for.
//= daos:src/include/daos_fs.h dfs_predicate_t
#[derive(Clone, Copy)]
#[repr(C)]
struct CPredicate {
    name: [c_char; 255],
    newer: i64,
    size: usize,
}

const _: () = assert!(size_of::<CPredicate>() == 272);

/// Entries looked at for one answer.
const SCANNED_MAX: u32 = 1024;

/// A predicate.
pub(crate) struct Filter {
    mounted: Arc<Mounted>,
    /// What the name has to be like: `%` stands for anything, `_` for one byte.
    pattern: Option<Vec<u8>>,
    /// Seconds after which it has to have changed.
    newer: Option<i64>,
    /// Whether directories come whatever they are called and however old they are.
    with_dirs: bool,
}

impl Filter {
    pub(super) fn mounted(&self) -> &Arc<Mounted> {
        &self.mounted
    }

    /// The same for a mount that was made anew.
    pub(super) fn remade(&self, mounted: Arc<Mounted>) -> Self {
        let Self { mounted: _, pattern, newer, with_dirs } = self;
        Self { mounted, pattern: pattern.clone(), newer: *newer, with_dirs: *with_dirs }
    }

    fn lets_through(&self, name: &[u8], stat: &Stat) -> bool {
        if self.with_dirs && stat.kind == FileKind::Directory {
            return true;
        }
        self.pattern.as_ref().is_none_or(|pattern| is_like(pattern, name))
            && self.newer.is_none_or(|newer| stat.mtime.s > newer)
    }
}

/// Makes a filter of a predicate.
#[unsafe(no_mangle)]
extern "C" fn dfs_pipeline_create(
    dfs: Ptr<Mounted>,
    predicate: CPredicate,
    flags: u64,
    pipeline: Out<Ptr<Filter>>,
) -> c_int {
    errno(|| {
        let mounted = table::find(dfs)?;
        let out = pipeline.check()?;
        if flags & !(BY_NAME | NEWER | WITH_DIRS) != 0 || flags & (BY_NAME | NEWER) == 0 {
            return Err(EINVAL);
        }
        let name = predicate.name.iter().take_while(|&&byte| byte != 0).map(|byte| byte.cast_unsigned());
        let filter = Filter {
            mounted,
            pattern: (flags & BY_NAME != 0).then(|| name.collect()),
            newer: (flags & NEWER != 0).then_some(predicate.newer),
            with_dirs: flags & WITH_DIRS != 0,
        };
        Ok(out.set(table::insert(Arc::new(filter))?)?)
    })
}

/// Gives a filter up.
#[unsafe(no_mangle)]
extern "C" fn dfs_pipeline_destroy(pipeline: Ptr<Filter>) -> c_int {
    errno(|| table::remove(pipeline).map(drop))
}

/// The next entries that a filter lets through: names, objects, chunks, and how many were looked at for them.
#[unsafe(no_mangle)]
extern "C" fn dfs_readdir_with_filter(
    dfs: Ptr<Mounted>,
    obj: Ptr<Obj>,
    pipeline: Ptr<Filter>,
    anchor: Out<CAnchor>,
    nr: Out<u32>,
    dirs: Out<CDirent>,
    oids: Out<ObjId>,
    chunk_sizes: Out<u64>,
    scanned: Out<u64>,
) -> c_int {
    errno(|| {
        let (mounted, obj) = both(dfs, obj)?;
        let filter = table::find(pipeline)?;
        if !Arc::ptr_eq(&mounted, &filter.mounted) {
            return Err(EINVAL);
        }
        let dir = obj.dir()?;
        let (mut position, wanted) = (anchor.get()?, nr.get()?);
        let (mut done, mut looked_at) = (0u32, 0u64);
        while done < wanted && !position.anchor()?.is_eof() {
            // No more than there is room for: what was looked at is not told again.
            let names = next_names(dir, &mut position, (wanted - done).min(SCANNED_MAX))?;
            looked_at += names.len() as u64;
            for Entry { name, stat } in dir.describe_names(&names)? {
                let stat = stat?;
                if !filter.lets_through(&name, &stat) {
                    continue;
                }
                let index = done as usize;
                dirs.check()?.at(index).set(dirent(&name, Some(stat.kind)))?;
                if !oids.is_null() {
                    oids.at(index).set(stat.oid.into())?;
                }
                if !chunk_sizes.is_null() {
                    chunk_sizes.at(index).set(stat.chunk_bytes)?;
                }
                done += 1;
            }
        }
        scanned.set_if_wanted(looked_at);
        nr.set(done)?;
        Ok(anchor.set(position)?)
    })
}
