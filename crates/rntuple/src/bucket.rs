//! An object store of the S3 kind, as this crate uses one: what it has to be able to do, and how it fails.
//!
//! Whoever speaks the protocol implements [`Bucket`]; here is none that does, so that nothing of this crate waits on a runtime.

use core::fmt;
use core::time::Duration;
use dolmen_types::IoBuf;

/// Which bytes of an object are wanted.
#[derive(Debug)]
pub struct Read<'a> {
    /// The object's key, without the prefix of the bucket.
    pub key: &'a str,
    /// Where in it.
    pub offset: u64,
    /// Memory for them; at least one byte.
    pub into: &'a mut [u8],
}

/// An object that is to be written.
#[derive(Debug)]
pub struct Put {
    /// Its key, without the prefix of the bucket.
    pub key: String,
    /// All of its bytes.
    pub bytes: IoBuf,
}

/// What tells the contents of an object from what it had before: its `ETag`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tag(pub Box<str>);

/// An object that is read as a whole, unless it is what is known already.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Got {
    /// There is none of that key.
    None,
    /// It has the tag that is known.
    Same,
    /// Its bytes, and the tag that they have.
    Bytes(Vec<u8>, Tag),
}

/// What became of an object that was to be replaced under a condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Replaced {
    /// It was, and has this tag.
    Done(Tag),
    /// It was not: the condition did not hold, and no answer was lost.
    Refused,
    /// The condition did not hold when it was asked for again, since an answer was lost: it may have been, or may yet be.
    Doubtful,
}

impl Replaced {
    /// The tag that it has, if it is known that it was replaced.
    #[must_use]
    pub fn tag(self) -> Option<Tag> {
        match self {
            Self::Done(tag) => Some(tag),
            Self::Refused | Self::Doubtful => None,
        }
    }
}

/// An object in a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// Its key, without the prefix of the bucket.
    pub key: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// When it was written, in nanoseconds since 1970 of the store's clock.
    pub written_ns: u64,
}

/// An object that is written in parts, and was not completed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Upload {
    /// The object's key, without the prefix of the bucket.
    pub key: String,
    /// What tells it from others of the same key.
    pub id: Box<str>,
    /// When it was begun, in nanoseconds since 1970 of the store's clock.
    pub begun_ns: u64,
}

/// How a store of this kind fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// It could not be reached, or did not answer, however often it was asked.
    Unreachable,
    /// Whoever asks may not.
    Denied,
    /// There is no such bucket.
    NoBucket,
    /// What is asked for is nothing that it can do, or what was said of it is wrong.
    Invalid,
    /// It was not asked: this end refuses.
    Refused,
    /// It said that it failed.
    Other,
    /// Nobody waited for the answer any more.
    Stopped,
    /// The answer was lost, and what is there does not tell whether it was done.
    Doubtful,
}

/// Why a request failed.
#[derive(Debug)]
pub struct BucketError {
    /// How.
    pub failure: Failure,
    /// What was asked for: `get`, `put`, `list`, `delete`.
    pub doing: &'static str,
    /// The key, or what keys begin with.
    pub key: Box<str>,
    /// What the store said.
    pub source: Box<dyn core::error::Error + Send + Sync>,
}

impl fmt::Display for BucketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { failure, doing, key, .. } = self;
        let (why, remedy) = match failure {
            Failure::Unreachable => ("cannot be reached", "is its endpoint right (AWS_ENDPOINT_URL)?"),
            Failure::Denied => {
                ("does not allow it", "are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY those of the bucket?")
            }
            Failure::NoBucket => ("has no such bucket", "make it first"),
            Failure::Refused => return write!(f, "nothing is done in the object store ({doing} \"{key}\")"),
            Failure::Invalid => ("cannot do it", "are address and region right?"),
            Failure::Other => ("failed", "its own log says more"),
            Failure::Stopped => ("was not waited for", "what was asked for may have been done"),
            Failure::Doubtful => ("may have done it", "look whether it has before it is done again"),
        };
        write!(f, "the object store {why} ({doing} \"{key}\"); {remedy}")
    }
}

impl core::error::Error for BucketError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&*self.source)
    }
}

/// The result of a request.
pub type BucketResult<T> = core::result::Result<T, BucketError>;

/// Objects under a prefix of a bucket. Calls wait for their answers; any number of threads may call at once. What was written is seen by
/// every reading and list that begins afterwards, as S3 has it.
///
/// Requests that fail for a while are repeated within; so a conditional [`replace`](Self::replace) may have happened though the condition
/// did not hold at last: then it is [`Replaced::Doubtful`], and whoever asks for it has to find out by what is there.
// One implementor: the protocol is spoken by a crate above this one, which waits on a runtime; tests have one in memory.
pub trait Bucket: Send + Sync + fmt::Debug {
    /// The address, for messages: `s3://bucket/prefix`.
    fn address(&self) -> &str;

    /// An object as a whole, if it is not the one with the tag that is known.
    ///
    /// # Errors
    /// [`BucketError`], as of all others.
    fn get(&self, key: &str, known: Option<&Tag>) -> BucketResult<Got>;

    /// Fills the memory of all reads, side by side; for each how many bytes there were from its offset on, at most as many as it wants: 0 where
    /// there is no object.
    ///
    /// # Errors
    /// [`BucketError`].
    fn read(&self, reads: &mut [Read<'_>]) -> BucketResult<Vec<u64>>;

    /// Writes objects, side by side, large ones in parts; those that are there are replaced.
    ///
    /// # Errors
    /// [`BucketError`]: some may have been written.
    fn put(&self, puts: Vec<Put>) -> BucketResult<()>;

    /// Writes an object if it has the tag that is known, or, if none is known, if there is none; what became of it.
    ///
    /// # Errors
    /// [`BucketError`]: it may have been written.
    fn replace(&self, key: &str, known: Option<&Tag>, bytes: Vec<u8>) -> BucketResult<Replaced>;

    /// All objects whose keys begin with `prefix`, in the order of their keys.
    ///
    /// # Errors
    /// [`BucketError`].
    fn list(&self, prefix: &str) -> BucketResult<Vec<Object>>;

    /// Deletes objects; those that are not there are none.
    ///
    /// # Errors
    /// [`BucketError`]: some may be gone.
    fn delete(&self, keys: Vec<String>) -> BucketResult<()>;

    /// All objects whose keys begin with `prefix` that are written in parts and were not completed: their parts take space, and nobody sees them.
    ///
    /// # Errors
    /// [`BucketError`]: not all stores tell, nor everybody who may write.
    fn uploads(&self, prefix: &str) -> BucketResult<Vec<Upload>>;

    /// Ends one of these, and frees its parts.
    ///
    /// # Errors
    /// [`BucketError`].
    fn abandon(&self, upload: &Upload) -> BucketResult<()>;

    /// The time by the store's own clock, in nanoseconds since 1970, as its answers tell it; none before the first. It is the same for all who
    /// use the store, whatever their own clocks say.
    fn now_ns(&self) -> Option<u64>;

    /// Waits, since others were faster.
    fn pause(&self, time: Duration) {
        dolmen_env::wait(time);
    }
}
