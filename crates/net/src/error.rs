//! Why a connection cannot be made or kept.

use crate::client::reach::ServedFrom;
use core::fmt;
use std::path::PathBuf;

/// A result of this crate.
pub type Result<T> = core::result::Result<T, Error>;

/// Why a connection cannot be made or kept. Each variant is one that a caller acts on differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The system refused.
    Env(dolmen_env::Error),
    /// The other end is gone.
    Ended,
    /// The other end has sent what no honest one does.
    Protocol(Violation),
    /// The other end does not answer in time.
    TimedOut,
    /// The other end refused.
    Refused(dolmen_types::Error),
    /// The other end takes no connection.
    Unwelcome(dolmen_codec::wire::Refusal),
    /// A system of this name is served from these directories, where nobody is.
    Nobody {
        /// The name.
        name: String,
        /// The directories, at least one.
        places: Vec<ServedFrom>,
    },
    /// There is no system of this name.
    Unknown {
        /// The name.
        name: String,
    },
    /// The machine has a system of this name at this socket, where nobody is.
    MachineNobody {
        /// The name.
        name: String,
        /// The socket.
        socket: PathBuf,
    },
    /// A certificate is missing.
    NoCertificate(Lack),
    /// A certificate, or a file that goes with it, is of no use.
    BadCertificate {
        /// Who has it.
        whose: Whose,
        /// What is wrong with it.
        fault: CertFault,
    },
}

/// Who has no certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// This process: the other end asks for one.
    Own,
    /// The other end.
    Peer,
    /// The directory that was named for them.
    Directory {
        /// Which.
        path: PathBuf,
        /// The file that it lacks.
        file: &'static str,
    },
}

/// Who has a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// This process.
    Own,
    /// The other end.
    Peer,
}

/// What is wrong with a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertFault {
    /// Its time is over.
    Expired,
    /// Its time has not begun: one of both clocks is wrong.
    NotYet,
    /// Another authority has made it.
    Foreign,
    /// It is for something else: a client's where an engine's is needed, or the reverse.
    Role,
    /// Who runs the system has revoked it.
    Revoked,
    /// The other end does not say what it has against it.
    Refused,
    /// Its file cannot be read as what it has to be.
    File {
        /// Which.
        path: PathBuf,
    },
    /// The file with its key can be read by others than its owner.
    Open {
        /// Which.
        path: PathBuf,
    },
}

/// What a peer has done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// Indices of the shared memory that cannot be.
    Ring,
    /// A frame that cannot be read.
    Frame,
    /// A frame that has changed on the way.
    Damage,
    /// A version that this program does not speak.
    Version,
    /// An answer to nothing that was asked, or of another kind.
    Answer,
    /// More than a connection may have under way.
    Limit,
    /// Bytes that are no TLS 1.3.
    Tls,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ring => "it has written indices of the shared memory that cannot be",
            Self::Frame => "it has sent a frame that cannot be read",
            Self::Damage => "a frame has changed on the way: a checksum does not match",
            Self::Version => "it speaks another version of the protocol; use programs of the same release",
            Self::Answer => "it has answered what was not asked",
            Self::Limit => "it has more under way than a connection may have",
            Self::Tls => "it has sent what is no TLS 1.3",
        })
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str(
                "the other end asks for a certificate; name the directory that has one in DOLMEN_CERTS, as \
                 `dolmen system certs` has made it",
            ),
            Self::Peer => f.write_str(
                "the other end has no certificate; serve with --certs there, or connect without certificates",
            ),
            Self::Directory { path, file } => {
                write!(f, "{} has no {file}; make certificates with `dolmen system certs`", path.display())
            }
        }
    }
}

fn tell_fault(whose: Whose, fault: &CertFault, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let whose = match whose {
        Whose::Own => "this process's",
        Whose::Peer => "the other end's",
    };
    match fault {
        CertFault::Expired => {
            write!(f, "{whose} certificate has expired; make a new one with `dolmen system certs`")
        }
        CertFault::NotYet => {
            write!(f, "{whose} certificate is not valid yet; see that the clocks of both machines are right")
        }
        CertFault::Foreign => write!(
            f,
            "{whose} certificate is of another authority; use those that one `dolmen system certs` has made"
        ),
        CertFault::Role => write!(
            f,
            "{whose} certificate is for something else; engines need that of the engines, clients a user's or the \
             administrators'"
        ),
        CertFault::Revoked => {
            write!(f, "{whose} certificate was revoked; whoever runs the system makes a new one")
        }
        CertFault::Refused => {
            write!(f, "{whose} certificate is refused; see what `dolmen system certs --show` says of it")
        }
        CertFault::File { path } => {
            write!(
                f,
                "{} cannot be read as what it is to be; make it with `dolmen system certs`",
                path.display()
            )
        }
        CertFault::Open { path } => {
            write!(f, "others than its owner may read {}; chmod it to 0600", path.display())
        }
    }
}

/// From where a system is served, and what serves it again.
fn tell_nobody(name: &str, places: &[ServedFrom], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let all: Vec<String> = places.iter().map(|place| place.dir.display().to_string()).collect();
    write!(f, "system {name} is served from {}, and nobody is there: start ", all.join(" and "))?;
    for (at, place) in places.iter().enumerate() {
        let and = if at == 0 { "" } else { " and " };
        write!(f, "{and}`dolmen serve {}", word(&place.dir.display().to_string()))?;
        // Records of older releases have the directory alone.
        let by_name = [String::from("--name"), name.to_owned()];
        let words = if place.words.is_empty() { &by_name[..] } else { &place.words };
        words.iter().try_for_each(|text| write!(f, " {}", word(text)))?;
        f.write_str("`")?;
    }
    Ok(())
}

/// A word as a shell takes it.
fn word(text: &str) -> std::borrow::Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:=,@%".contains(&byte);
    match text.bytes().all(is_plain) && !text.is_empty() {
        true => text.into(),
        false => format!("'{}'", text.replace('\'', "'\\''")).into(),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(error) => error.fmt(f),
            Self::Ended => f.write_str("the other end of the connection is gone"),
            Self::Protocol(violation) => write!(f, "the other end breaks the protocol: {violation}"),
            Self::TimedOut => f.write_str("the other end does not answer in time"),
            Self::Refused(error) => error.fmt(f),
            Self::Nobody { name, places } => tell_nobody(name, places, f),
            Self::Unknown { name } => write!(
                f,
                "neither this user nor this machine has a system {name}: `dmg -G {name} pool create` begins one with its \
                 first pool, and `dolmen serve DIR --name {name}` serves a directory by that name"
            ),
            Self::MachineNobody { name, socket } => write!(
                f,
                "system {name} of this machine does not run at {}: whoever runs the machine starts it (`systemctl start \
                 dolmen@{name}`)",
                socket.display()
            ),
            Self::Unwelcome(refusal) => write!(f, "the other end refuses the connection: {refusal}"),
            Self::NoCertificate(lack) => lack.fmt(f),
            Self::BadCertificate { whose, fault } => tell_fault(*whose, fault, f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Env(error) => Some(error),
            Self::Refused(error) => Some(error),
            Self::Ended
            | Self::Protocol(_)
            | Self::TimedOut
            | Self::Unwelcome(_)
            | Self::Nobody { .. }
            | Self::Unknown { .. }
            | Self::MachineNobody { .. }
            | Self::NoCertificate(_)
            | Self::BadCertificate { .. } => None,
        }
    }
}

impl From<dolmen_env::Error> for Error {
    fn from(error: dolmen_env::Error) -> Self {
        Self::Env(error)
    }
}

impl From<crate::ring::Broken> for Error {
    fn from(_: crate::ring::Broken) -> Self {
        Self::Protocol(Violation::Ring)
    }
}
