//! Access control lists, laid out as a container's property has them: who may do what.
//!
//! Invariants: entries are in the order of their principals' kinds; no principal has two; a list that breaks a rule is not
//! read.

use dolmen_types::{Error, Invalid, Result};

/// Whom an entry is about. Persistent: never renumber.
//= daos:src/include/daos_security.h enum daos_acl_principal_type
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Who {
    /// The owner.
    Owner = 0,
    /// A user, by name.
    User = 1,
    /// The owner's group.
    OwnerGroup = 2,
    /// A group, by name.
    Group = 3,
    /// Whoever no other entry is about.
    Everyone = 4,
}

const ALL: [Who; 5] = [Who::Owner, Who::User, Who::OwnerGroup, Who::Group, Who::Everyone];

impl Who {
    /// The principal of this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        ALL.into_iter().find(|&who| u32::from(who as u8) == number)
    }

    /// What stands for it in text; `None` for those that have names.
    #[must_use]
    pub fn text(self) -> Option<&'static str> {
        match self {
            Self::Owner => Some("OWNER@"),
            Self::OwnerGroup => Some("GROUP@"),
            Self::Everyone => Some("EVERYONE@"),
            Self::User | Self::Group => None,
        }
    }
}

/// Kinds of access, by bit, with their letters and words. Persistent: never renumber.
//= daos:src/include/daos_security.h enum daos_acl_access_type
const ACCESS: [(u8, char, &str); 3] = [(1, 'A', "Allow"), (2, 'U', "Audit"), (4, 'L', "Alarm")];
/// Flags, by bit, with their letters and words. Persistent: never renumber.
//= daos:src/include/daos_security.h enum daos_acl_flags
const FLAGS: [(u16, char, &str); 4] =
    [(1, 'G', "Group"), (8, 'S', "Access-Success"), (4, 'F', "Access-Failure"), (2, 'P', "Pool-Inherit")];
const FLAG_GROUP: u16 = 1;
const FLAGS_REPORT: u16 = 4 | 8;
/// Permissions, by bit, with their letters and words. Persistent: never renumber.
//= daos:src/include/daos_security.h enum daos_acl_perm
const PERMS: [(u64, char, &str); 9] = [
    (1, 'r', "Read"),
    (2, 'w', "Write"),
    (4, 'c', "Create-Container"),
    (8, 'd', "Delete-Container"),
    (16, 't', "Get-Prop"),
    (32, 'T', "Set-Prop"),
    (64, 'a', "Get-ACL"),
    (128, 'A', "Set-ACL"),
    (256, 'o', "Set-Owner"),
];
const PERMS_ALL: u64 = 511;
/// What an owner may always do: read and change the list.
const OWNER_ALWAYS: u64 = perm::GET_ACL | perm::SET_ACL;

/// Permissions by bit.
//= daos:src/include/daos_security.h enum daos_acl_perm
pub mod perm {
    /// Read; of a pool: connect and query.
    pub const READ: u64 = 1;
    /// Write; of a pool: make and destroy containers.
    pub const WRITE: u64 = 2;
    /// Make containers.
    pub const CREATE: u64 = 4;
    /// Destroy containers.
    pub const DELETE: u64 = 8;
    /// Read properties.
    pub const GET_PROP: u64 = 16;
    /// Set properties.
    pub const SET_PROP: u64 = 32;
    /// Read the list.
    pub const GET_ACL: u64 = 64;
    /// Change the list.
    pub const SET_ACL: u64 = 128;
    /// Give it to somebody else.
    pub const SET_OWNER: u64 = 256;
    /// Those that change a container, its properties, its list or whose it is.
    pub const CHANGES: u64 = WRITE | DELETE | SET_PROP | SET_ACL | SET_OWNER;
    /// All of them.
    pub const ALL: u64 = super::PERMS_ALL;
    /// To use a container's files by way of its engine. No list has it: it follows from the others, and from a property
    /// ([`PropId::CO_FILES`](dolmen_types::PropId::CO_FILES)).
    pub const FILES: u64 = 1 << 32;
}

const HEADER_BYTES: usize = 8;
const ENTRY_BYTES: usize = 32;
const VERSION: u16 = 1;
/// Bytes of a principal's name.
const NAME_BYTES_MAX: usize = 255;

/// What one principal may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    access: u8,
    who: Who,
    flags: u16,
    /// Allowed, audited, alarmed.
    perms: [u64; 3],
    name: Option<String>,
}

/// A list of entries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Acl {
    entries: Vec<Entry>,
}

/// A principal: its kind, and its name if it is one of several of that.
///
/// # Errors
/// `Invalid::Name` unless the text is `OWNER@`, `GROUP@`, `EVERYONE@`, `u:NAME` or `g:NAME`; a name without `@` gets one.
pub fn principal(text: &str) -> Result<(Who, Option<String>)> {
    if let Some(who) = ALL.into_iter().find(|who| who.text() == Some(text)) {
        return Ok((who, None));
    }
    let (who, name) = match text.split_once(':') {
        Some(("u", name)) => (Who::User, name),
        Some(("g", name)) => (Who::Group, name),
        _ => return Err(Invalid::Name.into()),
    };
    Ok((who, Some(named(name)?)))
}

/// The name of a user or group, with the `@` that each has.
///
/// # Errors
/// `Invalid::Name`.
pub fn named(text: &str) -> Result<String> {
    let name = if text.contains('@') { text.to_owned() } else { format!("{text}@") };
    if is_name(&name) { Ok(name) } else { Err(Invalid::Name.into()) }
}

/// Whether a text is the name of a user or group: one `@`, with something before it.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let before = name.split_once('@').filter(|(_, behind)| !behind.contains('@'));
    before.is_some_and(|(before, _)| !before.is_empty()) && name.len() <= NAME_BYTES_MAX
}

impl Entry {
    /// An entry that allows nothing yet.
    ///
    /// # Errors
    /// `Invalid::Name` for a name that is none, or one that does not belong there.
    pub fn new(who: Who, name: Option<&str>) -> Result<Self> {
        let is_right = match (who.text(), name) {
            (None, Some(name)) => is_name(name),
            (Some(_), name) => name.is_none_or(str::is_empty),
            (None, None) => false,
        };
        if !is_right {
            return Err(Invalid::Name.into());
        }
        let flags = if matches!(who, Who::Group | Who::OwnerGroup) { FLAG_GROUP } else { 0 };
        let name = name.filter(|_| who.text().is_none()).map(str::to_owned);
        Ok(Self { access: 0, who, flags, perms: [0; 3], name })
    }

    /// Whom it is about.
    #[must_use]
    pub fn who(&self) -> Who {
        self.who
    }

    /// Whom it is about, in text.
    #[must_use]
    pub fn principal(&self) -> &str {
        self.who.text().or(self.name.as_deref()).unwrap_or("")
    }

    /// Reads `A:G:GROUP@:rw`: kinds of access, flags, principal, permissions.
    ///
    /// # Errors
    /// `Invalid::Property`.
    pub fn parse(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let [access, flags, principal, perms] = parts[..] else { return Err(wrong()) };
        let access: u8 = letters(access, &ACCESS)?;
        let flags: u16 = letters(flags, &FLAGS)?;
        let perms: u64 = letters(perms, &PERMS)?;
        let of_name = if flags & FLAG_GROUP == 0 { Who::User } else { Who::Group };
        let who = ALL.into_iter().find(|who| who.text() == Some(principal)).unwrap_or(of_name);
        let name = (who == of_name).then(|| principal.to_owned());
        let perms = ACCESS.map(|(bit, ..)| if access & bit == 0 { 0 } else { perms });
        let entry = Self { access, who, flags, perms, name };
        if entry.is_valid() { Ok(entry) } else { Err(wrong()) }
    }

    /// As [`Entry::parse`] reads it; `None` if the kinds of access differ in what they are about.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let mut own = ACCESS.iter().zip(self.perms).filter(|((bit, ..), _)| self.access & bit != 0);
        let perms = own.next().map_or(0, |(_, perms)| perms);
        if own.any(|(_, other)| other != perms) {
            return None;
        }
        let letters = |rows: Vec<Row>| rows.into_iter().map(|row| row.0).collect::<String>();
        let (access, flags) = (letters(among(self.access, &ACCESS)), letters(among(self.flags, &FLAGS)));
        let perms = letters(among(perms, &PERMS));
        Some(format!("{access}:{flags}:{}:{perms}", self.principal()))
    }

    /// The entry in words.
    #[must_use]
    pub fn verbose(&self) -> String {
        let all = self.perms.iter().fold(0, |all, perms| all | perms);
        let words = |rows: Vec<Row>| rows.into_iter().map(|row| row.1).collect::<Vec<_>>().join("/");
        let (access, flags) = (words(among(self.access, &ACCESS)), words(among(self.flags, &FLAGS)));
        let perms = if all == 0 { "No Access".to_owned() } else { words(among(all, &PERMS)) };
        format!("{access}:{flags}:{}:{perms}", self.principal())
    }

    /// Whether the entry says something, and nothing that contradicts itself.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let is_known = (1..8).contains(&self.access) && self.flags < 16;
        let is_group = matches!(self.who, Who::Group | Who::OwnerGroup);
        let is_flagged = self.flags & FLAG_GROUP != 0;
        let has_name = self.name.as_deref().is_some_and(is_name);
        let is_unnamed = self.name.is_none();
        let is_named_right = if self.who.text().is_some() { is_unnamed } else { has_name };
        let fits = |(&perms, (bit, ..)): (&u64, (u8, char, &str))| {
            perms & !PERMS_ALL == 0 && (perms == 0 || self.access & bit != 0)
        };
        let reports = self.access & 6 != 0;
        is_known
            && is_group == is_flagged
            && is_named_right
            && self.perms.iter().zip(ACCESS).all(fits)
            && reports == (self.flags & FLAGS_REPORT != 0)
    }

    fn is_about(&self, who: Who, name: Option<&str>) -> bool {
        self.who == who && self.name.as_deref() == name
    }

    /// The bytes of the entry.
    ///
    /// # Panics
    /// If its name has more than 64 KiB.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.put(&mut bytes);
        bytes
    }

    fn put(&self, out: &mut Vec<u8>) {
        let name_bytes = self.name.as_ref().map_or(0, |name| (name.len() + 1).next_multiple_of(8));
        let start = out.len();
        out.extend([self.access, self.who as u8]);
        out.extend(u16::try_from(name_bytes).expect("names are limited").to_le_bytes());
        out.extend(self.flags.to_le_bytes());
        out.extend([0; 2]);
        out.extend(self.perms.iter().flat_map(|perms| perms.to_le_bytes()));
        out.extend(self.name.iter().flat_map(|name| name.bytes()));
        out.resize(start + ENTRY_BYTES + name_bytes, 0);
    }

    /// The entry at the start of `bytes`, which may contradict itself, and how long it is.
    ///
    /// # Errors
    /// `Invalid::Property` for what is no entry.
    pub fn decode(bytes: &[u8]) -> Result<(Self, usize)> {
        let (header, rest) = bytes.split_at_checked(ENTRY_BYTES).ok_or_else(wrong)?;
        let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let word = |at: usize| header[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let name_bytes = usize::from(short(2));
        let who = Who::from_number(u32::from(header[1])).ok_or_else(wrong)?;
        let name = rest.get(..name_bytes).ok_or_else(wrong)?;
        let name = match (name_bytes, name.iter().position(|&byte| byte == 0)) {
            (0, _) => None,
            (_, Some(end)) => Some(core::str::from_utf8(&name[..end]).map_err(|_other| wrong())?.to_owned()),
            (_, None) => return Err(wrong()),
        };
        let perms = [word(8), word(16), word(24)];
        let entry = Self { access: header[0], who, flags: short(4), perms, name };
        Ok((entry, ENTRY_BYTES + name_bytes))
    }
}

fn wrong() -> Error {
    Invalid::Property.into()
}

/// A bit's letter and word.
type Row = (char, &'static str);

/// The rows of the bits that are set.
fn among<T: Copy + Default + PartialEq + core::ops::BitAnd<Output = T>>(
    bits: T,
    known: &[(T, char, &'static str)],
) -> Vec<Row> {
    let set = known.iter().filter(|row| bits & row.0 != T::default());
    set.map(|&(_, letter, word)| (letter, word)).collect()
}

/// The bits of a text's letters, each once.
fn letters<T: Copy + Default + PartialEq + core::ops::BitOr<Output = T> + core::ops::BitAnd<Output = T>>(
    text: &str,
    known: &[(T, char, &str)],
) -> Result<T> {
    text.chars().try_fold(T::default(), |bits, letter| {
        let bit = known.iter().find(|row| row.1 == letter).map(|row| row.0);
        bit.filter(|&bit| bits & bit == T::default()).map(|bit| bits | bit).ok_or_else(wrong)
    })
}

impl Acl {
    /// A list of these entries.
    ///
    /// # Errors
    /// `Invalid::Property` if one is not valid, or a principal has two.
    pub fn new(entries: impl IntoIterator<Item = Entry>) -> Result<Self> {
        let mut acl = Self::default();
        for entry in entries {
            if !entry.is_valid() || acl.find(entry.who, entry.name.as_deref()).is_some() {
                return Err(wrong());
            }
            acl.put(entry);
        }
        Ok(acl)
    }

    /// A list of what these texts describe.
    ///
    /// # Errors
    /// As [`Entry::parse`] and [`Acl::new`].
    pub fn of_texts(texts: &[&str]) -> Result<Self> {
        Self::new(texts.iter().map(|text| Entry::parse(text)).collect::<Result<Vec<_>>>()?)
    }

    /// What a container has whose list nobody has set.
    ///
    /// # Panics
    /// Never: its texts are those of two principals.
    //= daos:src/container/srv_layout.c cont_prop_default
    #[must_use]
    pub fn of_new_container() -> Self {
        Self::of_texts(&["A::OWNER@:rwdtTaAo", "A:G:GROUP@:rwtT"]).expect("well-formed")
    }

    /// What a pool has whose list nobody has set.
    ///
    /// # Panics
    /// Never: as above.
    //= daos:src/pool/srv_layout.c pool_prop_default
    #[must_use]
    pub fn of_new_pool() -> Self {
        Self::of_texts(&["A::OWNER@:rw", "A:G:GROUP@:rw"]).expect("well-formed")
    }

    /// Its entries.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Where the entry of a principal is.
    #[must_use]
    pub fn find(&self, who: Who, name: Option<&str>) -> Option<usize> {
        self.entries.iter().position(|entry| entry.is_about(who, name))
    }

    /// Adds an entry, or replaces that of the same principal.
    pub fn put(&mut self, entry: Entry) {
        match self.find(entry.who, entry.name.as_deref()) {
            Some(at) => self.entries[at] = entry,
            None => {
                let at = self.entries.partition_point(|other| other.who <= entry.who);
                self.entries.insert(at, entry);
            }
        }
    }

    /// Removes the entry of a principal; whether there was one.
    pub fn remove(&mut self, who: Who, name: Option<&str>) -> bool {
        let found = self.find(who, name);
        found.map(|at| self.entries.remove(at)).is_some()
    }

    /// What a user may do with a container of this owner and group: what the list says, and an owner reads and changes the
    /// list in any case.
    #[must_use]
    pub fn allows(&self, user: &User<'_>, owner: &str, group: &str) -> u64 {
        let always = if user.name == owner { OWNER_ALWAYS } else { 0 };
        self.lists(user, owner, group) | always
    }

    /// What the list says that a user may do with something of this owner and group: the most particular entry decides,
    /// entries of several of his groups together.
    #[must_use]
    pub fn lists(&self, user: &User<'_>, owner: &str, group: &str) -> u64 {
        let allowed = |who, name: Option<&str>| self.find(who, name).map(|at| self.entries[at].perms[0]);
        if user.name == owner
            && let Some(perms) = allowed(Who::Owner, None)
        {
            return perms;
        }
        if let Some(perms) = allowed(Who::User, Some(user.name)) {
            return perms;
        }
        let own_group = user.groups.iter().any(|name| name == group);
        let groups = user.groups.iter().filter_map(|name| allowed(Who::Group, Some(name)));
        let found: Vec<u64> = groups.chain(allowed(Who::OwnerGroup, None).filter(|_| own_group)).collect();
        if found.is_empty() {
            return allowed(Who::Everyone, None).unwrap_or(0);
        }
        found.into_iter().fold(0, |all, perms| all | perms)
    }

    /// The bytes of the list.
    ///
    /// # Panics
    /// If it has more than 4 GiB.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        bytes.resize(HEADER_BYTES, 0);
        self.entries.iter().for_each(|entry| entry.put(&mut bytes));
        let len = u32::try_from(bytes.len() - HEADER_BYTES).expect("entries are short, and few");
        bytes[4..HEADER_BYTES].copy_from_slice(&len.to_le_bytes());
        bytes
    }

    /// The list in `bytes`.
    ///
    /// # Errors
    /// `Invalid::Property` for what is no list.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (header, mut rest) = bytes.split_at_checked(HEADER_BYTES).ok_or_else(wrong)?;
        let len = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let is_whole = u64::from(len) == rest.len() as u64;
        if u16::from_le_bytes([header[0], header[1]]) != VERSION || !is_whole {
            return Err(wrong());
        }
        let mut entries: Vec<Entry> = Vec::new();
        while !rest.is_empty() {
            let (entry, len) = Entry::decode(rest)?;
            if entries.last().is_some_and(|before| before.who > entry.who) {
                return Err(wrong());
            }
            entries.push(entry);
            rest = &rest[len..];
        }
        Self::new(entries)
    }
}

/// Who asks: his name and those of his groups, each with its `@`.
#[derive(Clone, Copy, Debug)]
pub struct User<'a> {
    /// The user.
    pub name: &'a str,
    /// All groups.
    pub groups: &'a [String],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::golden;

    const TEXTS: [&str; 5] =
        ["A::OWNER@:rwcd", "A::ann@:rw", "A:G:GROUP@:r", "AU:GSF:staff@lab:rT", "A::EVERYONE@:"];

    fn acl() -> Acl {
        Acl::new(TEXTS.iter().map(|text| Entry::parse(text).unwrap())).unwrap()
    }

    #[test]
    fn entries_are_read_as_they_are_written() {
        for text in TEXTS {
            assert_eq!(Entry::parse(text).unwrap().text().as_deref(), Some(text));
        }
        for bad in [
            "",
            "A::x:r",
            "A::@:r",
            "X::a@:r",
            "A::a@:z",
            "A:G:OWNER@:r",
            "A::GROUP@:r",
            "U::a@:r",
            "A::a@:rr",
        ] {
            assert_eq!(Entry::parse(bad), Err(wrong()), "{bad}");
        }
        assert_eq!(Entry::parse("A:G:g@:rt").unwrap().verbose(), "Allow:Group:g@:Read/Get-Prop");
        let twice = ["A::ann@:r", "A::ann@:w"].map(|text| Entry::parse(text).unwrap());
        assert_eq!(Acl::new(twice), Err(wrong()));
        assert_eq!(Acl::of_new_container().entries().len(), 2);
    }

    #[test]
    fn bytes_come_back_and_damaged_ones_are_refused() {
        let bytes = acl().encode();
        assert_eq!((bytes.len(), golden(&bytes)), (8 + 5 * 32 + 8 + 16, 0x5665_15c1_033f_bbcc));
        assert_eq!(Acl::decode(&bytes), Ok(acl()));
        for cut in 0..bytes.len() {
            assert_eq!(Acl::decode(&bytes[..cut]), Err(wrong()), "{cut}");
        }
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 0xff;
            // What is read in spite of it is a list that is written as it was read.
            if let Ok(read) = Acl::decode(&other) {
                assert_eq!(Acl::decode(&read.encode()), Ok(read), "{at}");
            }
        }
    }

    #[test]
    fn the_most_particular_entry_decides() {
        let acl = acl();
        let ask = |name, groups: &[&str]| {
            let groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
            acl.allows(&User { name, groups: &groups }, "own@", "grp@")
        };
        assert_eq!(ask("own@", &[]), 15 | OWNER_ALWAYS);
        assert_eq!((ask("ann@", &["grp@"]), ask("bob@", &["grp@", "staff@lab"])), (3, 33));
        assert_eq!(ask("bob@", &[]), 0);
    }

    #[test]
    fn entries_are_replaced_and_removed_by_principal() {
        let mut acl = acl();
        acl.put(Entry::parse("A::ann@:r").unwrap());
        acl.put(Entry::parse("A::bob@:w").unwrap());
        let texts: Vec<String> = acl.entries().iter().filter_map(Entry::text).collect();
        assert_eq!(texts[1..3], ["A::ann@:r", "A::bob@:w"]);
        let (who, name) = principal("u:ann").unwrap();
        assert!(acl.remove(who, name.as_deref()) && !acl.remove(who, name.as_deref()));
        assert_eq!(principal("EVERYONE@"), Ok((Who::Everyone, None)));
        for bad in ["ann", "x:ann", "u:", "u:a@b@c", "owner@"] {
            assert_eq!(principal(bad), Err(Invalid::Name.into()), "{bad}");
        }
    }
}
