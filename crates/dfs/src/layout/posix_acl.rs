//! A POSIX access control list as acl(5) has it, in the bytes of the kernel's extended attributes `system.posix_acl_access`
//! and `system.posix_acl_default`: version 2 (4 bytes), then 8 bytes an entry (tag, permissions, id), little-endian.
//!
//! Invariants: entries are those of the owner, of users, of the owning group, of groups, of the mask, and of all others, in
//! this order; there is one each of owner, owning group and others, and a mask if any user or group is named.

use core::mem::replace;

/// The extended attribute with the list that decides about access.
pub const XATTR_ACCESS: &[u8] = b"system.posix_acl_access";
/// The extended attribute with the list that new entries of a directory get.
pub const XATTR_DEFAULT: &[u8] = b"system.posix_acl_default";

//= linux:include/uapi/linux/posix_acl_xattr.h POSIX_ACL_XATTR_VERSION
const VERSION: u32 = 2;
const HEAD_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;
/// The id of an entry that names nobody.
const NOBODY: u32 = u32::MAX;
const ALL_RIGHTS: u32 = 7;

/// Whom an entry is about. Persistent: never renumber.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u16)]
pub enum Tag {
    /// The owner.
    Owner = 0x01,
    /// A user.
    User = 0x02,
    /// The owning group.
    OwningGroup = 0x04,
    /// A group.
    Group = 0x08,
    /// The most that users and groups other than the owner and the others get.
    Mask = 0x10,
    /// Everybody else.
    Other = 0x20,
}

impl Tag {
    fn of_number(number: u16) -> Option<Self> {
        [Self::Owner, Self::User, Self::OwningGroup, Self::Group, Self::Mask, Self::Other]
            .into_iter()
            .find(|tag| *tag as u16 == number)
    }

    fn is_named(self) -> bool {
        matches!(self, Self::User | Self::Group)
    }
}

/// What somebody may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AclEntry {
    /// Who.
    pub tag: Tag,
    /// The bits of one digit of a mode.
    pub rights: u32,
    /// Which user or group; of no meaning for other tags.
    pub id: u32,
}

/// A list that has entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PosixAcl {
    entries: Vec<AclEntry>,
}

impl PosixAcl {
    /// Reads a list; `None` inside if it has no entries, and outside for what is no list.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Option<Self>> {
        let (version, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        if u32::from_le_bytes(*version) != VERSION || rest.len() % ENTRY_BYTES != 0 {
            return None;
        }
        let entries: Option<Vec<AclEntry>> = rest.chunks(ENTRY_BYTES).map(entry).collect();
        let list = Self { entries: entries? };
        match list.entries.is_empty() {
            true => Some(None),
            false => list.is_valid().then_some(Some(list)),
        }
    }

    /// The list of whom a mode tells of.
    #[must_use]
    pub fn of_mode(mode: u32) -> Self {
        let entry = |tag, shift: u32| AclEntry { tag, rights: (mode >> shift) & ALL_RIGHTS, id: NOBODY };
        Self { entries: vec![entry(Tag::Owner, 6), entry(Tag::OwningGroup, 3), entry(Tag::Other, 0)] }
    }

    /// As bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for entry in &self.entries {
            bytes.extend_from_slice(&(entry.tag as u16).to_le_bytes());
            bytes.extend_from_slice(&entry.rights.to_le_bytes()[..2]);
            bytes.extend_from_slice(&if entry.tag.is_named() { entry.id } else { NOBODY }.to_le_bytes());
        }
        bytes
    }

    /// The entries.
    pub fn entries(&self) -> impl Iterator<Item = &AclEntry> {
        self.entries.iter()
    }

    fn is_valid(&self) -> bool {
        let count = |tag| self.entries.iter().filter(|entry| entry.tag == tag).count();
        let is_named = self.entries.iter().any(|entry| entry.tag.is_named());
        self.entries.is_sorted_by_key(|entry| entry.tag)
            && [Tag::Owner, Tag::OwningGroup, Tag::Other].into_iter().all(|tag| count(tag) == 1)
            && (usize::from(is_named)..=1).contains(&count(Tag::Mask))
            && self.entries.iter().all(|entry| entry.rights & !ALL_RIGHTS == 0)
            && self.entries.iter().all(|entry| !entry.tag.is_named() || entry.id != NOBODY)
    }

    /// The entry whose rights stand in the digit of the group: the mask, if there is one.
    fn group_digit(&self) -> Tag {
        let is_masked = self.entries.iter().any(|entry| entry.tag == Tag::Mask);
        if is_masked { Tag::Mask } else { Tag::OwningGroup }
    }

    fn digits(&mut self) -> impl Iterator<Item = (u32, &mut u32)> {
        let group = self.group_digit();
        self.entries.iter_mut().filter_map(move |entry| match entry.tag {
            Tag::Owner => Some((6, &mut entry.rights)),
            Tag::Other => Some((0, &mut entry.rights)),
            tag if tag == group => Some((3, &mut entry.rights)),
            _ => None,
        })
    }

    /// The nine permission bits that say the same as far as a mode can.
    #[must_use]
    pub fn permissions(&self) -> u32 {
        self.clone().digits().map(|(shift, rights)| *rights << shift).sum()
    }

    /// Whether a mode says all of it.
    #[must_use]
    pub fn is_of_mode(&self) -> bool {
        self.entries.len() == 3
    }

    /// The list of what has this mode now: the mode is the truth about those that it tells of.
    #[must_use]
    pub fn with_mode(mut self, mode: u32) -> Self {
        self.digits().for_each(|(shift, rights)| *rights = (mode >> shift) & ALL_RIGHTS);
        self
    }

    /// The list that an entry gets which is made with this mode where this one is the default.
    #[must_use]
    pub fn limited_to(mut self, mode: u32) -> Self {
        self.digits().for_each(|(shift, rights)| {
            let _before = replace(rights, *rights & (mode >> shift) & ALL_RIGHTS);
        });
        self
    }

    /// Whether somebody other than the owner and user 0 has these rights: a user named here by his entry, a member of any
    /// group by one of these entries that gives them all, both within the mask; else as everybody else.
    #[must_use]
    pub fn grants(&self, uid: u32, in_group: impl Fn(Option<u32>) -> bool, wanted: u32) -> bool {
        let gives = |entry: &AclEntry| entry.rights & wanted == wanted;
        let of = |tag| self.entries.iter().filter(move |entry| entry.tag == tag);
        let unmasked = of(Tag::Mask).all(gives);
        if let Some(user) = of(Tag::User).find(|entry| entry.id == uid) {
            return unmasked && gives(user);
        }
        let owning = of(Tag::OwningGroup).filter(|_| in_group(None));
        let mut groups = owning.chain(of(Tag::Group).filter(|entry| in_group(Some(entry.id)))).peekable();
        match groups.peek() {
            Some(_) => unmasked && groups.any(gives),
            None => of(Tag::Other).all(gives),
        }
    }
}

fn entry(bytes: &[u8]) -> Option<AclEntry> {
    let [tag_low, tag_high, rights_low, rights_high, id @ ..] = bytes else { return None };
    Some(AclEntry {
        tag: Tag::of_number(u16::from_le_bytes([*tag_low, *tag_high]))?,
        rights: u16::from_le_bytes([*rights_low, *rights_high]).into(),
        id: u32::from_le_bytes(id.try_into().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(entries: &[(Tag, u32, u32)]) -> PosixAcl {
        PosixAcl { entries: entries.iter().map(|&(tag, rights, id)| AclEntry { tag, rights, id }).collect() }
    }

    fn sample() -> PosixAcl {
        list(&[
            (Tag::Owner, 7, NOBODY),
            (Tag::User, 6, 7),
            (Tag::OwningGroup, 5, NOBODY),
            (Tag::Group, 3, 0x0102),
            (Tag::Mask, 5, NOBODY),
            (Tag::Other, 4, NOBODY),
        ])
    }

    #[test]
    fn access_control_list_has_its_golden_bytes() {
        let golden = [
            &[2, 0, 0, 0][..], // version
            &[1, 0, 7, 0, 0xff, 0xff, 0xff, 0xff],
            &[2, 0, 6, 0, 7, 0, 0, 0],
            &[4, 0, 5, 0, 0xff, 0xff, 0xff, 0xff],
            &[8, 0, 3, 0, 2, 1, 0, 0],
            &[0x10, 0, 5, 0, 0xff, 0xff, 0xff, 0xff],
            &[0x20, 0, 4, 0, 0xff, 0xff, 0xff, 0xff],
        ]
        .concat();
        assert_eq!(sample().to_bytes(), golden);
        assert_eq!(PosixAcl::from_bytes(&golden), Some(Some(sample())));
        assert_eq!(PosixAcl::from_bytes(&golden[..4]), Some(None));
        for bad in [&golden[..3], &golden[..11], &[1, 0, 0, 0]] {
            assert_eq!(PosixAcl::from_bytes(bad), None);
        }
    }

    #[test]
    fn what_is_incomplete_or_out_of_order_is_no_list() {
        let base = || vec![(Tag::Owner, 7, 0), (Tag::OwningGroup, 7, 0), (Tag::Other, 7, 0)];
        let is_list = |entries: &[(Tag, u32, u32)]| PosixAcl::from_bytes(&list(entries).to_bytes()).is_some();
        assert!(is_list(&base()));
        let with = |at: usize, entry| {
            let mut entries = base();
            entries.insert(at, entry);
            entries
        };
        assert!(is_list(&with(2, (Tag::Mask, 7, 0))));
        assert!(!is_list(&with(1, (Tag::User, 7, 5))), "no mask");
        assert!(!is_list(&with(1, (Tag::Mask, 7, 5))), "out of order");
        assert!(!is_list(&with(1, (Tag::Owner, 7, 0))), "twice");
        assert!(!is_list(&with(2, (Tag::Mask, 8, 0))), "no right");
        (0..3).for_each(|missing| {
            let mut entries = base();
            entries.remove(missing);
            assert!(!is_list(&entries));
        });
        let mut nobody = with(1, (Tag::User, 7, NOBODY));
        nobody.insert(3, (Tag::Mask, 7, 0));
        assert!(!is_list(&nobody));
    }

    #[test]
    fn a_mode_is_the_owner_the_mask_and_the_others() {
        assert_eq!(sample().permissions(), 0o754);
        assert_eq!(sample().with_mode(0o610).permissions(), 0o610);
        assert_eq!(sample().limited_to(0o660).permissions(), 0o640);
        assert_eq!(PosixAcl::of_mode(0o4751).permissions(), 0o751);
        assert!(PosixAcl::of_mode(0o751).is_of_mode());
        assert!(!sample().is_of_mode());
    }

    #[test]
    fn the_most_specific_entry_decides_within_the_mask() {
        let grants = |uid, groups: &[u32], wanted| {
            sample().grants(uid, |id| groups.contains(&id.unwrap_or(50)), wanted)
        };
        assert!(grants(7, &[], 4));
        assert!(!grants(7, &[], 2), "masked");
        assert!(!grants(7, &[0x0102], 1), "the user's entry decides, not the group's");
        assert!(grants(8, &[50], 5));
        assert!(grants(8, &[0x0102], 1));
        assert!(!grants(8, &[0x0102], 4), "not the others' rights");
        assert!(grants(8, &[0x0102, 50], 4));
        assert!(!grants(8, &[0x0102, 50], 7), "rights of several groups do not add up");
        assert!(grants(8, &[], 4));
        assert!(!grants(8, &[], 1));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_round_trip(tags in prop::collection::vec((0u16..0x21, 0u16..9, any::<u32>()), 0..8)) {
            let mut bytes = VERSION.to_le_bytes().to_vec();
            for (tag, rights, id) in tags {
                bytes.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
                bytes.extend(id.to_le_bytes());
            }
            if let Some(Some(list)) = PosixAcl::from_bytes(&bytes) {
                prop_assert_eq!(PosixAcl::from_bytes(&list.to_bytes()).map(|list| list.map(|list| list.permissions())), Some(Some(list.permissions())));
            }
        }
    }
}
