//! Why a bucket cannot be opened, and how requests fail.

use core::error::Error as StdError;
use core::fmt;
use dolmen_rntuple::bucket::{BucketError, Failure};
use object_store::Error as Said;
use object_store::client::HttpError;

/// The result of opening.
pub type Result<T> = core::result::Result<T, Error>;

/// What is wrong with an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// It does not begin with `s3://`.
    Scheme,
    /// There is no name of a bucket, or it is none.
    Bucket,
    /// The prefix has an empty segment, `.`, `..` or a control character.
    Prefix,
    /// It names no object.
    Object,
}

/// Why a bucket cannot be opened.
#[derive(Debug)]
pub enum Error {
    /// The address is none.
    Address {
        /// As it was written.
        address: Box<str>,
        /// What is wrong.
        what: Wrong,
    },
    /// It is an address, but none of objects: nothing is read or written there.
    Scheme {
        /// As it was written.
        address: Box<str>,
    },
    /// The object would lie within a store of ntuples, which has all objects there, or at its address, which would be that of both.
    WithinStore {
        /// The object's.
        address: Box<str>,
        /// That of the store.
        store: Box<str>,
    },
    /// A store of ntuples would be made at the address of an object.
    AtObject {
        /// The address.
        address: Box<str>,
    },
    /// A store of ntuples would be made around another.
    AroundStore {
        /// Its address.
        address: Box<str>,
        /// That of the other.
        store: Box<str>,
    },
    /// There are no keys to sign with.
    NoKeys,
    /// The endpoint is no URL of `http` or `https`.
    Endpoint {
        /// As it was given.
        endpoint: Box<str>,
    },
    /// Certificates of who may be trusted cannot be read.
    Certificates {
        /// What was said.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// What requests are made with cannot be started.
    Start {
        /// What was said.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// There is no object there.
    NoObject {
        /// Where.
        address: Box<str>,
    },
    /// The first request failed.
    Bucket(BucketError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { address, what } => {
                let what = match what {
                    Wrong::Scheme => "it does not begin with s3://",
                    Wrong::Bucket => "it has no name of a bucket behind s3://",
                    Wrong::Prefix => "it has an empty segment, `.`, `..` or a control character",
                    Wrong::Object => "it names no object",
                };
                write!(f, "\"{address}\" is no address of objects: {what}; write s3://bucket/prefix")
            }
            Self::Scheme { address } => {
                let scheme = address.split("://").next().unwrap_or_default();
                write!(
                    f,
                    "at {scheme}:// nothing is read or written, only files of this machine and s3://bucket/path; {}",
                    Remedy { scheme, address }
                )
            }
            Self::WithinStore { address, store } if address == store => {
                write!(f, "{address} is a store of ntuples, which would not be found there any more; write it to another address")
            }
            Self::WithinStore { address, store } => {
                write!(f, "{address} lies within the store of ntuples {store}, which would be damaged; ")?;
                match store.trim_start_matches("s3://").contains('/') {
                    true => write!(f, "write it to another prefix, outside of {store}/"),
                    false => f.write_str("root, conditions, c/ and m/ are that store's: write it elsewhere in the bucket"),
                }
            }
            Self::AtObject { address } => {
                write!(f, "there is an object at {address}, which a store of ntuples would not be told from; make the store at another prefix")
            }
            Self::AroundStore { address, store } => {
                write!(f, "the store of ntuples {store} lies below {address}, and would not be found there any more; make the store at a prefix beside it")
            }
            Self::NoKeys => f.write_str(
                "there are no keys to sign requests with; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
                 AWS_SKIP_SIGNATURE=true for a bucket that everybody may read",
            ),
            Self::Endpoint { endpoint } => write!(
                f,
                "\"{endpoint}\" is no endpoint; write http://host:port or https://host (AWS_ENDPOINT_URL)"
            ),
            Self::Certificates { .. } => {
                f.write_str("certificates of authorities cannot be read; is AWS_CA_BUNDLE a file of PEM?")
            }
            Self::Start { .. } => f.write_str("what makes requests cannot be started"),
            Self::NoObject { address } => write!(f, "there is no object at {address}"),
            Self::Bucket(error) => error.fmt(f),
        }
    }
}

/// What is done with what is at an address of another kind.
struct Remedy<'a> {
    scheme: &'a str,
    address: &'a str,
}

impl fmt::Display for Remedy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, address } = self;
        match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" | "ftp" => write!(f, "fetch it first (curl -LO '{address}') and name the file"),
            "root" | "roots" | "xroot" | "xroots" => {
                write!(f, "fetch it first (xrdcp '{address}' .) and name the file")
            }
            "file" => f.write_str("name the file by its path alone"),
            "s3" => f.write_str("write s3:// in small letters"),
            _ => f.write_str("fetch it first and name the file"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Certificates { source } | Self::Start { source } => Some(&**source),
            Self::Bucket(error) => error.source(),
            Self::Address { .. }
            | Self::Scheme { .. }
            | Self::WithinStore { .. }
            | Self::AtObject { .. }
            | Self::AroundStore { .. }
            | Self::NoKeys
            | Self::Endpoint { .. }
            | Self::NoObject { .. } => None,
        }
    }
}

/// Whoever forks has its own connections: what was opened before is its parent's.
#[derive(Debug)]
pub(crate) struct Forked;

impl fmt::Display for Forked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it was opened before this process was forked; open it anew here")
    }
}

impl StdError for Forked {}

/// An answer that lacks what every store of this kind says.
#[derive(Debug)]
pub(crate) struct NoTag;

impl fmt::Display for NoTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer has no ETag, without which nobody sees whether an object was replaced")
    }
}

impl StdError for NoTag {}

/// An answer that cannot be right, and why.
#[derive(Debug)]
pub(crate) struct Untrue(pub(crate) &'static str);

impl fmt::Display for Untrue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl StdError for Untrue {}

/// The same, as the library says what failed.
pub(crate) fn untrue(why: &'static str) -> Said {
    Said::Generic { store: "S3", source: Box::new(Untrue(why)) }
}

/// An answer that is none of success, in the words of the library.
pub(crate) fn failed_status(status: u16, body: &str) -> Said {
    let source = format!("Server {NON_SUCCESS}{status}: {body}").into();
    Said::Generic { store: "S3", source }
}

/// An object of parts of which nobody can tell whether it was made.
#[derive(Debug)]
struct NotKnown(Said);

impl fmt::Display for NotKnown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "it is not known whether the object was made of its parts: there is no such upload any more, and what is there does not say that it \
             is it; look at it, or write it again",
        )
    }
}

impl StdError for NotKnown {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

/// The same, as the library says what failed, after it was told that there is no such upload.
pub(crate) fn not_known(said: Said) -> Said {
    Said::Generic { store: "S3", source: Box::new(NotKnown(said)) }
}

/// What a request failed with.
pub(crate) fn failed(doing: &'static str, key: &str, said: Said) -> BucketError {
    BucketError { failure: failure(&said), doing, key: key.into(), source: Box::new(said) }
}

/// An answer that nothing is there, of who does not say what.
#[derive(Debug)]
struct Elsewhere {
    bucket: Box<str>,
    said: Said,
}

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bucket, said } = self;
        write!(
            f,
            "the answer was 404, and not that of an object store: is the endpoint where the protocol of S3 is spoken, and is there a bucket \
             \"{bucket}\"? ({said})"
        )
    }
}

impl StdError for Elsewhere {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.said)
    }
}

/// The same, of something in a bucket.
pub(crate) fn failed_in(bucket: &str, doing: &'static str, key: &str, said: Said) -> BucketError {
    let failure = failure(&said);
    let is_told = matches!(failure, Failure::NoBucket | Failure::Doubtful);
    let is_elsewhere = !is_told && answer(&said).is_some_and(|(status, _)| status == 404);
    let source: Box<dyn StdError + Send + Sync> =
        if is_elsewhere { Box::new(Elsewhere { bucket: bucket.into(), said }) } else { Box::new(said) };
    BucketError { failure, doing, key: key.into(), source }
}

/// Whether there is nothing of that key in a bucket that is there. Only the store itself knows: others on the way to it, or at a wrong address,
/// answer 404 as well, and what they say is no reason to take a store of ntuples for an empty one.
pub(crate) fn is_absent(said: &Said) -> bool {
    answer(said).is_some_and(|(status, body)| status == 404 && body.contains(NO_KEY))
}

/// Whether what was written in parts was ended, or completed.
pub(crate) fn is_no_upload(said: &Said) -> bool {
    answer(said).is_some_and(|(status, body)| status == 404 && body.contains("<Code>NoSuchUpload</Code>"))
}

/// Whether a range begins behind the end of its object.
pub(crate) fn is_behind_the_end(said: &Said) -> bool {
    answer(said).is_some_and(|(status, _)| status == 416)
}

/// Whether the condition of a request did not hold. One that is gone has not the tag that is known: Amazon answers 404 then, which the library takes
/// for refused, whoever says it.
pub(crate) fn is_refused(said: &Said) -> bool {
    let is_of_store = || answer(said).is_none_or(|(status, body)| status != 404 || body.contains(NO_KEY));
    matches!(said, Said::AlreadyExists { .. } | Said::Precondition { .. }) && is_of_store()
}

/// What the library says before the status of an answer.
const NON_SUCCESS: &str = "returned non-2xx status code: ";

/// The word for a bucket that is not there.
const NO_BUCKET: &str = "<Code>NoSuchBucket</Code>";

/// The word for an object that is not there.
const NO_KEY: &str = "<Code>NoSuchKey</Code>";

fn failure(said: &Said) -> Failure {
    if causes(said).any(|cause| cause.is::<HttpError>()) {
        return Failure::Unreachable;
    }
    if causes(said).any(|cause| cause.is::<NotKnown>()) {
        return Failure::Doubtful;
    }
    match said {
        _ if says(said, NO_BUCKET) => Failure::NoBucket,
        Said::PermissionDenied { .. } | Said::Unauthenticated { .. } => Failure::Denied,
        Said::InvalidPath { .. } | Said::NotSupported { .. } | Said::NotImplemented { .. } => {
            Failure::Invalid
        }
        // What is said of one of many that are to be deleted has no status.
        _ if says(said, "AccessDenied") => Failure::Denied,
        _ => match answer(said).map(|(status, _)| status) {
            Some(401 | 403) => Failure::Denied,
            // What is moved is in another region.
            Some(300..500) => Failure::Invalid,
            _ => Failure::Other,
        },
    }
}

/// Status and body of an answer that is none of success. The library has no other way to tell them than in words.
fn answer(said: &Said) -> Option<(u16, String)> {
    causes(said).find_map(|cause| {
        // In what is told of those above it there may be keys.
        if cause.source().is_some() {
            return None;
        }
        let words = cause.to_string();
        let (_, behind) = words.split_once(NON_SUCCESS)?;
        let (status, body) = behind.split_at_checked(3)?;
        Some((status.parse().ok()?, body.to_owned()))
    })
}

fn says(said: &Said, word: &str) -> bool {
    causes(said).any(|cause| cause.to_string().contains(word))
}

/// It and what caused it.
fn causes<'a>(said: &'a Said) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    core::iter::successors(Some(said as &(dyn StdError + 'static)), |&error| error.source())
}
