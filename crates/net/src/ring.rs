//! Two rings of bytes in shared memory, one each way: a stream between two processes without a system call.
//!
//! The layout is in docs/format/wire.md. A ring's writer alone moves its tail, its reader alone its head; both count
//! bytes since the beginning, so that tail minus head is what lies in the ring.
//!
//! Invariants: what a side has counted itself is never read back from the memory; what the other side says is checked
//! before it is used: it may neither go back nor be further away than the ring is long. Who goes to sleep raises its flag
//! and looks once more; who moves tail or head looks at the flag afterwards: one of them sees the other.

use dolmen_env::SharedMemory;

/// Where the words of the first ring are; those of the second follow.
const CONTROL_AT: usize = 4096;

/// Between the words of the rings.
const CONTROL_BYTES: usize = 1024;

/// Words on cache lines of their own; adjacent lines are fetched in pairs.
const HEAD_AT: usize = 128;
const READER_ASLEEP_AT: usize = 256;
const WRITER_ASLEEP_AT: usize = 384;

/// Where the reader runs: the number of its processor and one more.
const READER_CPU_AT: usize = 512;

/// Where the bytes of the first ring are.
const DATA_AT: usize = 8192;

/// A long write tells the reader of each such piece: both sides then copy at once, and a piece is in the cache still.
pub(crate) const PIECE_BYTES: usize = 16 << 10;

/// The smallest ring: a header with the largest small value fits several times.
pub const RING_BYTES_MIN: usize = 16 << 10;

/// The largest: more does not stay in any cache.
pub const RING_BYTES_MAX: usize = 16 << 20;

/// The other side has written what no honest one does; the connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// What the rings need of memory.
///
/// One implementor: the second is the model with which the tests look at all orders of its accesses.
pub trait Memory {
    /// Reads a word, and with it all that was written before it.
    fn load(&self, at: usize) -> u64;
    /// Writes a word after all that was written before.
    fn store(&self, at: usize, word: u64);
    /// Writes a flag in one order with everything around it.
    fn raise(&self, at: usize, flag: bool);
    /// Takes a flag down, in one order with everything around it; whether it was up.
    fn take(&self, at: usize) -> bool;
    /// Copies bytes into it.
    fn copy_in(&self, at: usize, bytes: &[u8]);
    /// Copies bytes out of it.
    fn copy_out(&self, at: usize, bytes: &mut [u8]);
}

impl Memory for SharedMemory {
    #[inline]
    fn load(&self, at: usize) -> u64 {
        self.load(at)
    }
    #[inline]
    fn store(&self, at: usize, word: u64) {
        self.store(at, word);
    }
    #[inline]
    fn raise(&self, at: usize, flag: bool) {
        self.raise(at, flag);
    }
    #[inline]
    fn take(&self, at: usize) -> bool {
        self.take(at)
    }
    #[inline]
    fn copy_in(&self, at: usize, bytes: &[u8]) {
        self.copy_in(at, bytes);
    }
    #[inline]
    fn copy_out(&self, at: usize, bytes: &mut [u8]) {
        self.copy_out(at, bytes);
    }
}

/// Bytes of memory that two rings of `ring_bytes` each take.
///
/// # Panics
/// Unless `ring_bytes` is a power of two between [`RING_BYTES_MIN`] and [`RING_BYTES_MAX`].
#[must_use]
pub fn memory_bytes(ring_bytes: usize) -> usize {
    assert!(ring_bytes.is_power_of_two());
    assert!((RING_BYTES_MIN..=RING_BYTES_MAX).contains(&ring_bytes));
    DATA_AT + 2 * ring_bytes
}

/// One side's view of where a ring lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    control: usize,
    data: usize,
    size: usize,
}

impl Place {
    fn of(ring: usize, size: usize) -> Self {
        Self { control: CONTROL_AT + ring * CONTROL_BYTES, data: DATA_AT + ring * size, size }
    }

    /// Bytes of room for which a writer is called that sleeps.
    fn worth_a_call(self) -> usize {
        self.size / 4
    }

    /// The parts that `len` bytes from the `count`-th on take: the second is empty unless they wrap.
    #[inline]
    fn parts(self, count: u64, len: usize) -> (usize, usize) {
        let mask = u64::try_from(self.size - 1).expect("a size of memory");
        let at = usize::try_from(count & mask).expect("smaller than the ring");
        (self.data + at, len.min(self.size - at))
    }
}

/// The writing end of a ring.
#[derive(Debug)]
pub struct Writer {
    place: Place,
    tail: u64,
    published: u64,
    head: u64,
}

/// The reading end of a ring.
#[derive(Debug)]
pub struct Reader {
    place: Place,
    head: u64,
    published: u64,
    tail: u64,
    told_cpu: Option<usize>,
}

/// The two ends that whoever made the memory has, or, with `made` false, whoever took it over.
#[must_use]
pub fn ends(ring_bytes: usize, made: bool) -> (Reader, Writer) {
    let (input, output) = if made { (0, 1) } else { (1, 0) };
    let reader =
        Reader { place: Place::of(input, ring_bytes), head: 0, published: 0, tail: 0, told_cpu: None };
    let writer = Writer { place: Place::of(output, ring_bytes), tail: 0, published: 0, head: 0 };
    (reader, writer)
}

/// How far `now` is ahead of `before`, if an honest other side can have moved there.
#[inline]
fn checked(before: u64, now: u64, limit: u64) -> Result<u64, Broken> {
    if now.wrapping_sub(before) <= limit { Ok(now) } else { Err(Broken) }
}

impl Writer {
    /// Copies as much of `bytes` as there is room for, and says how much. The reader sees pieces of it as they are
    /// complete, and the rest after [`Writer::publish`].
    ///
    /// # Errors
    /// [`Broken`] if the reader claims to have read what was never written.
    #[inline]
    pub fn write(&mut self, memory: &impl Memory, bytes: &[u8]) -> Result<usize, Broken> {
        let mut done = 0;
        while done < bytes.len() {
            let len = self.room(memory, bytes.len() - done)?.min(PIECE_BYTES);
            if len == 0 {
                break;
            }
            let (at, first) = self.place.parts(self.tail, len);
            memory.copy_in(at, &bytes[done..done + first]);
            memory.copy_in(self.place.data, &bytes[done + first..done + len]);
            self.tail += byte_count(len);
            done += len;
            if self.tail - self.published >= byte_count(PIECE_BYTES) {
                self.publish(memory);
            }
        }
        Ok(done)
    }

    /// Bytes that there is room for, up to `wanted`: the reader's progress is looked at only if it matters.
    #[inline]
    fn room(&mut self, memory: &impl Memory, wanted: usize) -> Result<usize, Broken> {
        let size = byte_count(self.place.size);
        if size - (self.tail - self.head) < byte_count(wanted) {
            // It reads no more than was published.
            let now = memory.load(self.place.control + HEAD_AT);
            self.head = checked(self.head, now, self.published - self.head)?;
        }
        let room = size - (self.tail - self.head);
        Ok(usize::try_from(room).expect("no more than the ring").min(wanted))
    }

    /// Shows the reader everything that was written.
    #[inline]
    pub fn publish(&mut self, memory: &impl Memory) {
        if self.published != self.tail {
            memory.store(self.place.control, self.tail);
            self.published = self.tail;
        }
    }

    /// Whether the reader sleeps and must be called; it is called once.
    #[inline]
    #[must_use]
    pub fn must_call(&self, memory: &impl Memory) -> bool {
        memory.take(self.place.control + READER_ASLEEP_AT)
    }

    /// The processor that the reader has said it runs on.
    #[must_use]
    pub fn reader_cpu(&self, memory: &impl Memory) -> Option<usize> {
        usize::try_from(memory.load(self.place.control + READER_CPU_AT)).ok()?.checked_sub(1)
    }

    /// Whether there is room that is worth a call; if not, the reader will call when there is. To be asked before going to
    /// sleep.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn rest(&mut self, memory: &impl Memory) -> Result<bool, Broken> {
        memory.raise(self.place.control + WRITER_ASLEEP_AT, true);
        let has_room = self.room(memory, self.place.size)? >= self.place.worth_a_call();
        if has_room {
            memory.raise(self.place.control + WRITER_ASLEEP_AT, false);
        }
        Ok(has_room)
    }
}

impl Reader {
    /// Copies what there is into `bytes`, and says how much. The writer gets the room back with [`Reader::release`],
    /// and meanwhile for each piece that is complete.
    ///
    /// # Errors
    /// [`Broken`] if the writer claims to have written more than fits.
    #[inline]
    pub fn read(&mut self, memory: &impl Memory, bytes: &mut [u8]) -> Result<usize, Broken> {
        let mut done = 0;
        while done < bytes.len() {
            let len = self.filled(memory, bytes.len() - done)?.min(PIECE_BYTES);
            if len == 0 {
                break;
            }
            let (at, first) = self.place.parts(self.head, len);
            memory.copy_out(at, &mut bytes[done..done + first]);
            memory.copy_out(self.place.data, &mut bytes[done + first..done + len]);
            self.head += byte_count(len);
            done += len;
            if self.head - self.published >= byte_count(PIECE_BYTES) {
                self.release(memory);
            }
        }
        Ok(done)
    }

    /// Bytes that can be read, up to `wanted`.
    #[inline]
    fn filled(&mut self, memory: &impl Memory, wanted: usize) -> Result<usize, Broken> {
        if self.tail - self.head < byte_count(wanted) {
            let now = memory.load(self.place.control);
            // It has no room for more than what was released.
            let limit = byte_count(self.place.size) - (self.tail - self.published);
            self.tail = checked(self.tail, now, limit)?;
        }
        Ok(usize::try_from(self.tail - self.head).expect("no more than the ring").min(wanted))
    }

    /// Whether there is something to read.
    ///
    /// # Errors
    /// [`Broken`].
    #[inline]
    pub fn has_more(&mut self, memory: &impl Memory) -> Result<bool, Broken> {
        Ok(self.filled(memory, 1)? > 0)
    }

    /// Gives the room of everything that was read back to the writer.
    #[inline]
    pub fn release(&mut self, memory: &impl Memory) {
        if self.published != self.head {
            memory.store(self.place.control + HEAD_AT, self.head);
            self.published = self.head;
        }
    }

    /// Whether the writer sleeps and must be called; it is called once, and not for a few bytes: whoever reads slowly would
    /// call it for each of them.
    #[inline]
    #[must_use]
    pub fn must_call(&self, memory: &impl Memory) -> bool {
        // What it has written before it went to sleep is seen here or makes the room look larger: never is it called too late.
        let used = memory.load(self.place.control).wrapping_sub(self.published);
        used <= byte_count(self.place.size - self.place.worth_a_call())
            && memory.take(self.place.control + WRITER_ASLEEP_AT)
    }

    /// Whether there is something to read; if not, the writer will call when there is. To be asked before going to sleep.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn rest(&mut self, memory: &impl Memory) -> Result<bool, Broken> {
        memory.raise(self.place.control + READER_ASLEEP_AT, true);
        let has_more = self.has_more(memory)?;
        if has_more {
            memory.raise(self.place.control + READER_ASLEEP_AT, false);
        }
        Ok(has_more)
    }

    /// Says which processor the reader runs on.
    #[inline]
    pub fn tell_cpu(&mut self, memory: &impl Memory, cpu: usize) {
        // Once: who looks at it shares the line.
        if self.told_cpu != Some(cpu) {
            self.told_cpu = Some(cpu);
            memory.store(self.place.control + READER_CPU_AT, byte_count(cpu) + 1);
        }
    }

    /// Takes the flag down that [`Reader::rest`] has left up.
    pub fn wake(&self, memory: &impl Memory) {
        memory.raise(self.place.control + READER_ASLEEP_AT, false);
    }
}

#[inline]
fn byte_count(len: usize) -> u64 {
    u64::try_from(len).expect("lengths of memory fit 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings() -> (SharedMemory, (Reader, Writer), (Reader, Writer)) {
        let memory = SharedMemory::create(memory_bytes(RING_BYTES_MIN)).unwrap();
        (memory, ends(RING_BYTES_MIN, true), ends(RING_BYTES_MIN, false))
    }

    #[test]
    fn bytes_come_out_as_they_went_in_past_the_end_of_the_ring() {
        let (memory, (mut reader, _), (_, mut writer)) = rings();
        let bytes: Vec<u8> = (0..=250).cycle().take(10 * RING_BYTES_MIN).collect();
        let (mut sent, mut got) = (0, Vec::new());
        for chunk in (1..).map(|n| n * 997 % 9000) {
            sent += writer.write(&memory, &bytes[sent..(sent + chunk).min(bytes.len())]).unwrap();
            writer.publish(&memory);
            let mut room = vec![0; chunk];
            let len = reader.read(&memory, &mut room).unwrap();
            reader.release(&memory);
            got.extend_from_slice(&room[..len]);
            if got.len() == bytes.len() {
                break;
            }
        }
        assert_eq!(got, bytes);
    }

    #[test]
    fn a_full_ring_takes_nothing_and_an_empty_one_gives_nothing() {
        let (memory, (mut reader, _), (_, mut writer)) = rings();
        let bytes = vec![3; 2 * RING_BYTES_MIN];
        assert_eq!(writer.write(&memory, &bytes), Ok(RING_BYTES_MIN));
        writer.publish(&memory);
        assert_eq!(writer.write(&memory, &bytes), Ok(0));
        assert_eq!(writer.rest(&memory), Ok(false));
        let mut room = vec![0; RING_BYTES_MIN + 1];
        assert_eq!(reader.read(&memory, &mut room), Ok(RING_BYTES_MIN));
        reader.release(&memory);
        assert!(reader.must_call(&memory), "the writer sleeps");
        assert_eq!(reader.read(&memory, &mut room), Ok(0));
        assert_eq!(reader.rest(&memory), Ok(false));
        assert_eq!(writer.write(&memory, b"x"), Ok(1));
        writer.publish(&memory);
        assert!(writer.must_call(&memory), "the reader sleeps");
        assert!(!writer.must_call(&memory), "it is called once");
    }

    #[test]
    fn a_writer_that_sleeps_is_called_for_a_quarter_of_the_ring_and_not_for_a_few_bytes() {
        let (memory, (mut reader, _), (_, mut writer)) = rings();
        let bytes = vec![3; RING_BYTES_MIN];
        assert_eq!(writer.write(&memory, &bytes), Ok(RING_BYTES_MIN));
        writer.publish(&memory);
        assert_eq!(writer.rest(&memory), Ok(false));
        let mut room = vec![0; RING_BYTES_MIN / 4 - 1];
        assert_eq!(reader.read(&memory, &mut room), Ok(room.len()));
        reader.release(&memory);
        assert!(!reader.must_call(&memory), "one byte more");
        assert_eq!(writer.rest(&memory), Ok(false), "neither is it worth waking for");
        assert_eq!(reader.read(&memory, &mut room[..1]), Ok(1));
        reader.release(&memory);
        assert!(reader.must_call(&memory));
        assert!(!reader.must_call(&memory), "it is called once");
        assert_eq!(writer.rest(&memory), Ok(true));
        assert_eq!(writer.write(&memory, &bytes), Ok(RING_BYTES_MIN / 4), "what room there is may be used");
    }

    #[test]
    fn the_writer_learns_where_the_reader_runs_and_believes_no_more_than_a_number() {
        let (memory, (mut reader, _), (_, writer)) = rings();
        assert_eq!(writer.reader_cpu(&memory), None);
        reader.tell_cpu(&memory, 0);
        assert_eq!(writer.reader_cpu(&memory), Some(0));
        memory.store(CONTROL_AT + READER_CPU_AT, u64::MAX);
        assert_eq!(writer.reader_cpu(&memory), Some(usize::MAX - 1));
    }

    #[test]
    fn indices_that_no_honest_side_writes_break_the_ring() {
        for forged in [u64::MAX, byte_count(RING_BYTES_MIN) + 1, 1 << 40] {
            let (memory, (mut reader, _), (_, mut writer)) = rings();
            memory.store(CONTROL_AT, forged);
            assert_eq!(reader.read(&memory, &mut [0; 8]), Err(Broken), "tail {forged}");
            memory.store(CONTROL_AT + HEAD_AT, forged);
            assert_eq!(writer.write(&memory, &vec![0; RING_BYTES_MIN + 1]), Err(Broken), "head {forged}");
        }
        let (memory, (mut reader, _), (_, mut writer)) = rings();
        writer.write(&memory, b"abc").unwrap();
        writer.publish(&memory);
        assert_eq!(reader.read(&memory, &mut [0; 8]), Ok(3));
        memory.store(CONTROL_AT, 2);
        assert_eq!(reader.read(&memory, &mut [0; 8]), Err(Broken), "a tail that goes back");
    }
}
