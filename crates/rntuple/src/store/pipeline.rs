//! Updates that are under way while others are made: as many bytes of them as memory is to be had for.
//!
//! Invariants: what is under way was taken on, and is driven by whoever adds to it or waits; after an error nothing more is added.

use crate::error::Result;
use core::pin::Pin;
use core::task::Poll;
use dolmen_client::{At, Cond, Epoch, IoBuf, Key, NewValue, Object, Payload, Recx, UpdateIod, Way};

/// Bytes under way at most: enough for a second of a slow network, a fraction of what a cluster has in memory.
const BYTES_MAX: usize = 32 << 20;

type Flight = Pin<Box<dyn Future<Output = dolmen_client::Result<Epoch>> + Send>>;

/// Updates under way.
#[derive(Default)]
pub(super) struct Pipeline {
    flights: Vec<(usize, Flight)>,
    bytes: usize,
}

impl Pipeline {
    /// Writes bytes at the start of an array value, when there is room for them.
    pub(super) fn write(
        &mut self,
        object: Object,
        dkey: Vec<u8>,
        akey: &'static [u8],
        buf: IoBuf,
    ) -> Result<()> {
        let bytes = buf.len();
        if bytes == 0 {
            return Ok(());
        }
        while !self.flights.is_empty() && self.bytes + bytes > BYTES_MAX {
            self.drive()?;
        }
        let extents = smallvec::smallvec![Recx::new(0, bytes as u64)];
        let value = NewValue::Array { record_bytes: 1, extents, data: Payload::Owned(buf) };
        let iods = [UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value }];
        let flight = async move { object.update_by(Way::Later, At::Latest, &dkey, Cond::NONE, &iods).await };
        self.flights.push((bytes, Box::pin(flight)));
        self.bytes += bytes;
        self.step()
    }

    /// Waits for all that is under way.
    pub(super) fn finish(&mut self) -> Result<()> {
        while !self.flights.is_empty() {
            self.drive()?;
        }
        Ok(())
    }

    /// Goes on until something is done.
    fn drive(&mut self) -> Result<()> {
        let before = self.flights.len();
        loop {
            self.step()?;
            if self.flights.len() < before {
                return Ok(());
            }
            dolmen_env::yield_now();
        }
    }

    /// Polls all once.
    fn step(&mut self) -> Result<()> {
        let mut at = 0;
        while at < self.flights.len() {
            let Poll::Ready(done) = dolmen_codec::step(&mut self.flights[at].1) else {
                at += 1;
                continue;
            };
            let (bytes, _) = self.flights.remove(at);
            self.bytes -= bytes;
            done?;
        }
        Ok(())
    }
}

impl core::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pipeline").field("under_way", &self.flights.len()).finish_non_exhaustive()
    }
}
