//! What an attribute of a mount's root says of who serves it.

use crate::fs::{Done, Reply, tell_sized};
use core::sync::atomic::{AtomicBool, Ordering};

/// Lines for other programs of the same machine. Any number of threads may ask at once.
#[derive(Debug)]
pub(crate) struct About {
    text: String,
    is_over_ring: AtomicBool,
}

impl About {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), is_over_ring: AtomicBool::new(false) }
    }

    /// The kernel's requests come over `io_uring`.
    pub(crate) fn set_over_ring(&self) {
        self.is_over_ring.store(true, Ordering::Relaxed);
    }

    /// The lines, for who has so much room.
    pub(crate) fn tell(&self, room_bytes: u32, reply: &mut Reply) -> Done {
        let way = if self.is_over_ring.load(Ordering::Relaxed) { "io_uring" } else { "device" };
        let end = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { "\n" };
        tell_sized(format!("{}{end}requests {way}\n", self.text).as_bytes(), room_bytes, reply)
    }
}
