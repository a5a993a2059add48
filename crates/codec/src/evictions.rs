//! How often handles on a container were taken from their users: a property of the container, so that whoever connects again
//! knows that what he had open has ended meanwhile.
//!
//! Invariants: counts only grow; users are in ascending order, each once.

use crate::bytes::Reader;
use dolmen_types::{PropId, PropValue, Props};
use std::collections::BTreeMap;

/// Users that are told apart; when one more loses handles, all count as having lost theirs.
const USERS_MAX: u32 = 64;

/// Evictions of one container. As bytes: the count for all users (u64), then for each user its uid (u32) and count (u64).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Evictions {
    all: u64,
    users: BTreeMap<u32, u64>,
}

impl Evictions {
    /// Those that a container's properties tell of.
    #[must_use]
    pub fn of(props: &Props) -> Self {
        let known = match props.get(&PropId::CO_EVICTIONS) {
            Some(PropValue::Bytes(bytes)) => Self::decode(bytes),
            _ => None,
        };
        known.unwrap_or(Self { all: 0, users: BTreeMap::new() })
    }

    /// So many of everybody's handles.
    #[must_use]
    pub fn of_all(count: u64) -> Self {
        Self { all: count, users: BTreeMap::new() }
    }

    /// How often a user has lost what he had open.
    #[must_use]
    pub fn count(&self, uid: u32) -> u64 {
        self.all.saturating_add(self.users.get(&uid).copied().unwrap_or(0))
    }

    /// One more: of a user's handles, or of everybody's.
    pub fn add(&mut self, uid: Option<u32>) {
        match uid {
            Some(uid) if self.users.len() < USERS_MAX as usize || self.users.contains_key(&uid) => {
                let count = self.users.entry(uid).or_default();
                *count = count.saturating_add(1);
            }
            _ => self.all = self.all.saturating_add(1),
        }
    }

    /// Takes over what others of the same container count further.
    pub fn raise(&mut self, other: &Self) {
        self.all = self.all.max(other.all);
        for (&uid, &count) in &other.users {
            let own = self.users.entry(uid).or_default();
            *own = count.max(*own);
        }
    }

    /// The bytes of the property.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.all.to_le_bytes().to_vec();
        for (uid, count) in &self.users {
            bytes.extend(uid.to_le_bytes());
            bytes.extend(count.to_le_bytes());
        }
        bytes
    }

    /// What `bytes` say; `None` if they are no such property.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader::new(bytes);
        let (all, mut users) = (r.u64()?, BTreeMap::new());
        while r.remaining() > 0 {
            let (uid, count) = (r.u32()?, r.u64()?);
            if users.len() == USERS_MAX as usize
                || users.last_key_value().is_some_and(|(&last, _)| last >= uid)
            {
                return None;
            }
            users.insert(uid, count);
        }
        Some(Self { all, users })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_of_evictions() {
        let mut evictions = Evictions::default();
        [None, Some(7), Some(7), Some(5)].into_iter().for_each(|uid| evictions.add(uid));
        let golden = [
            [1, 0, 0, 0, 0, 0, 0, 0].as_slice(),
            &[5, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
            &[7, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        assert_eq!(evictions.encode(), golden);
        assert_eq!(Evictions::decode(&golden), Some(evictions.clone()));
        assert_eq!((evictions.count(7), evictions.count(5), evictions.count(6)), (3, 2, 1));
        for cut in 0..golden.len() {
            let is_whole = cut >= 8 && (cut - 8).is_multiple_of(12);
            assert_eq!(Evictions::decode(&golden[..cut]).is_some(), is_whole, "{cut}");
        }
        let twice = [&golden[..20], &golden[8..20]].concat();
        assert_eq!(Evictions::decode(&twice), None);
    }

    #[test]
    fn one_user_too_many_counts_as_all() {
        let mut evictions = Evictions::default();
        (0..=USERS_MAX).for_each(|uid| evictions.add(Some(uid)));
        assert_eq!((evictions.count(0), evictions.count(USERS_MAX), evictions.count(9999)), (2, 1, 1));
        assert_eq!(Evictions::decode(&evictions.encode()), Some(evictions));
    }
}
