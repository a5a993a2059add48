//! One writer and one reader, on memory that shows every order of their accesses: no call is lost, and no byte is read
//! before it is written or written over before it is read.

use dolmen_net::ring::{Memory, RING_BYTES_MIN, Reader, Writer, ends, memory_bytes};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};

/// The ring in chunks: each is looked at as a whole.
const CHUNK_BYTES: usize = RING_BYTES_MIN / 2;
const CHUNKS: usize = 4;

/// Where the data begins, as the rings have it.
const DATA_AT: usize = 8192;

/// Words, flags and data of two rings. Of words and flags, which lie 128 bytes apart, only those that are used exist.
struct Model {
    words: Vec<AtomicU64>,
    flags: Vec<AtomicU32>,
    chunks: Vec<UnsafeCell<u8>>,
}

impl Model {
    fn new() -> Self {
        assert_eq!(memory_bytes(RING_BYTES_MIN), DATA_AT + CHUNKS * CHUNK_BYTES);
        Self {
            words: (0..4).map(|_| AtomicU64::new(0)).collect(),
            flags: (0..4).map(|_| AtomicU32::new(0)).collect(),
            chunks: (0..CHUNKS).map(|_| UnsafeCell::new(0)).collect(),
        }
    }

    /// Tail and head of a ring are its first two lines of words, the flags the next two.
    fn place(at: usize) -> (usize, usize) {
        ((at - 4096) / 1024, (at - 4096) % 1024 / 128)
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        let (ring, line) = Self::place(at);
        &self.words[ring * 2 + line]
    }

    fn flag(&self, at: usize) -> &AtomicU32 {
        let (ring, line) = Self::place(at);
        &self.flags[ring * 2 + line - 2]
    }

    fn chunk(&self, at: usize, len: usize) -> Option<&UnsafeCell<u8>> {
        assert!(len == 0 || len == CHUNK_BYTES);
        (len > 0).then(|| &self.chunks[(at - DATA_AT) / CHUNK_BYTES])
    }
}

impl Memory for Model {
    fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }
    fn store(&self, at: usize, word: u64) {
        self.word(at).store(word, Ordering::Release);
    }
    fn raise(&self, at: usize, flag: bool) {
        self.flag(at).store(u32::from(flag), Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
    fn take(&self, at: usize) -> bool {
        fence(Ordering::SeqCst);
        let flag = self.flag(at);
        flag.load(Ordering::SeqCst) != 0 && flag.swap(0, Ordering::SeqCst) != 0
    }
    fn copy_in(&self, at: usize, bytes: &[u8]) {
        if let Some(chunk) = self.chunk(at, bytes.len()) {
            // SAFETY: loom finds whoever else has it at the same time, which is what is tested.
            chunk.with_mut(|byte| unsafe { *byte = bytes[0] });
        }
    }
    fn copy_out(&self, at: usize, bytes: &mut [u8]) {
        if let Some(chunk) = self.chunk(at, bytes.len()) {
            // SAFETY: as above.
            bytes[0] = chunk.with(|byte| unsafe { *byte });
        }
    }
}

/// The socket: who calls leaves a mark, who sleeps waits for one.
#[derive(Default)]
struct Bell {
    /// Guards whether somebody has called.
    called: Mutex<bool>,
    come: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.called.lock().unwrap() = true;
        self.come.notify_one();
    }

    fn wait(&self) {
        let mut called = self.called.lock().unwrap();
        while !*called {
            called = self.come.wait(called).unwrap();
        }
        *called = false;
    }
}

#[derive(Default)]
struct Bells {
    to_reader: Bell,
    to_writer: Bell,
}

fn write_all(memory: &Model, bells: &Bells, writer: &mut Writer, count: u8) {
    for chunk in 1..=count {
        while writer.write(memory, &[chunk; CHUNK_BYTES]).unwrap() == 0 {
            writer.publish(memory);
            if writer.must_call(memory) {
                bells.to_reader.ring();
            }
            if !writer.rest(memory).unwrap() {
                bells.to_writer.wait();
            }
        }
        writer.publish(memory);
        if writer.must_call(memory) {
            bells.to_reader.ring();
        }
    }
}

fn read_all(memory: &Model, bells: &Bells, reader: &mut Reader, count: u8) {
    let mut bytes = vec![0; CHUNK_BYTES];
    for chunk in 1..=count {
        while reader.read(memory, &mut bytes).unwrap() == 0 {
            if !reader.rest(memory).unwrap() {
                bells.to_reader.wait();
            }
            reader.wake(memory);
        }
        assert_eq!(bytes[0], chunk);
        reader.release(memory);
        if reader.must_call(memory) {
            bells.to_writer.ring();
        }
    }
}

/// All orders of one stream of `count` chunks, to whoever made the memory or from there.
fn check_all_orders(count: u8, to_maker: bool) {
    let mut model = loom::model::Builder::new();
    // More switches between the two than this find nothing more, and take very long.
    model.preemption_bound = Some(3);
    model.check(move || {
        let (memory, bells) = (Arc::new(Model::new()), Arc::new(Bells::default()));
        let (mut reader, _) = ends(RING_BYTES_MIN, to_maker);
        let (_, mut writer) = ends(RING_BYTES_MIN, !to_maker);
        let (their_memory, their_bells) = (Arc::clone(&memory), Arc::clone(&bells));
        let thread = loom::thread::spawn(move || write_all(&their_memory, &their_bells, &mut writer, count));
        read_all(&memory, &bells, &mut reader, count);
        thread.join().unwrap();
    });
}

#[test]
fn no_call_to_a_reader_is_lost_and_nothing_is_torn() {
    for to_maker in [true, false] {
        check_all_orders(1, to_maker);
        check_all_orders(2, to_maker);
    }
}

#[test]
fn no_call_to_a_writer_is_lost_and_nothing_is_written_over() {
    for to_maker in [true, false] {
        check_all_orders(3, to_maker);
    }
}
