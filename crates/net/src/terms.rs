//! What both ends of a connection have agreed on for its frames.

use crate::stream::Stream;
use dolmen_codec::wire::Version;

/// What holds for all frames of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Terms {
    pub(crate) version: Version,
    /// Whether a payload is followed by its checksum.
    pub(crate) has_payload_sums: bool,
}

impl Default for Terms {
    /// Those of a connection that has not agreed on any yet.
    fn default() -> Self {
        Self { version: Version::NEWEST, has_payload_sums: false }
    }
}

impl Terms {
    /// Those of frames of `version` that go through `stream`. What goes under TLS has its sum there.
    pub(crate) fn of(version: Version, stream: &Stream) -> Self {
        Self { version, has_payload_sums: version.has_sums() && !stream.is_tls() }
    }
}
