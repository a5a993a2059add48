//! Where bytes come from.

use crate::error::{Error, Fault, Result, Structure};
use crate::format::locator::{Link, Locator};
use crate::zone::Zone;

/// Bytes of pages that are fetched at once where a request takes no time: what they become fits in caches.
pub(crate) const FETCH_BYTES_MAX: u64 = 8 << 20;

/// Bytes between two pages of a file that are rather read than asked for anew.
pub(crate) const GAP_BYTES: u64 = 32 << 10;

/// Bytes that are wanted.
#[derive(Debug)]
pub struct Want<'a> {
    /// Where they are; its length is that of the memory at most.
    pub locator: Locator,
    /// Memory for them.
    pub into: &'a mut [u8],
}

/// What has the bytes of an ntuple. All wants of one call are known before the first is served, so that a source makes
/// of them as few requests as it can.
pub trait Source: Send + Sync {
    /// Fills all memory that is wanted.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Corrupt`] where there are fewer bytes; [`Error::Unsupported`] of a place of a kind that this source has not.
    fn fetch(&self, wants: &mut [Want<'_>]) -> Result<()>;

    /// Looks whether `bytes` can be there, before memory is taken for them.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    fn holds(&self, locator: Locator, bytes: u64) -> Result<()>;

    /// Bytes of pages that are fetched before they are decoded. What they become should still be in a cache of the processor; a source
    /// whose requests take long has more of them under way at once.
    fn fetch_bytes_max(&self) -> u64 {
        FETCH_BYTES_MAX
    }

    /// Zones of the pages of lists, one behind the other, if they are kept there.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    fn zones(&self, _lists: &[Link]) -> Result<Option<Vec<Option<Zone>>>> {
        Ok(None)
    }

    /// Bytes between two pages of one place that are rather read than asked for anew: all that there are, if what is wanted of a place is one request
    /// anyway.
    fn gap_bytes(&self) -> u64 {
        GAP_BYTES
    }

    /// Whether pages of several columns are one request, so that all that a cluster is to give is better asked for at once.
    fn has_groups(&self) -> bool {
        false
    }

    /// Whether a fetch waits longer than it works: then the next one is under way, in a thread of its own, while what came is decoded.
    fn is_far(&self) -> bool {
        false
    }
}

/// Whether a file of `length_bytes` has `bytes` where the locator says.
pub(crate) fn within(locator: Locator, bytes: u64, length_bytes: u64) -> Result<()> {
    let offset = file_offset(locator)?;
    let left_bytes = length_bytes.saturating_sub(offset);
    if bytes <= left_bytes {
        return Ok(());
    }
    let fault = Fault::Short { wanted_bytes: bytes, left_bytes };
    Err(Error::Corrupt { structure: Structure::File, offset, fault })
}

/// A file whose bytes are in memory.
#[derive(Clone, Debug)]
pub struct Memory {
    bytes: Box<[u8]>,
}

impl Memory {
    /// The file with these bytes.
    #[must_use]
    pub fn new(bytes: Box<[u8]>) -> Self {
        Self { bytes }
    }
}

impl Source for Memory {
    fn fetch(&self, wants: &mut [Want<'_>]) -> Result<()> {
        for want in wants {
            let offset = file_offset(want.locator)?;
            let rest = usize::try_from(offset).ok().and_then(|at| self.bytes.get(at..)).unwrap_or(&[]);
            let Some(part) = rest.get(..want.into.len()) else {
                return Err(short(offset, want.into.len(), rest.len()));
            };
            want.into.copy_from_slice(part);
        }
        Ok(())
    }

    fn holds(&self, locator: Locator, bytes: u64) -> Result<()> {
        within(locator, bytes, self.bytes.len() as u64)
    }
}

/// Where in the file it is.
pub(crate) fn file_offset(locator: Locator) -> Result<u64> {
    match locator {
        Locator::File { offset, .. } => Ok(offset),
        Locator::Stored { .. } => Err(elsewhere(0x40)),
        Locator::Unknown { kind } => Err(elsewhere(kind)),
    }
}

fn elsewhere(kind: u8) -> Error {
    let feature = crate::error::Feature::Locator(kind);
    Error::Unsupported { structure: Structure::File, offset: 0, feature }
}

/// The error that the file ends before what has to be there.
pub(crate) fn short(offset: u64, wanted: usize, left: usize) -> Error {
    let fault = Fault::Short { wanted_bytes: wanted as u64, left_bytes: left as u64 };
    Error::Corrupt { structure: Structure::File, offset, fault }
}
