//! Properties of pools and containers: lists of a C program, and what they mean to the store.

mod text;

use crate::acl::{self, CAcl};
use crate::error::{Der, Result, der, silent};
use crate::raw::{In, Out, Text, allocate, duplicate, release};
use crate::types::RankList;
use core::ffi::{c_char, c_int};
use dolmen_client::{PropId, PropValue, Props};

/// A property of a C program: a number, or the address of a text or of something else.
//= daos:src/include/daos_prop.h struct daos_prop_entry
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Entry {
    pub(crate) kind: u32,
    pub(crate) flags: u16,
    pub(crate) reserved: u16,
    pub(crate) value: Word,
}

/// What an entry holds.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union Word {
    number: u64,
    address: *mut u8,
}

/// A list of properties of a C program.
//= daos:src/include/daos_prop.h daos_prop_t
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct List {
    pub(crate) nr: u32,
    reserved: u32,
    pub(crate) entries: Out<Entry>,
}

const _: () = assert!(size_of::<Entry>() == 16);
const _: () = assert!(size_of::<List>() == 16);

/// A list has at most so many.
//= daos:src/include/daos_prop.h DAOS_PROP_ENTRIES_MAX_NR
const ENTRIES_MAX: u32 = 128;
/// An entry of an answer that has no value.
pub(crate) const NOT_SET: u16 = 1;

//= daos:src/include/daos_prop.h DAOS_PROP_PO_* and DAOS_PROP_CO_*
pub(crate) const PO_LABEL: u32 = 1;
pub(crate) const PO_ACL: u32 = 2;
pub(crate) const PO_OWNER: u32 = 6;
pub(crate) const PO_OWNER_GROUP: u32 = 7;
pub(crate) const PO_SVC_LIST: u32 = 8;
pub(crate) const CO_LABEL: u32 = 4097;
pub(crate) const CO_ACL: u32 = 4106;
pub(crate) const CO_OWNER: u32 = 4109;
pub(crate) const CO_OWNER_GROUP: u32 = 4110;
pub(crate) const CO_ROOTS: u32 = 4113;
pub(crate) const CO_STATUS: u32 = 4114;
pub(crate) const CO_ALLOCED_OID: u32 = 4115;
const CO_GLOBAL_VERSION: u32 = 4119;
const CO_OBJ_VERSION: u32 = 4121;
const ROOTS_BYTES: usize = 64;
const TEXT_BYTES_MAX: usize = 255;

/// What the value of a property is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Number,
    Text,
    Acl,
    Roots,
    Ranks,
}

fn shape(kind: u32) -> Shape {
    match kind {
        PO_LABEL | PO_OWNER | PO_OWNER_GROUP | CO_LABEL | CO_OWNER | CO_OWNER_GROUP => Shape::Text,
        PO_ACL | CO_ACL => Shape::Acl,
        CO_ROOTS => Shape::Roots,
        PO_SVC_LIST => Shape::Ranks,
        _ => Shape::Number,
    }
}

/// A value that an entry can have.
pub(crate) enum Value {
    Number(u64),
    Text(String),
    Bytes(Vec<u8>),
    Ranks(Vec<u32>),
}

impl Entry {
    pub(crate) fn number(&self) -> u64 {
        // SAFETY: every bit pattern is a number.
        unsafe { self.value.number }
    }

    fn address(&self) -> Out<u8> {
        // SAFETY: every bit pattern is an address; whether it may be followed is the C program's promise.
        Out::of(unsafe { self.value.address })
    }

    fn with_number(self, number: u64) -> Self {
        Self { value: Word { number }, ..self }
    }

    fn with_address<T>(self, address: *mut T) -> Self {
        Self { value: Word { address: address.cast() }, ..self }
    }

    pub(crate) fn text<'a>(&self) -> Result<&'a str> {
        Text::of(self.address().as_ptr().cast()).str()
    }

    pub(crate) fn acl(&self) -> Out<CAcl> {
        Out::of(self.address().as_ptr().cast())
    }

    /// Frees what it holds, and holds nothing.
    fn emptied(self) -> Self {
        match shape(self.kind) {
            Shape::Number => return self.with_number(0),
            Shape::Ranks => {
                let list: Out<RankList> = Out::of(self.address().as_ptr().cast());
                if let Ok(list) = list.get() {
                    release(list.ranks);
                }
                release(list.as_ptr());
            }
            Shape::Text | Shape::Acl | Shape::Roots => release(self.address().as_ptr()),
        }
        self.with_number(0)
    }

    /// With a value of its own.
    fn given(self, value: &Value) -> Result<Self> {
        let set = Self { flags: self.flags & !NOT_SET, ..self };
        Ok(match value {
            Value::Number(number) => set.with_number(*number),
            Value::Text(text) => set.with_address(duplicate(text.as_bytes())?),
            Value::Bytes(bytes) => set.with_address(acl::give::<u8>(bytes)?.as_ptr()),
            Value::Ranks(ranks) => {
                let memory: *mut u32 = allocate(size_of_val(&ranks[..]))?.cast();
                Out::of(memory).copy_from(ranks)?;
                let list: *mut RankList = allocate(size_of::<RankList>())?.cast();
                let nr = u32::try_from(ranks.len()).map_err(|_wide| Der::OVERFLOW)?;
                Out::of(list).set(RankList { ranks: memory, nr })?;
                set.with_address(list)
            }
        })
    }

    /// A copy with memory of its own.
    fn copied(&self) -> Result<Self> {
        if self.number() == 0 {
            return Ok(*self);
        }
        match shape(self.kind) {
            Shape::Number => Ok(*self),
            Shape::Text => self.given(&Value::Text(self.text()?.to_owned())),
            Shape::Acl => self.given(&Value::Bytes(acl::bytes_of(self.acl())?.to_vec())),
            Shape::Roots => self.given(&Value::Bytes(self.address().list(ROOTS_BYTES)?.to_vec())),
            Shape::Ranks => {
                let list: Out<RankList> = Out::of(self.address().as_ptr().cast());
                let RankList { ranks, nr } = list.get()?;
                self.given(&Value::Ranks(Out::of(ranks).list(nr as usize)?.to_vec()))
            }
        }
    }
}

/// The entries of a list; none for NULL.
///
/// # Errors
/// `INVAL` for more entries than any list has.
pub(crate) fn entries<'a>(list: Out<List>) -> Result<&'a [Entry]> {
    if list.is_null() {
        return Ok(&[]);
    }
    let List { nr, entries, .. } = list.get()?;
    if nr > ENTRIES_MAX { Err(Der::INVAL) } else { entries.list(nr as usize) }
}

/// What a program wants a container to have.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) label: Option<String>,
    pub(crate) props: Props,
    /// Object numbers below this are taken already: by the objects of which this container is to be a copy.
    pub(crate) taken_oids: u64,
}

/// The properties of a list, as the store has them.
///
/// # Errors
/// `INVAL` for one that is no container's, or that has a value of the wrong kind.
pub(crate) fn wanted(list: Out<List>) -> Result<Wanted> {
    let mut wanted = Wanted::default();
    for entry in entries(list)?.iter().filter(|entry| entry.flags & NOT_SET == 0) {
        let value = match (entry.kind, shape(entry.kind)) {
            (CO_LABEL, _) => {
                wanted.label = Some(entry.text()?.to_owned());
                continue;
            }
            (CO_ALLOCED_OID, _) => {
                wanted.taken_oids = entry.number();
                continue;
            }
            // What the store computes: nothing to set.
            (CO_GLOBAL_VERSION | CO_OBJ_VERSION, _) => continue,
            // Flags and map version say since when; the store knows only whether.
            (CO_STATUS, _) => PropValue::Number(entry.number() & 0xffff),
            (_, Shape::Number) => PropValue::Number(entry.number()),
            (_, Shape::Text) => PropValue::Text(entry.text()?.to_owned()),
            (_, Shape::Acl) => PropValue::Bytes(acl::read(entry.acl())?.encode()),
            (_, Shape::Roots) => PropValue::Bytes(entry.address().list(ROOTS_BYTES)?.to_vec()),
            (_, Shape::Ranks) => return Err(Der::INVAL),
        };
        wanted.props.insert(PropId(entry.kind), value);
    }
    Ok(wanted)
}

/// Gives a program the properties that its list names, or all of them if it names none: of those what may not be told to it
/// is said not to be set.
///
/// # Errors
/// `NO_PERM` for a list that it names and may not read; `NONEXIST` for one that there is not; `NOMEM`.
pub(crate) fn tell(list: Out<List>, all: &[u32], value: impl Fn(u32) -> Option<Value>) -> Result<()> {
    if list.is_null() {
        return Ok(());
    }
    let own = list.get()?;
    let names_none = own.nr == 0 || own.entries.is_null();
    if names_none {
        let made = make(all)?;
        list.set(List { nr: made.nr, reserved: own.reserved, entries: made.entries })?;
    }
    let List { entries: at, .. } = list.get()?;
    for (index, entry) in entries(list)?.iter().enumerate() {
        match value(entry.kind) {
            Some(told) => at.at(index).set(entry.given(&told)?)?,
            None if names_none => at.at(index).set(Entry { flags: entry.flags | NOT_SET, ..*entry })?,
            // Everything has a list: one that is not told is one that the service has left out.
            None if matches!(entry.kind, PO_ACL | CO_ACL) => return Err(Der::NO_PERM),
            None => return Err(Der::NONEXIST),
        }
    }
    Ok(())
}

/// A list with entries of these kinds, which hold nothing yet.
pub(crate) fn make(kinds: &[u32]) -> Result<List> {
    let entries: *mut Entry = allocate(kinds.len() * size_of::<Entry>())?.cast();
    let entries = Out::of(entries);
    for (index, &kind) in kinds.iter().enumerate() {
        entries.at(index).set(Entry { kind, flags: 0, reserved: 0, value: Word { number: 0 } })?;
    }
    Ok(List { nr: u32::try_from(kinds.len()).map_err(|_wide| Der::OVERFLOW)?, reserved: 0, entries })
}

/// A list as memory of a C program.
pub(crate) fn boxed(list: List) -> Result<Out<List>> {
    let memory = Out::of(allocate(size_of::<List>())?.cast::<List>());
    memory.set(list)?;
    Ok(memory)
}

/// A list of so many properties, all zero; NULL for more than a list has.
#[unsafe(no_mangle)]
extern "C" fn daos_prop_alloc(count: u32) -> Out<List> {
    silent(Out::NULL, || {
        if count > ENTRIES_MAX {
            return Out::NULL;
        }
        let list = if count == 0 {
            Ok(List { nr: 0, reserved: 0, entries: Out::NULL })
        } else {
            make(&vec![0; count as usize])
        };
        list.and_then(boxed).unwrap_or(Out::NULL)
    })
}

/// Frees the values of a list, but not the list.
#[unsafe(no_mangle)]
extern "C" fn daos_prop_fini(list: Out<List>) {
    silent((), || {
        let Ok(own) = list.get() else { return };
        for (index, entry) in entries(list).unwrap_or(&[]).iter().enumerate() {
            own.entries.at(index).set_if_wanted(entry.emptied());
        }
        release(own.entries.as_ptr());
        list.set_if_wanted(List { nr: 0, reserved: 0, entries: Out::NULL });
    });
}

/// Frees a list with its values.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn daos_prop_free(list: Out<List>) {
    daos_prop_fini(list);
    release(list.as_ptr());
}

/// A list of what both have, with values of its own; those of `new` win.
fn merged(old: Out<List>, new: Out<List>) -> Result<Out<List>> {
    if old.is_null() && new.is_null() {
        return Err(Der::INVAL);
    }
    let mut all: Vec<Entry> = Vec::new();
    for entry in entries(old)?.iter().chain(entries(new)?) {
        let copy = entry.copied()?;
        match all.iter_mut().find(|other| other.kind == entry.kind) {
            Some(other) => {
                *other = {
                    other.emptied();
                    copy
                }
            }
            None => all.push(copy),
        }
    }
    if all.len() > ENTRIES_MAX as usize {
        return Err(Der::INVAL);
    }
    let list = make(&vec![0; all.len()])?;
    list.entries.copy_from(&all)?;
    boxed(list)
}

/// A list of what both have; NULL if there is none.
#[unsafe(no_mangle)]
extern "C" fn daos_prop_merge(old: Out<List>, new: Out<List>) -> Out<List> {
    silent(Out::NULL, || merged(old, new).unwrap_or(Out::NULL))
}

/// A list of what both have.
#[unsafe(no_mangle)]
extern "C" fn daos_prop_merge2(old: Out<List>, new: Out<List>, out: Out<Out<List>>) -> c_int {
    der(|| {
        let out = out.check()?;
        out.set(merged(old, new)?)
    })
}

/// The list that a text describes.
#[unsafe(no_mangle)]
extern "C" fn daos_prop_from_str(words: In<u8>, len: u64, out: Out<Out<List>>) -> c_int {
    der(|| {
        let len = usize::try_from(len).map_err(|_wide| Der::INVAL)?;
        let out = out.check()?;
        let bytes = words.list(len)?;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(len);
        let parsed = text::parse(core::str::from_utf8(&bytes[..end]).map_err(|_other| Der::INVAL)?)?;
        let kinds: Vec<u32> = parsed.iter().map(|(kind, _)| *kind).collect();
        let list = make(&kinds)?;
        for (index, (_, value)) in parsed.iter().enumerate() {
            let at = list.entries.at(index);
            at.set(at.get()?.given(value)?)?;
        }
        out.set(boxed(list)?)
    })
}

/// Where a list has a property.
fn position(list: Out<List>, kind: u32) -> Result<Out<Entry>> {
    let index = entries(list)?.iter().position(|entry| entry.kind == kind).ok_or(Der::NONEXIST)?;
    Ok(list.get()?.entries.at(index))
}

/// The entry of a property; NULL if there is none.
#[unsafe(no_mangle)]
extern "C" fn daos_prop_entry_get(list: Out<List>, kind: u32) -> Out<Entry> {
    silent(Out::NULL, || position(list, kind).unwrap_or(Out::NULL))
}

fn set_text(entry: Out<Entry>, text: In<u8>, len: u64) -> Result<()> {
    let own = entry.get()?;
    let len = usize::try_from(len).ok().filter(|&len| len <= TEXT_BYTES_MAX).ok_or(Der::INVAL)?;
    if shape(own.kind) != Shape::Text || text.is_null() {
        return Err(Der::INVAL);
    }
    let bytes = text.list(len)?;
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(len);
    let copy = duplicate(&bytes[..end])?;
    entry.set(own.emptied().with_address::<c_char>(copy))
}

/// Copies a text into the entry of a property.
#[unsafe(no_mangle)]
extern "C" fn daos_prop_set_str(list: Out<List>, kind: u32, text: In<u8>, len: u64) -> c_int {
    der(|| set_text(position(list, kind)?, text, len))
}

/// Copies a text into an entry.
#[unsafe(no_mangle)]
extern "C" fn daos_prop_entry_set_str(entry: Out<Entry>, text: In<u8>, len: u64) -> c_int {
    der(|| set_text(entry, text, len))
}

fn set_bytes(entry: Out<Entry>, bytes: In<u8>, len: u64) -> Result<()> {
    let own = entry.get()?;
    let len = usize::try_from(len).ok().filter(|&len| len <= acl::LIST_BYTES_MAX).ok_or(Der::INVAL)?;
    if !matches!(shape(own.kind), Shape::Acl | Shape::Roots) || bytes.is_null() {
        return Err(Der::INVAL);
    }
    let copy = acl::give::<u8>(bytes.list(len)?)?;
    entry.set(own.emptied().with_address(copy.as_ptr()))
}

/// Copies bytes into the entry of a property.
#[unsafe(no_mangle)]
extern "C" fn daos_prop_set_ptr(list: Out<List>, kind: u32, bytes: In<u8>, len: u64) -> c_int {
    der(|| set_bytes(position(list, kind)?, bytes, len))
}

/// Copies bytes into an entry.
#[unsafe(no_mangle)]
extern "C" fn daos_prop_entry_set_ptr(entry: Out<Entry>, bytes: In<u8>, len: u64) -> c_int {
    der(|| set_bytes(entry, bytes, len))
}

/// Copies so many bytes of one entry's value to another.
#[unsafe(no_mangle)]
extern "C" fn daos_prop_entry_dup_ptr(to: Out<Entry>, from: Out<Entry>, len: usize) -> c_int {
    der(|| set_bytes(to, from.get()?.address().as_in(), len as u64))
}

/// Copies the root objects of one entry to another.
#[unsafe(no_mangle)]
extern "C" fn daos_prop_entry_dup_co_roots(to: Out<Entry>, from: Out<Entry>) -> c_int {
    der(|| set_bytes(to, from.get()?.address().as_in(), ROOTS_BYTES as u64))
}

/// Whether two entries have the same list: 0 if so.
#[unsafe(no_mangle)]
extern "C" fn daos_prop_entry_cmp_acl(one: Out<Entry>, other: Out<Entry>) -> c_int {
    der(|| {
        let (one, other) = (one.get()?.acl(), other.get()?.acl());
        if acl::bytes_of(one)? == acl::bytes_of(other)? { Ok(()) } else { Err(Der::MISMATCH) }
    })
}

/// Whether the value of an entry is a text.
#[unsafe(no_mangle)]
extern "C" fn daos_prop_has_str(entry: Out<Entry>) -> bool {
    silent(false, || entry.get().is_ok_and(|entry| shape(entry.kind) == Shape::Text))
}

/// Whether the value of an entry is an address of something else.
#[unsafe(no_mangle)]
extern "C" fn daos_prop_has_ptr(entry: Out<Entry>) -> bool {
    let is_address = |entry: Entry| matches!(shape(entry.kind), Shape::Acl | Shape::Roots | Shape::Ranks);
    silent(false, || entry.get().is_ok_and(is_address))
}
