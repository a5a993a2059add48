//! Access control lists as values: their bytes, their text, and what they allow.
//!
//! Invariants: entries are in the order of their principal types; no principal has two.

use crate::error::{Der, Result};

/// Who an entry is about. The numbers are those of the interface.
//= daos:src/include/daos_security.h enum daos_acl_principal_type
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Who {
    Owner = 0,
    User = 1,
    OwnerGroup = 2,
    Group = 3,
    Everyone = 4,
}

impl Who {
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        [Self::Owner, Self::User, Self::OwnerGroup, Self::Group, Self::Everyone]
            .into_iter()
            .find(|&who| u32::from(who as u8) == number)
    }

    /// What stands for it in text, unless it has a name.
    pub(crate) fn text(self) -> Option<&'static str> {
        match self {
            Self::Owner => Some("OWNER@"),
            Self::OwnerGroup => Some("GROUP@"),
            Self::Everyone => Some("EVERYONE@"),
            Self::User | Self::Group => None,
        }
    }
}

/// Kinds of access that an entry is about, in the order of its words.
const ACCESS: [(u8, char); 3] = [(1, 'A'), (2, 'U'), (4, 'L')];
/// Flags.
//= daos:src/include/daos_security.h enum daos_acl_flags
const FLAGS: [(u16, char); 4] = [(1, 'G'), (8, 'S'), (4, 'F'), (2, 'P')];
const FLAG_GROUP: u16 = 1;
const FLAGS_REPORT: u16 = 4 | 8;
/// Permissions, with their letters and names.
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
const OWNER_ALWAYS: u64 = 64 | 128;

const HEADER_BYTES: usize = 8;
const ACE_BYTES: usize = 32;
/// A list fits one message.
pub(crate) const LIST_BYTES_MAX: usize = 65536;
pub(crate) const PRINCIPAL_BYTES_MAX: usize = 255;
const VERSION: u16 = 1;

/// One entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ace {
    pub(crate) access: u8,
    pub(crate) who: Who,
    pub(crate) flags: u16,
    /// Allowed, audited, alarmed.
    pub(crate) perms: [u64; 3],
    /// The name of a user or group.
    pub(crate) name: Option<String>,
}

/// A list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Acl {
    pub(crate) aces: Vec<Ace>,
}

/// Whether a text is a principal with a name: one `@`, with something before it.
pub(crate) fn is_principal(name: &str) -> bool {
    let parts: Vec<&str> = name.split('@').collect();
    parts.len() == 2 && !parts[0].is_empty() && name.len() <= PRINCIPAL_BYTES_MAX
}

impl Ace {
    /// An entry that allows nothing yet.
    ///
    /// # Errors
    /// `INVAL` for a name that is none, or one that does not belong there.
    pub(crate) fn new(who: Who, name: Option<&str>) -> Result<Self> {
        let is_right = match (who.text(), name) {
            (None, Some(name)) => is_principal(name),
            (Some(_), name) => name.is_none_or(str::is_empty),
            (None, None) => false,
        };
        if !is_right {
            return Err(Der::INVAL);
        }
        let flags = if matches!(who, Who::Group | Who::OwnerGroup) { FLAG_GROUP } else { 0 };
        let name = name.filter(|_| who.text().is_none()).map(str::to_owned);
        Ok(Self { access: 0, who, flags, perms: [0; 3], name })
    }

    /// Whether the entry says something, and nothing that contradicts itself.
    pub(crate) fn is_valid(&self) -> bool {
        let known = self.access != 0 && self.access < 8 && self.flags < 16;
        let is_group = matches!(self.who, Who::Group | Who::OwnerGroup);
        let grouped = (self.flags & FLAG_GROUP != 0) == is_group;
        let named = self.who.text().is_none() == self.name.as_deref().is_some_and(is_principal);
        let perms = self
            .perms
            .iter()
            .zip(ACCESS)
            .all(|(&perms, (bit, _))| perms & !PERMS_ALL == 0 && (perms == 0 || self.access & bit != 0));
        let reports = self.access & 6 != 0;
        known && grouped && named && perms && reports == (self.flags & FLAGS_REPORT != 0)
    }

    fn is_about(&self, who: Who, name: Option<&str>) -> bool {
        self.who == who && (who.text().is_some() || self.name.as_deref() == name)
    }

    pub(crate) fn principal(&self) -> &str {
        self.who.text().or(self.name.as_deref()).unwrap_or("")
    }

    /// Reads `A:G:GROUP@:rw`.
    ///
    /// # Errors
    /// `INVAL`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let [access, flags, principal, perms] = parts[..] else { return Err(Der::INVAL) };
        let access = letters(access, |letter| Some(u64::from(ACCESS.iter().find(|a| a.1 == letter)?.0)))?;
        let flags = letters(flags, |letter| Some(u64::from(FLAGS.iter().find(|f| f.1 == letter)?.0)))?;
        let perms = letters(perms, |letter| Some(PERMS.iter().find(|p| p.1 == letter)?.0))?;
        let special = [Who::Owner, Who::OwnerGroup, Who::Everyone];
        let named = if flags & u64::from(FLAG_GROUP) == 0 { Who::User } else { Who::Group };
        let who = special.into_iter().find(|who| who.text() == Some(principal)).unwrap_or(named);
        let own = Self::new(who, (who == named).then_some(principal))?;
        let access = u8::try_from(access).map_err(|_wide| Der::INVAL)?;
        let ace = Self {
            access,
            flags: u16::try_from(flags).map_err(|_wide| Der::INVAL)?,
            perms: ACCESS.map(|(bit, _)| if access & bit == 0 { 0 } else { perms }),
            ..own
        };
        if ace.is_valid() { Ok(ace) } else { Err(Der::INVAL) }
    }

    /// As [`Ace::parse`] reads it; `None` if the kinds of access differ in what they are about.
    pub(crate) fn text(&self) -> Option<String> {
        let mut own = ACCESS.iter().zip(self.perms).filter(|((bit, _), _)| self.access & bit != 0);
        let perms = own.next().map_or(0, |(_, perms)| perms);
        if own.any(|(_, other)| other != perms) {
            return None;
        }
        let access: String = ACCESS.iter().filter(|(bit, _)| self.access & bit != 0).map(|a| a.1).collect();
        let flags: String = FLAGS.iter().filter(|(bit, _)| self.flags & bit != 0).map(|f| f.1).collect();
        let perms: String = PERMS.iter().filter(|(bit, ..)| perms & bit != 0).map(|p| p.1).collect();
        Some(format!("{access}:{flags}:{}:{perms}", self.principal()))
    }

    /// The entry in words.
    pub(crate) fn verbose(&self) -> String {
        let words =
            |found: Vec<&str>| if found.is_empty() { "No Access".to_owned() } else { found.join("/") };
        let names = [(1_u8, "Allow"), (2, "Audit"), (4, "Alarm")];
        let access: Vec<&str> = names.iter().filter(|(bit, _)| self.access & bit != 0).map(|n| n.1).collect();
        let names = [(1_u16, "Group"), (8, "Access-Success"), (4, "Access-Failure"), (2, "Pool-Inherit")];
        let flags: Vec<&str> = names.iter().filter(|(bit, _)| self.flags & bit != 0).map(|n| n.1).collect();
        let all = self.perms.iter().fold(0, |all, perms| all | perms);
        let perms = PERMS.iter().filter(|(bit, ..)| all & bit != 0).map(|p| p.2).collect();
        format!("{}:{}:{}:{}", access.join("/"), flags.join("/"), self.principal(), words(perms))
    }

    fn name_bytes(&self) -> usize {
        self.name.as_ref().map_or(0, |name| (name.len() + 1).next_multiple_of(8))
    }

    /// The bytes of `struct daos_ace`.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let name_bytes = self.name_bytes();
        let mut bytes = vec![self.access, self.who as u8];
        bytes.extend(u16::try_from(name_bytes).unwrap_or(0).to_le_bytes());
        bytes.extend(self.flags.to_le_bytes());
        bytes.extend([0; 2]);
        bytes.extend(self.perms.iter().flat_map(|perms| perms.to_le_bytes()));
        bytes.extend(self.name.iter().flat_map(|name| name.bytes()));
        bytes.resize(ACE_BYTES + name_bytes, 0);
        bytes
    }

    /// The entry at the start of `bytes`, and how long it is.
    ///
    /// # Errors
    /// `INVAL`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, usize)> {
        let (header, rest) = bytes.split_at_checked(ACE_BYTES).ok_or(Der::INVAL)?;
        let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let word = |at: usize| header[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let name_bytes = usize::from(short(2));
        let who = Who::from_number(u32::from(header[1])).ok_or(Der::INVAL)?;
        let name = match name_bytes {
            0 => None,
            _ => {
                let bytes = rest.get(..name_bytes).ok_or(Der::INVAL)?;
                let end = bytes.iter().position(|&byte| byte == 0).ok_or(Der::INVAL)?;
                Some(core::str::from_utf8(&bytes[..end]).map_err(|_other| Der::INVAL)?.to_owned())
            }
        };
        let perms = [word(8), word(16), word(24)];
        Ok((Self { access: header[0], who, flags: short(4), perms, name }, ACE_BYTES + name_bytes))
    }
}

fn letters(text: &str, bit: impl Fn(char) -> Option<u64>) -> Result<u64> {
    text.chars().try_fold(0, |bits, letter| {
        bit(letter).filter(|bit| bits & bit == 0).map(|bit| bits | bit).ok_or(Der::INVAL)
    })
}

impl Acl {
    /// A list of these entries.
    ///
    /// # Errors
    /// `INVAL` if one is not valid, or a principal has two.
    pub(crate) fn new(aces: Vec<Ace>) -> Result<Self> {
        let mut acl = Self::default();
        for ace in aces {
            if !ace.is_valid() || acl.find(ace.who, ace.name.as_deref()).is_some() {
                return Err(Der::INVAL);
            }
            acl.put(ace);
        }
        Ok(acl)
    }

    pub(crate) fn find(&self, who: Who, name: Option<&str>) -> Option<usize> {
        self.aces.iter().position(|ace| ace.is_about(who, name))
    }

    /// Adds an entry, or replaces that of the same principal.
    pub(crate) fn put(&mut self, ace: Ace) {
        match self.find(ace.who, ace.name.as_deref()) {
            Some(at) => self.aces[at] = ace,
            None => {
                let at = self.aces.partition_point(|other| other.who <= ace.who);
                self.aces.insert(at, ace);
            }
        }
    }

    /// The bytes of `struct daos_acl`.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let entries: Vec<u8> = self.aces.iter().flat_map(Ace::encode).collect();
        let mut bytes = VERSION.to_le_bytes().to_vec();
        bytes.extend([0; 2]);
        bytes.extend(u32::try_from(entries.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(entries);
        bytes
    }

    /// The list in `bytes`.
    ///
    /// # Errors
    /// `INVAL` for what is no valid list.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let (header, mut rest) = bytes.split_at_checked(HEADER_BYTES).ok_or(Der::INVAL)?;
        let len = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        if u16::from_le_bytes([header[0], header[1]]) != VERSION || rest.len() != len {
            return Err(Der::INVAL);
        }
        let mut aces: Vec<Ace> = Vec::new();
        while !rest.is_empty() {
            let (ace, len) = Ace::decode(rest)?;
            if aces.last().is_some_and(|before| before.who > ace.who) {
                return Err(Der::INVAL);
            }
            aces.push(ace);
            rest = &rest[len..];
        }
        Self::new(aces)
    }

    /// What a user with these names and groups may do with something of this owner and group.
    pub(crate) fn allows(&self, user: &User<'_>, owner: &str, group: &str) -> u64 {
        let allowed = |who, name: Option<&str>| self.find(who, name).map(|at| self.aces[at].perms[0]);
        let is_owner = user.name == owner;
        let always = if is_owner { OWNER_ALWAYS } else { 0 };
        if is_owner && let Some(perms) = allowed(Who::Owner, None) {
            return perms | always;
        }
        if let Some(perms) = allowed(Who::User, Some(user.name)) {
            return perms | always;
        }
        let own_group = user.groups.iter().any(|name| name == group);
        let groups = user.groups.iter().filter_map(|name| allowed(Who::Group, Some(name)));
        let found: Vec<u64> = groups.chain(allowed(Who::OwnerGroup, None).filter(|_| own_group)).collect();
        if found.is_empty() {
            return allowed(Who::Everyone, None).unwrap_or(0) | always;
        }
        found.into_iter().fold(always, |all, perms| all | perms)
    }
}

/// Who asks.
pub(crate) struct User<'a> {
    pub(crate) name: &'a str,
    pub(crate) groups: &'a [String],
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&str; 5] =
        ["A::OWNER@:rwcd", "A::ann@:rw", "A:G:GROUP@:r", "AU:GSF:staff@lab:rT", "A::EVERYONE@:"];

    fn acl() -> Acl {
        Acl::new(TEXTS.iter().map(|text| Ace::parse(text).unwrap()).collect()).unwrap()
    }

    #[test]
    fn entries_are_read_as_they_are_written() {
        for text in TEXTS {
            assert_eq!(Ace::parse(text).unwrap().text().unwrap(), text);
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
            assert_eq!(Ace::parse(bad), Err(Der::INVAL), "{bad}");
        }
        assert_eq!(Ace::parse("A:G:g@:rt").unwrap().verbose(), "Allow:Group:g@:Read/Get-Prop");
    }

    #[test]
    fn bytes_come_back_and_damaged_ones_are_refused() {
        let bytes = acl().encode();
        assert_eq!(bytes.len() % 8, 0);
        assert_eq!(Acl::decode(&bytes), Ok(acl()));
        for cut in 0..bytes.len() {
            assert_eq!(Acl::decode(&bytes[..cut]), Err(Der::INVAL), "{cut}");
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
}
