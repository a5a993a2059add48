//! Access control lists: the functions of C programs.

use crate::error::{Der, Result, der, number, silent};
use crate::raw::{In, Out, Text, allocate, duplicate, release};
use core::ffi::{c_char, c_int};
pub(crate) use dolmen_codec::acl::{Acl, User, Who, is_name as is_principal};
use dolmen_codec::acl::{Entry, principal};

/// A list fits one message.
pub(crate) const LIST_BYTES_MAX: usize = 65_536;

/// A list of a C program: its first eight bytes, the entries follow.
//= daos:src/include/daos_security.h struct daos_acl
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CAcl {
    version: u16,
    reserved: u16,
    len: u32,
}

/// An entry of a C program; its name follows.
//= daos:src/include/daos_security.h struct daos_ace
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CAce {
    access: u8,
    who: u8,
    name_len: u16,
    flags: u16,
    reserved: u16,
    perms: [u64; 3],
}

const _: () = assert!(size_of::<CAcl>() == 8);
const _: () = assert!(size_of::<CAce>() == 32);

/// The bytes of a list of a C program.
///
/// # Errors
/// `INVAL` for NULL or a length that no list has.
pub(crate) fn bytes_of<'a>(acl: Out<CAcl>) -> Result<&'a [u8]> {
    let len = acl.get()?.len as usize;
    if len > LIST_BYTES_MAX { Err(Der::INVAL) } else { acl.bytes().list(size_of::<CAcl>() + len) }
}

/// The list of a C program.
///
/// # Errors
/// `INVAL` if it is not valid.
pub(crate) fn read(acl: Out<CAcl>) -> Result<Acl> {
    Ok(Acl::decode(bytes_of(acl)?)?)
}

fn read_ace(ace: Out<CAce>) -> Result<Entry> {
    let name_len = usize::from(ace.get()?.name_len);
    Ok(Entry::decode(ace.bytes().list(size_of::<CAce>() + name_len)?)?.0)
}

/// Bytes as memory of a C program.
///
/// # Errors
/// `NOMEM`.
pub(crate) fn give<T: Copy>(bytes: &[u8]) -> Result<Out<T>> {
    let memory = allocate(bytes.len())?;
    Out::of(memory.cast::<u8>()).copy_from(bytes)?;
    Ok(Out::of(memory.cast()))
}

/// What could be made, or NULL.
fn or_null<T: Copy>(made: impl FnOnce() -> Result<Out<T>>) -> Out<T> {
    silent(Out::NULL, || made().unwrap_or(Out::NULL))
}

/// A list of copies of these entries; NULL if they make none.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_create(aces: In<Out<CAce>>, count: u16) -> Out<CAcl> {
    or_null(|| {
        let aces: Result<Vec<Entry>> =
            aces.list(usize::from(count))?.iter().map(|&ace| read_ace(ace)).collect();
        give(&Acl::new(aces?)?.encode())
    })
}

/// A copy of a list.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_dup(acl: Out<CAcl>) -> Out<CAcl> {
    or_null(|| give(bytes_of(acl)?))
}

/// Frees a list.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_free(acl: Out<CAcl>) {
    release(acl.as_ptr());
}

/// Bytes of a list.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_get_size(acl: Out<CAcl>) -> isize {
    silent(-1, || match bytes_of(acl) {
        Ok(bytes) => isize::try_from(bytes.len()).unwrap_or(-1),
        Err(error) => error.code() as isize,
    })
}

/// The entry after another, or the first; NULL after the last.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_get_next_ace(acl: Out<CAcl>, before: Out<CAce>) -> Out<CAce> {
    or_null(|| {
        let bytes = bytes_of(acl)?;
        let first = acl.bytes().at(size_of::<CAcl>());
        let mut at =
            if before.is_null() { size_of::<CAcl>() } else { before.address().wrapping_sub(acl.address()) };
        if !before.is_null() {
            let rest = bytes.get(at..).ok_or(Der::INVAL)?;
            at += Entry::decode(rest)?.1;
        }
        if at >= bytes.len() {
            return Ok(Out::NULL);
        }
        Ok(Out::of(first.at(at - size_of::<CAcl>()).as_ptr().cast()))
    })
}

fn who_of(kind: u32, name: Text) -> Result<(Who, Option<String>)> {
    let who = Who::from_number(kind).ok_or(Der::INVAL)?;
    let name = if who.text().is_some() { None } else { Some(name.str()?.to_owned()) };
    Ok((who, name))
}

/// Where the entry of a principal is in a list.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_get_ace_for_principal(
    acl: Out<CAcl>,
    kind: u32,
    name: Text,
    ace: Out<Out<CAce>>,
) -> c_int {
    der(|| {
        let own = read(acl)?;
        let (who, name) = who_of(kind, name)?;
        let index = own.find(who, name.as_deref()).ok_or(Der::NONEXIST)?;
        let before: usize = own.entries()[..index].iter().map(|ace| ace.encode().len()).sum();
        ace.set(Out::of(acl.bytes().at(size_of::<CAcl>() + before).as_ptr().cast()))
    })
}

/// Replaces a list of a C program by another.
fn replace(acl: Out<Out<CAcl>>, new: &Acl) -> Result<()> {
    let old = acl.get()?;
    acl.set(give(&new.encode())?)?;
    release(old.as_ptr());
    Ok(())
}

/// Adds a copy of an entry, or replaces that of the same principal; the list may move.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_add_ace(acl: Out<Out<CAcl>>, ace: Out<CAce>) -> c_int {
    der(|| {
        let (mut own, ace) = (read(acl.get()?)?, read_ace(ace)?);
        if !ace.is_valid() {
            return Err(Der::INVAL);
        }
        own.put(ace);
        replace(acl, &own)
    })
}

/// Removes the entry of a principal; the list may move.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_remove_ace(acl: Out<Out<CAcl>>, kind: u32, name: Text) -> c_int {
    der(|| {
        let mut own = read(acl.get()?)?;
        let (who, name) = who_of(kind, name)?;
        if !own.remove(who, name.as_deref()) {
            return Err(Der::NONEXIST);
        }
        replace(acl, &own)
    })
}

/// Whether a list is one.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_validate(acl: Out<CAcl>) -> c_int {
    der(|| read(acl).map(drop))
}

/// Prints a list.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_dump(acl: Out<CAcl>) {
    silent((), || match read(acl) {
        Ok(acl) => acl.entries().iter().for_each(|ace| println!("{}", ace.verbose())),
        Err(error) => println!("no access control list: {}", error.code()),
    });
}

/// An entry that allows nothing yet; NULL for a principal that is none.
#[unsafe(no_mangle)]
extern "C" fn daos_ace_create(kind: u32, name: Text) -> Out<CAce> {
    or_null(|| {
        let (who, name) = who_of(kind, name)?;
        give(&Entry::new(who, name.as_deref())?.encode())
    })
}

/// Frees an entry.
#[unsafe(no_mangle)]
extern "C" fn daos_ace_free(ace: Out<CAce>) {
    release(ace.as_ptr());
}

/// Bytes of an entry.
#[unsafe(no_mangle)]
extern "C" fn daos_ace_get_size(ace: Out<CAce>) -> isize {
    silent(-1, || match read_ace(ace) {
        Ok(ace) => isize::try_from(ace.encode().len()).unwrap_or(-1),
        Err(error) => error.code() as isize,
    })
}

/// Prints an entry, indented.
#[unsafe(no_mangle)]
extern "C" fn daos_ace_dump(ace: Out<CAce>, tabs: u32) {
    silent((), || match read_ace(ace) {
        Ok(ace) => println!("{}{}", "\t".repeat(tabs.min(64) as usize), ace.verbose()),
        Err(error) => println!("no entry: {}", error.code()),
    });
}

/// Whether an entry says something, and nothing that contradicts itself.
#[unsafe(no_mangle)]
extern "C" fn daos_ace_is_valid(ace: Out<CAce>) -> bool {
    silent(false, || read_ace(ace).is_ok_and(|ace| ace.is_valid()))
}

/// Whether a text is the name of a user or group.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_principal_is_valid(name: Text) -> bool {
    silent(false, || name.str().is_ok_and(is_principal))
}

/// Room for what the system knows of one user or group.
const ENTRY_BYTES: usize = 64 << 10;

/// The name of a user of the system.
pub(crate) fn user_name(uid: u32) -> Result<String> {
    dolmen_env::user_name(uid).ok_or(Der::NONEXIST)
}

/// The name of a group of the system.
pub(crate) fn group_name(gid: u32) -> Result<String> {
    dolmen_env::group_name(gid).ok_or(Der::NONEXIST)
}

/// A principal's name without its domain, as the system knows it.
fn system_name(principal: Text) -> Result<std::ffi::CString> {
    let principal = principal.str()?;
    if !is_principal(principal) {
        return Err(Der::INVAL);
    }
    let name = principal.split('@').next().unwrap_or(principal);
    std::ffi::CString::new(name).map_err(|_zero| Der::INVAL)
}

/// The principal of a user.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_uid_to_principal(uid: u32, name: Out<*mut c_char>) -> c_int {
    der(|| name.check()?.set(duplicate(format!("{}@", user_name(uid)?).as_bytes())?))
}

/// The principal of a group.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_gid_to_principal(gid: u32, name: Out<*mut c_char>) -> c_int {
    der(|| name.check()?.set(duplicate(format!("{}@", group_name(gid)?).as_bytes())?))
}

/// The user that a principal means.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_principal_to_uid(principal: Text, uid: Out<u32>) -> c_int {
    der(|| {
        let (name, uid) = (system_name(principal)?, uid.check()?);
        let mut room = vec![0 as c_char; ENTRY_BYTES];
        let mut entry = core::mem::MaybeUninit::<libc::passwd>::uninit();
        let mut found = core::ptr::null_mut();
        let (to, len) = (room.as_mut_ptr(), room.len());
        // SAFETY: entry, room and result are ours for the call, with their true sizes; the name ends with a zero.
        let failed = unsafe { libc::getpwnam_r(name.as_ptr(), entry.as_mut_ptr(), to, len, &raw mut found) };
        if failed != 0 || found.is_null() {
            return Err(Der::NONEXIST);
        }
        // SAFETY: the call has found an entry, and filled ours.
        uid.set(unsafe { (*found).pw_uid })
    })
}

/// The group that a principal means.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_principal_to_gid(principal: Text, gid: Out<u32>) -> c_int {
    der(|| {
        let (name, gid) = (system_name(principal)?, gid.check()?);
        let mut room = vec![0 as c_char; ENTRY_BYTES];
        let mut entry = core::mem::MaybeUninit::<libc::group>::uninit();
        let mut found = core::ptr::null_mut();
        let (to, len) = (room.as_mut_ptr(), room.len());
        // SAFETY: as in `daos_acl_principal_to_uid`.
        let failed = unsafe { libc::getgrnam_r(name.as_ptr(), entry.as_mut_ptr(), to, len, &raw mut found) };
        if failed != 0 || found.is_null() {
            return Err(Der::NONEXIST);
        }
        // SAFETY: as in `daos_acl_principal_to_uid`.
        gid.set(unsafe { (*found).gr_gid })
    })
}

/// The principal of an entry as text; of this library, or of the entry.
#[unsafe(no_mangle)]
extern "C" fn daos_ace_get_principal_str(ace: Out<CAce>) -> Out<c_char> {
    or_null(|| {
        let own = read_ace(ace)?;
        let special = match own.who() {
            Who::Owner => c"OWNER@",
            Who::OwnerGroup => c"GROUP@",
            Who::Everyone => c"EVERYONE@",
            Who::User | Who::Group => return Ok(Out::of(ace.bytes().at(size_of::<CAce>()).as_ptr().cast())),
        };
        Ok(Out::of(special.as_ptr().cast_mut()))
    })
}

/// The principal that `u:name`, `g:name` or a special name means.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_principal_from_str(text: Text, kind: Out<u32>, name: Out<*mut c_char>) -> c_int {
    der(|| {
        let (text, kind, name) = (text.str()?, kind.check()?, name.check()?);
        let (who, own) = principal(text)?;
        name.set(own.map_or(Ok(core::ptr::null_mut()), |own| duplicate(own.as_bytes()))?)?;
        kind.set(u32::from(who as u8))
    })
}

/// The entry that a text describes.
#[unsafe(no_mangle)]
extern "C" fn daos_ace_from_str(text: Text, ace: Out<Out<CAce>>) -> c_int {
    der(|| ace.check()?.set(give(&Entry::parse(text.str()?)?.encode())?))
}

/// Writes a text with its zero into a buffer.
fn write_text(text: &str, buf: Out<u8>, room: usize) -> Result<()> {
    if room == 0 {
        return Err(Der::INVAL);
    }
    let fits = text.len().min(room - 1);
    buf.copy_from(&text.as_bytes()[..fits])?;
    buf.at(fits).set(0)?;
    if fits == text.len() { Ok(()) } else { Err(Der::TRUNC) }
}

/// The text of an entry.
#[unsafe(no_mangle)]
extern "C" fn daos_ace_to_str(ace: Out<CAce>, buf: Out<u8>, room: usize) -> c_int {
    der(|| {
        let ace = read_ace(ace)?;
        if !ace.is_valid() {
            return Err(Der::INVAL);
        }
        write_text(&ace.text().ok_or(Der::INVAL)?, buf.check()?, room)
    })
}

/// The words for the text of an entry.
#[unsafe(no_mangle)]
extern "C" fn daos_ace_str_get_verbose(text: Text, buf: Out<u8>, room: usize) -> c_int {
    der(|| write_text(&Entry::parse(text.str()?)?.verbose(), buf.check()?, room))
}

/// The list that texts describe.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_from_strs(texts: In<Text>, count: usize, acl: Out<Out<CAcl>>) -> c_int {
    der(|| {
        if count == 0 || count > LIST_BYTES_MAX {
            return Err(Der::INVAL);
        }
        let parse = |text: &Text| Ok(Entry::parse(text.str()?)?);
        let aces: Result<Vec<Entry>> = texts.list(count)?.iter().map(parse).collect();
        acl.check()?.set(give(&Acl::new(aces?)?.encode())?)
    })
}

/// The texts of all entries.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_to_strs(acl: Out<CAcl>, texts: Out<*mut *mut c_char>, count: Out<usize>) -> c_int {
    der(|| {
        let (texts, count) = (texts.check()?, count.check()?);
        let lines: Option<Vec<String>> = read(acl)?.entries().iter().map(Entry::text).collect();
        let lines = lines.ok_or(Der::INVAL)?;
        let array: *mut *mut c_char = allocate(lines.len() * size_of::<*mut c_char>())?.cast();
        for (index, line) in lines.iter().enumerate() {
            Out::of(array).at(index).set(duplicate(line.as_bytes())?)?;
        }
        texts.set(array)?;
        count.set(lines.len())
    })
}

/// Writes the texts of all entries to a stream, a line each.
#[unsafe(no_mangle)]
extern "C" fn daos_acl_to_stream(stream: Out<u8>, acl: Out<CAcl>, verbose: bool) -> c_int {
    number(|| {
        if stream.is_null() {
            return Err(Der::INVAL);
        }
        let mut all = String::new();
        for ace in read(acl)?.entries() {
            if verbose {
                all = all + "# " + &ace.verbose() + "\n";
            }
            all = all + &ace.text().ok_or(Der::INVAL)? + "\n";
        }
        let all = std::ffi::CString::new(all).map_err(|_zero| Der::INVAL)?;
        // SAFETY: the stream is the caller's open one, and the text ends with a zero.
        let written = unsafe { libc::fputs(all.as_ptr(), stream.as_ptr().cast()) };
        if written < 0 { Err(Der::IO) } else { Ok(0) }
    })
}

/// # Errors
/// `NONEXIST` unless the system knows the user or group of this name.
pub(crate) fn check_known(principal: &str, is_group: bool) -> Result<()> {
    let name = std::ffi::CString::new(principal).map_err(|_zero| Der::INVAL)?;
    let (name, mut id) = (Text::of(name.as_ptr()), 0_u32);
    let id = Out::of(&raw mut id);
    let known =
        if is_group { daos_acl_principal_to_gid(name, id) } else { daos_acl_principal_to_uid(name, id) };
    crate::io::code(known)
}
