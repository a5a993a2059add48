//! Updates that are under way while others are made: as many bytes of them as memory is to be had for.
//!
//! Invariants: what is under way was taken on, and is driven by whoever adds to it or waits; after an error all that follows is one, so that
//! nobody makes a version of what is not there.

use super::home::Home;
use super::home::bucket::{BucketHome, group_key};
use super::place;
use crate::bucket::Put;
use crate::error::{Error, Result};
use core::pin::Pin;
use core::task::Poll;
use dolmen_client::{
    At, Cond, Container, Epoch, IoBuf, Key, NewValue, ObjectClass, Payload, Recx, UpdateIod, Way,
};

/// Bytes under way at most: enough for a second of a slow network, a fraction of what a cluster has in memory.
const BYTES_MAX: usize = 32 << 20;

/// The same for a bucket, to which they go together.
const PUT_BYTES_MAX: usize = 64 << 20;

type Flight = Pin<Box<dyn Future<Output = dolmen_client::Result<Epoch>> + Send>>;

/// Groups on their way to where they are kept.
#[derive(Debug)]
pub(super) struct Pipeline {
    way: To,
    /// Whether something of it was not written.
    is_broken: bool,
}

#[derive(Debug)]
enum To {
    Container(Flights),
    Bucket(Puts),
}

/// Updates under way.
struct Flights {
    cont: Container,
    flights: Vec<(usize, Flight)>,
    bytes: usize,
}

/// Objects that wait to go together.
#[derive(Debug)]
struct Puts {
    home: BucketHome,
    puts: Vec<Put>,
    bytes: usize,
}

impl Pipeline {
    pub(super) fn new(home: &Home) -> Self {
        let way = match home {
            Home::Container(cont) => {
                To::Container(Flights { cont: cont.clone(), flights: Vec::new(), bytes: 0 })
            }
            Home::Bucket(home) => To::Bucket(Puts { home: home.clone(), puts: Vec::new(), bytes: 0 }),
        };
        Self { way, is_broken: false }
    }

    /// Writes a group of a cluster, when there is room for it.
    ///
    /// # Errors
    /// [`Error::Lost`] from the first error on; [`Error::Stopped`], and the group is not written.
    pub(super) fn write(
        &mut self,
        class: ObjectClass,
        (object, group): (u64, u32),
        buf: IoBuf,
    ) -> Result<()> {
        crate::stop::check()?;
        self.go_on(|way| match way {
            To::Container(flights) => flights.write(class, (object, group), buf),
            To::Bucket(puts) => {
                puts.bytes += buf.len();
                puts.puts.push(Put { key: group_key(object, group), bytes: buf });
                if puts.bytes > PUT_BYTES_MAX { puts.finish() } else { Ok(()) }
            }
        })
    }

    /// Waits for all that is under way.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub(super) fn finish(&mut self) -> Result<()> {
        self.go_on(|way| match way {
            To::Container(flights) => flights.finish(),
            To::Bucket(puts) => puts.finish(),
        })
    }

    /// Ends what is under way, which nobody wants any more: what waits for others is not written.
    pub(super) fn give_up(self) {
        if let To::Container(mut flights) = self.way {
            // Ignored: whether it was written or not, it is to be freed. Each error is the end of one that was under way.
            while !flights.flights.is_empty() {
                let _ended = flights.drive();
            }
        }
    }

    fn go_on(&mut self, act: impl FnOnce(&mut To) -> Result<()>) -> Result<()> {
        if self.is_broken {
            return Err(Error::Lost);
        }
        let done = act(&mut self.way);
        self.is_broken = done.is_err();
        done
    }
}

impl Puts {
    fn finish(&mut self) -> Result<()> {
        self.bytes = 0;
        let puts = core::mem::take(&mut self.puts);
        if puts.is_empty() { Ok(()) } else { Ok(self.home.bucket().put(puts)?) }
    }
}

impl Flights {
    fn write(&mut self, class: ObjectClass, (object, group): (u64, u32), buf: IoBuf) -> Result<()> {
        let bytes = buf.len();
        while !self.flights.is_empty() && self.bytes + bytes > BYTES_MAX {
            self.drive()?;
        }
        let (object, dkey) = (place::cluster(&self.cont, class, object)?, place::group(group));
        let extents = smallvec::smallvec![Recx::new(0, bytes as u64)];
        let value = NewValue::Array { record_bytes: 1, extents, data: Payload::Owned(buf) };
        let iods = [UpdateIod { akey: Key::from_slice(place::PAGES), cond: Cond::NONE, value }];
        let flight = async move { object.update_by(Way::Later, At::Latest, &dkey, Cond::NONE, &iods).await };
        self.flights.push((bytes, Box::pin(flight)));
        self.bytes += bytes;
        self.step()
    }

    fn finish(&mut self) -> Result<()> {
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

impl core::fmt::Debug for Flights {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Flights").field("under_way", &self.flights.len()).finish_non_exhaustive()
    }
}
