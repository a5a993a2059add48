//! Placement as a whole: balance, movement, spread.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise, also in what tests share")]

mod placement;
