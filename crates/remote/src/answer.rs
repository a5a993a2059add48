//! Bytes of an answer: as many as it says, or an error.

use crate::error::untrue;
use futures_util::StreamExt;
use object_store::{GetResult, Result as Answer};

/// Bytes of an object that is read as a whole, for which memory is taken before they come.
const TAKEN_BYTES_MAX: u64 = 1 << 20;

/// Gives what comes to `take`, with how many bytes came before it; how many there were. The range of the answer has been compared with that of
/// the question by the library; the bytes are compared with the range here.
pub(crate) async fn taken(got: GetResult, mut take: impl FnMut(u64, &[u8])) -> Answer<u64> {
    let told = got.range.end.saturating_sub(got.range.start);
    let mut count = 0;
    let mut bytes = got.into_stream();
    while let Some(some) = bytes.next().await {
        let some = some?;
        if some.len() as u64 > told - count {
            return Err(untrue("the answer has more bytes than were asked for"));
        }
        take(count, &some);
        count += some.len() as u64;
    }
    if count < told {
        return Err(untrue("the answer has fewer bytes than it says"));
    }
    Ok(count)
}

/// All bytes that come.
pub(crate) async fn all(got: GetResult) -> Answer<Vec<u8>> {
    let told = got.range.end.saturating_sub(got.range.start);
    let mut all = Vec::with_capacity(usize::try_from(told.min(TAKEN_BYTES_MAX)).unwrap_or(0));
    taken(got, |_, some| all.extend_from_slice(some)).await?;
    Ok(all)
}
