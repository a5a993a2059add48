//! libduns: paths that name a container, outside of it.
//!
//! A directory (for files) or a file (for any other layout) of an ordinary file system has an extended attribute that says
//! which pool and container it stands for; `daos://pool/container/path` says it without one.

use super::mount::{CAttr, make_cont};
use super::{EINVAL, ENOENT};
use crate::cont;
use crate::error::{Errno, PosixResult, errno, silent};
use crate::handle;
use crate::prop::List;
use crate::raw::{self, Out, Text};
use crate::types::{CUuid, Handle, fixed};
use core::ffi::{c_char, c_int};
use dolmen_client::{ContName, PropId, PropValue, Uuid};
use dolmen_dfs::{UNS_LAYOUT_COUNT, UnsLink};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The extended attribute.
//= daos:src/include/daos_uns.h DUNS_XATTR_NAME, DUNS_MAX_XATTR_LEN
const XATTR: &core::ffi::CStr = c"user.daos";
const XATTR_BYTES_MAX: usize = dolmen_dfs::UNS_XATTR_BYTES_MAX;

//= daos:src/include/daos_uns.h flags of duns_resolve_path
const NO_PREFIX: u32 = 1;
const NO_REVERSE_LOOKUP: u32 = 2;
const NO_CHECK_PATH: u32 = 4;

const POSIX: u32 = 1;

/// What a path stands for, or is to stand for.
//= daos:src/include/daos_uns.h struct duns_attr_t
#[derive(Clone, Copy)]
#[repr(C)]
struct CUns {
    layout: u32,
    oclass: u32,
    chunk_size: u64,
    props: Out<List>,
    flags: u32,
    pool: [c_char; 128],
    cont: [c_char; 128],
    sys: *mut c_char,
    rel_path: *mut c_char,
    on_lustre: bool,
    no_prefix: bool,
    puuid: CUuid,
    cuuid: CUuid,
    dir_oclass: u32,
    file_oclass: u32,
    hints: [c_char; 128],
}

const _: () = assert!(size_of::<CUns>() == 480);
const _: () = assert!(core::mem::offset_of!(CUns, sys) == 288);
const _: () = assert!(core::mem::offset_of!(CUns, puuid) == 306);
const _: () = assert!(core::mem::offset_of!(CUns, hints) == 348);

/// Pool and container, by labels or UUIDs, and the layout if it is known.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Link {
    layout: u32,
    pool: String,
    cont: String,
}

impl Link {
    /// What the value of the extended attribute says.
    fn parse(value: &[u8]) -> PosixResult<Self> {
        UnsLink::parse(value).map(Self::from).ok_or(EINVAL)
    }
}

impl From<UnsLink> for Link {
    fn from(link: UnsLink) -> Self {
        Self { layout: link.layout, pool: link.pool.to_string(), cont: link.cont.to_string() }
    }
}

fn c_path(path: &Path) -> PosixResult<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_zero| EINVAL)
}

fn last_error() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// What a path of the system stands for; `None` if it is an ordinary one.
fn link_at(path: &Path) -> PosixResult<Option<Link>> {
    let name = c_path(path)?;
    let mut value = [0u8; XATTR_BYTES_MAX];
    // SAFETY: both texts end with a zero, and there is room for so many bytes.
    let len =
        unsafe { libc::lgetxattr(name.as_ptr(), XATTR.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
    match usize::try_from(len) {
        Ok(len) => Link::parse(&value[..len]).map(Some),
        Err(_negative) => match last_error() {
            Errno(libc::ENODATA | libc::ENOTSUP) => Ok(None),
            other => Err(other),
        },
    }
}

fn set_link(path: &Path, link: &UnsLink) -> PosixResult<()> {
    let (name, value) = (c_path(path)?, link.to_string());
    // SAFETY: both texts end with a zero, and the value has so many bytes.
    let code = unsafe {
        libc::lsetxattr(
            name.as_ptr(),
            XATTR.as_ptr(),
            value.as_ptr().cast(),
            value.len() + usize::from(false),
            0,
        )
    };
    if code == 0 { Ok(()) } else { Err(last_error()) }
}

/// The parts of `daos://pool/container/path`, or of the same without its beginning. With it a pool alone is one, too: programs
/// make a container there.
fn direct(path: &[u8], needs_prefix: bool) -> PosixResult<Option<(Link, Vec<u8>)>> {
    let rest = match (path.strip_prefix(b"daos://"), needs_prefix) {
        (Some(rest), _) => rest,
        (None, true) => return Ok(None),
        (None, false) => path.strip_prefix(b"/").ok_or(EINVAL)?,
    };
    let text = core::str::from_utf8(rest).map_err(|_other| EINVAL)?;
    let may_be_pool = path.starts_with(b"daos://");
    let (pool, rest) = text.split_once('/').unwrap_or((text, ""));
    let (cont, inside) = rest.split_once('/').unwrap_or((rest, ""));
    let is_pool = may_be_pool && rest.is_empty();
    if pool.is_empty() || (cont.is_empty() && !is_pool) || pool.len() > 127 || cont.len() > 127 {
        return Err(EINVAL);
    }
    let inside = inside.trim_end_matches('/');
    let path = if inside.is_empty() { Vec::new() } else { format!("/{inside}").into_bytes() };
    Ok(Some((Link { layout: 0, pool: pool.to_owned(), cont: cont.to_owned() }, path)))
}

/// Finds what a path of the system, or one of the directories above it, stands for; and what is left of the path.
fn search(path: &Path, climbs: bool, is_checked: bool) -> PosixResult<(Link, Vec<u8>)> {
    let whole = match std::fs::canonicalize(path) {
        Ok(whole) => whole,
        Err(error) if is_checked => return Err(Errno(error.raw_os_error().unwrap_or(libc::EIO))),
        Err(_) => std::path::absolute(path).map_err(|_empty| EINVAL)?,
    };
    let mut at: &Path = &whole;
    loop {
        match link_at(at) {
            Ok(Some(link)) => {
                let rest = whole.strip_prefix(at).map_err(|_elsewhere| EINVAL)?.as_os_str().as_bytes();
                let inside = if rest.is_empty() { Vec::new() } else { [b"/", rest].concat() };
                return Ok((link, inside));
            }
            Ok(None) => {}
            // What is not there may be inside of a container.
            Err(ENOENT | super::ENOTDIR) if !is_checked => {}
            Err(other) => return Err(other),
        }
        at = match at.parent() {
            Some(above) if climbs => above,
            _ => return Err(Errno(libc::ENODATA)),
        };
    }
}

/// Tells which pool and container a path means, and what of it is inside.
#[unsafe(no_mangle)]
extern "C" fn duns_resolve_path(path: Text, attr: Out<CUns>) -> c_int {
    errno(|| {
        let path = path.bytes()?;
        let mut uns = attr.get()?;
        let needs_prefix = !uns.no_prefix && uns.flags & NO_PREFIX == 0;
        let found = match direct(path, needs_prefix)? {
            Some(found) => found,
            None => {
                let (climbs, is_checked) =
                    (uns.flags & NO_REVERSE_LOOKUP == 0, uns.flags & NO_CHECK_PATH == 0);
                search(&PathBuf::from(OsStr::from_bytes(path)), climbs, is_checked)?
            }
        };
        fill(&mut uns, &found.0);
        uns.rel_path = if found.1.is_empty() { core::ptr::null_mut() } else { raw::duplicate(&found.1)? };
        Ok(attr.set(uns)?)
    })
}

fn fill(uns: &mut CUns, link: &Link) {
    uns.layout = link.layout;
    (uns.pool, uns.cont) = (fixed(&link.pool), fixed(&link.cont));
    // Ignored: a label is no UUID, and has none here.
    let uuid = |text: &str| Uuid::try_parse(text).map(CUuid::from).unwrap_or_default();
    (uns.puuid, uns.cuuid) = (uuid(&link.pool), uuid(&link.cont));
}

/// Tells which pool and container the value of the extended attribute means.
#[unsafe(no_mangle)]
extern "C" fn duns_parse_attr(value: Out<u8>, len: u64, attr: Out<CUns>) -> c_int {
    errno(|| {
        let len = super::size(len)?;
        if len > XATTR_BYTES_MAX {
            return Err(EINVAL);
        }
        let link = Link::parse(value.list(len)?)?;
        let mut uns = attr.get()?;
        fill(&mut uns, &link);
        Ok(attr.set(uns)?)
    })
}

/// Makes a container, and a path that stands for it.
#[unsafe(no_mangle)]
extern "C" fn duns_create_path(poh: Handle, path: Text, attr: Out<CUns>) -> c_int {
    errno(|| {
        let pool = handle::pool(poh)?;
        let path = PathBuf::from(OsStr::from_bytes(path.bytes()?));
        let mut uns = attr.get()?;
        if uns.layout == 0 || uns.layout >= UNS_LAYOUT_COUNT {
            return Err(EINVAL);
        }
        make_path(&path, uns.layout)?;
        let made = if uns.layout == POSIX {
            make_cont(&pool, None, Some(&attrs_of(&uns)))
        } else {
            cont::create_for(&pool, None, uns.props, Some(uns.layout.into())).map_err(Errno::from)
        };
        let linked = made.and_then(|cont| {
            let link = UnsLink { layout: uns.layout, pool: pool.uuid, cont };
            if let Err(error) = set_link(&path, &link) {
                // Ignored: that the path could not be made is what the caller hears.
                let _still_there = pool.client.destroy_container(&ContName::Uuid(cont), true);
                return Err(error);
            }
            Ok(Link::from(link))
        });
        match linked {
            Ok(link) => {
                fill(&mut uns, &link);
                Ok(attr.set(uns)?)
            }
            Err(error) => {
                // Ignored: as above.
                let _still_there = remove_path(&path);
                Err(error)
            }
        }
    })
}

fn attrs_of(uns: &CUns) -> CAttr {
    CAttr {
        id: 0,
        chunk_size: uns.chunk_size,
        oclass: uns.oclass,
        props: uns.props,
        mode: 0,
        dir_oclass: uns.dir_oclass,
        file_oclass: uns.file_oclass,
        hints: uns.hints,
    }
}

/// Makes a directory for files, a file for everything else.
fn make_path(path: &Path, layout: u32) -> PosixResult<()> {
    let made =
        if layout == POSIX { std::fs::create_dir(path) } else { std::fs::File::create_new(path).map(drop) };
    made.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))
}

fn remove_path(path: &Path) -> PosixResult<()> {
    let removed = if path.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) };
    removed.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))
}

/// Destroys the container that a path stands for, and removes the path.
#[unsafe(no_mangle)]
extern "C" fn duns_destroy_path(poh: Handle, path: Text) -> c_int {
    errno(|| {
        let pool = handle::pool(poh)?;
        let path = PathBuf::from(OsStr::from_bytes(path.bytes()?));
        let link = link_at(&path)?.ok_or(Errno(libc::ENODATA))?;
        if Uuid::try_parse(&link.pool) != Ok(pool.uuid) {
            return Err(EINVAL);
        }
        match pool.client.destroy_container(&cont::name(&link.cont)?, true) {
            // A path whose container is gone is removed all the same.
            Err(dolmen_client::Error::NotFound) => {}
            other => other?,
        }
        remove_path(&path)
    })
}

/// Makes a path that stands for a container that there is.
#[unsafe(no_mangle)]
extern "C" fn duns_link_cont(poh: Handle, cont: Text, path: Text) -> c_int {
    errno(|| {
        let pool = handle::pool(poh)?;
        let path = PathBuf::from(OsStr::from_bytes(path.bytes()?));
        let opened = pool.client.open_container(&cont::name(cont.str()?)?)?;
        let layout = match opened.props(&[PropId::CO_LAYOUT_TYPE])?.get(&PropId::CO_LAYOUT_TYPE) {
            Some(PropValue::Number(layout)) => u32::try_from(*layout).map_err(|_wide| EINVAL)?,
            _ => 0,
        };
        make_path(&path, layout)?;
        let link = UnsLink { layout, pool: pool.uuid, cont: opened.uuid() };
        let linked = set_link(&path, &link);
        if linked.is_err() {
            // Ignored: that it could not be linked is what the caller hears.
            let _still_there = remove_path(&path);
        }
        linked
    })
}

/// Says in which system a path is to be looked for.
#[unsafe(no_mangle)]
extern "C" fn duns_set_sys_name(attr: Out<CUns>, sys: Text) -> c_int {
    errno(|| {
        let mut uns = attr.get()?;
        let name = sys.bytes()?;
        let copy = raw::duplicate(name)?;
        raw::release(uns.sys);
        uns.sys = copy;
        Ok(attr.set(uns)?)
    })
}

/// Gives back the texts that were made for an attribute.
#[unsafe(no_mangle)]
extern "C" fn duns_destroy_attr(attr: Out<CUns>) {
    silent((), || {
        let Ok(mut uns) = attr.get() else { return };
        raw::release(uns.rel_path);
        raw::release(uns.sys);
        (uns.rel_path, uns.sys) = (core::ptr::null_mut(), core::ptr::null_mut());
        attr.set_if_wanted(uns);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direct_paths_have_three_parts() {
        let (link, inside) = direct(b"daos://p/c/a/b/", true).ok().flatten().unwrap();
        assert_eq!((&*link.pool, &*link.cont, &inside[..]), ("p", "c", &b"/a/b"[..]));
        let (link, inside) = direct(b"/p/c", false).ok().flatten().unwrap();
        assert_eq!((&*link.pool, &*link.cont, &inside[..]), ("p", "c", &b""[..]));
        assert_eq!(direct(b"/p/c", true), Ok(None));
        for pool in [&b"daos://p"[..], b"daos://p/"] {
            let (link, inside) = direct(pool, true).ok().flatten().unwrap();
            assert_eq!((&*link.pool, &*link.cont, &inside[..]), ("p", "", &b""[..]));
        }
        for bad in [&b"daos://"[..], b"daos:///c", b"daos://p//a"] {
            assert_eq!(direct(bad, true), Err(EINVAL));
        }
        assert_eq!(direct(b"/p", false), Err(EINVAL));
    }
}
