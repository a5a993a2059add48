//! Why bytes are no frame. Whoever reads one from a peer closes that connection, and nothing else.

use core::fmt;

/// What is wrong with a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadFrame {
    /// It does not begin as a frame of its direction does.
    Magic,
    /// It is of a version that was not agreed on.
    Version {
        /// The version that it has.
        found: u16,
    },
    /// The checksum of its header does not match.
    Checksum,
    /// The checksum of its body does not match.
    BodySum,
    /// The checksum of its payload does not match.
    PayloadSum,
    /// A flag that nobody knows is set, or a field is not zero that has to be.
    Reserved,
    /// No message has this number.
    Kind {
        /// The number.
        number: u16,
    },
    /// Body or payload are longer than any frame's.
    TooLong {
        /// What the header says.
        bytes: u64,
    },
    /// The body is none of its kind.
    Body {
        /// The number of the kind.
        kind: u16,
    },
    /// The payload does not have the length that the body says.
    Payload {
        /// Its length.
        bytes: u64,
    },
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => f.write_str("no frame begins like this"),
            Self::Version { found } => write!(f, "a frame of version {found}, which was not agreed on"),
            Self::Checksum => f.write_str("the header's checksum does not match"),
            Self::BodySum => f.write_str("the body's checksum does not match"),
            Self::PayloadSum => f.write_str("the payload's checksum does not match"),
            Self::Reserved => f.write_str("an unknown flag is set, or a field that must be zero is not"),
            Self::Kind { number } => write!(f, "no message has the number {number:#06x}"),
            Self::TooLong { bytes } => write!(f, "{bytes} bytes are more than a frame may have"),
            Self::Body { kind } => write!(f, "the body is none of a message {kind:#06x}"),
            Self::Payload { bytes } => write!(f, "{bytes} bytes of payload are not what the body says"),
        }
    }
}

impl std::error::Error for BadFrame {}
