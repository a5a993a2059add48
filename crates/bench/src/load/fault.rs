//! Failures of a process of a load, as it tells them to the one that has started it.

use super::daos;
use crate::error::Error;
use core::fmt;
use serde::{Deserialize, Serialize};

/// Why a process of a load could not go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Fault {
    /// A function of the C interface failed.
    Call {
        function: String,
        on: String,
        number: i32,
    },
    Differs(Difference),
    /// Anything else, which it has printed.
    Other,
}

/// Data that are not those that were written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// What was read.
    pub what: String,
    /// Where in it the first difference is.
    pub offset_bytes: u64,
    /// What is to be there; less than eight bytes at the end, none if only the size is known to be wrong.
    pub expected: Vec<u8>,
    /// What is there; nothing behind the end.
    pub found: Vec<u8>,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::Call { function, on, number } => Self::Call { function, on, number },
            Error::Differs(difference) => Self::Differs(*difference),
            other => {
                eprintln!("dolmen bench: {other}");
                Self::Other
            }
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Call { function, on, number } => Self::Call { function, on, number },
            Fault::Differs(difference) => Self::Differs(Box::new(difference)),
            Fault::Other => Self::Child { scenario: "the load".to_owned() },
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, offset_bytes, expected, found } = self;
        if expected.is_empty() {
            return write!(f, "{what} is wrong");
        }
        write!(f, "{what} differs at byte {offset_bytes}: expected {}, ", Hex(expected))?;
        if found.is_empty() { f.write_str("it ends there") } else { write!(f, "found {}", Hex(found)) }
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A failed function, for people.
pub(crate) fn call_text(f: &mut fmt::Formatter<'_>, function: &str, on: &str, number: i32) -> fmt::Result {
    let on = if on.is_empty() { String::new() } else { format!(" of {on}") };
    write!(f, "{function}{on}: {} ({number})", daos::meaning(number))
}
