//! What both ends of a connection have agreed on for its frames.

use crate::stream::Stream;
use dolmen_codec::wire::Version;

/// What holds for all frames of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Terms {
    pub(crate) version: Version,
    /// Whether the payload of a request is followed by its checksum.
    pub(crate) sums_requests: bool,
    /// The same of a reply.
    pub(crate) sums_replies: bool,
}

impl Default for Terms {
    /// Those of a connection that has not agreed on any yet.
    fn default() -> Self {
        Self { version: Version::NEWEST, sums_requests: false, sums_replies: false }
    }
}

impl Terms {
    /// Those of frames of `version` that go through `stream`. What goes under TLS has its sum there; and a reader of rings,
    /// who copies as fast as memory allows, would take a sixth longer.
    pub(crate) fn of(version: Version, stream: &Stream) -> Self {
        let sums_requests = version.has_sums() && !stream.is_tls();
        Self { version, sums_requests, sums_replies: sums_requests && !stream.is_ring() }
    }
}
