//! Enumeration anchors: an opaque, resumable position of 120 bytes, as `daos_anchor_t`.
//!
//! Invariants: `len <= 104`; `Eof` and `Start` have `len == 0`.

use crate::limits::ANCHOR_POSITION_BYTES_MAX;

/// Where an enumeration stands.
//= daos:src/include/daos_types.h daos_anchor_type_t
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u16)]
pub enum AnchorState {
    /// Nothing listed yet.
    #[default]
    Start = 0,
    /// Resume after the position held in the buffer.
    After = 2,
    /// Everything was listed.
    Eof = 3,
}

/// A position in an enumeration; opaque to callers, copied by value, valid in another process.
///
/// The position is the order-encoded key that was returned last, so an enumeration resumes correctly
/// while others insert and punch around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    state: AnchorState,
    /// The shard being listed, when the client walks over several.
    pub shard: u16,
    len: u8,
    position: [u8; ANCHOR_POSITION_BYTES_MAX],
}

impl Default for Anchor {
    fn default() -> Self {
        Self { state: AnchorState::Start, shard: 0, len: 0, position: [0; ANCHOR_POSITION_BYTES_MAX] }
    }
}

impl Anchor {
    /// The end of an enumeration.
    #[must_use]
    pub fn eof() -> Self {
        Self { state: AnchorState::Eof, ..Self::default() }
    }

    /// Resume after `position`; `None` if it is longer than an anchor holds (104 bytes).
    #[must_use]
    pub fn after(position: &[u8]) -> Option<Self> {
        let mut anchor = Self { state: AnchorState::After, ..Self::default() };
        anchor.position.get_mut(..position.len())?.copy_from_slice(position);
        anchor.len = u8::try_from(position.len()).ok()?;
        Some(anchor)
    }

    /// Whether the enumeration has ended.
    #[must_use]
    pub fn is_eof(&self) -> bool {
        self.state == AnchorState::Eof
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> AnchorState {
        self.state
    }

    /// The order-encoded key to resume after; empty at the start and at the end.
    #[must_use]
    pub fn position(&self) -> &[u8] {
        &self.position[..usize::from(self.len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchor_keeps_a_position_of_up_to_104_bytes() {
        let anchor = Anchor::after(&[7; 104]).unwrap();
        assert_eq!(anchor.position(), &[7; 104]);
        assert!(Anchor::after(&[7; 105]).is_none());
        assert!(Anchor::eof().is_eof());
        assert!(Anchor::default().position().is_empty());
    }
}
