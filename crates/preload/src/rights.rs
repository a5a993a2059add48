//! What a file's owner and mode let the process do.

use crate::attrs::SET_IDS;
use crate::place::Place;
use crate::state::state;
use dolmen_dfs::{Error, Rights, Stat};

/// Whether somebody else than the owner, whose bits decide, is let in to a file.
pub(crate) fn check_listed(place: &Place<'_>, stat: &Stat, rights: Rights) -> dolmen_dfs::Result<()> {
    let dir = place.listed_dir().ok_or(Error::Stale)?;
    let (obj, found) = dir.lookup(place.name)?;
    if found.ino == stat.ino { obj.as_user(&state().cred()).check_access(rights) } else { Err(Error::Stale) }
}

/// Whether the owner's bits decide, and let him.
pub(crate) fn is_owners(stat: &Stat, rights: Rights) -> bool {
    let (uid, _) = state().user();
    uid == 0 || uid == stat.uid && (stat.permissions >> 6) & rights.0 == rights.0
}

/// Whether such a file may lose bits with what the caller writes, with which it lets others act as its owner or group: that is the
/// kernel's to see to.
pub(crate) fn loses_set_ids(mode: u32) -> bool {
    mode & SET_IDS != 0 && state().user().0 != 0
}
