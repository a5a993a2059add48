//! Threads that share one event queue, each with operations of its own under way on it.

mod mix;

use crate::kit;
use crate::scripted::words::{self, Event, Handle, Iod, Iov, NONE, ObjId, SINGLE, SgList};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicUsize, Ordering};
use dolmen_daemon::{Daemon, Settings};
use std::ffi::CString;
use std::path::Path;

const THREADS: usize = 4;
/// Operations of each thread, and how many of them are under way at once.
const OPERATIONS: usize = 300;
const AT_ONCE: usize = 8;

/// One operation of a thread, at a place that stays where it is.
struct Operation {
    event: Event,
    dkey: [u8; 16],
    value: [u8; 64],
    iov: Iov,
    sgl: SgList,
    iod: Iod,
    is_free: bool,
}

impl Operation {
    /// One without an event.
    fn blank() -> Box<Self> {
        let iov = Iov::of(&[]);
        let iod = Iod { name: Iov::of(b"a"), kind: SINGLE, size: 64, flags: 0, nr: 1, recxs: null() };
        let (dkey, value) = ([0; 16], [0; 64]);
        Box::new(Self { event: Event::NEW, dkey, value, iov, sgl: SgList::NONE, iod, is_free: true })
    }

    fn new(queue: Handle) -> Box<Self> {
        let mut own = Self::blank();
        own.begin(queue, null_mut());
        own
    }

    fn begin(&mut self, queue: Handle, parent: *mut Event) {
        assert_eq!(words::event_init(&mut self.event, queue, parent), 0);
    }

    /// Writes a value of its own.
    fn launch(&mut self, object: Handle, thread: usize, number: usize) {
        self.launch_with(object, 0, thread, number);
    }

    fn launch_with(&mut self, object: Handle, flags: u64, thread: usize, number: usize) {
        let event = self.event.address();
        self.write(object, flags, thread, number, event);
        self.is_free = false;
    }

    fn write(&mut self, object: Handle, flags: u64, thread: usize, number: usize, event: *mut u8) {
        self.name(thread, number);
        self.value.fill(byte_of(number));
        self.iov = Iov::of(&self.value);
        self.sgl = SgList::of(&mut self.iov);
        let (dkey, iod, sgl) = (Iov::of(&self.dkey), &mut self.iod, &mut self.sgl);
        assert_eq!(words::obj_update(object, NONE, flags, &dkey, 1, iod, sgl, event), 0);
    }

    fn name(&mut self, thread: usize, number: usize) {
        self.dkey[..8].copy_from_slice(&(thread as u64).to_le_bytes());
        self.dkey[8..].copy_from_slice(&(number as u64).to_le_bytes());
    }

    /// Reads what is stored where it has written.
    fn read(&mut self, object: Handle, event: *mut u8) {
        self.value.fill(0xff);
        self.iov = Iov::room(&mut self.value);
        self.sgl = SgList::of(&mut self.iov);
        let (dkey, iod, sgl) = (Iov::of(&self.dkey), &mut self.iod, &mut self.sgl);
        assert_eq!(words::obj_fetch(object, NONE, 0, &dkey, 1, iod, sgl, null_mut(), event), 0);
    }

    /// Whether it has read this value.
    fn holds(&self, number: usize) -> bool {
        self.value == [byte_of(number); 64]
    }

    /// Whether such a value is stored.
    fn is_stored(&mut self, object: Handle, thread: usize, number: usize) -> bool {
        self.name(thread, number);
        self.read(object, null_mut());
        self.holds(number)
    }

    /// Whether it has completed, after a look at the queue.
    fn is_done(&mut self) -> bool {
        let mut is_done = false;
        assert_eq!(words::event_test(&mut self.event, 0, &mut is_done), 0);
        is_done
    }
}

/// What a value is full of.
fn byte_of(number: usize) -> u8 {
    u8::try_from(number % 251).unwrap()
}

/// Keeps operations under way on a queue that others drive, too.
fn work(queue: Handle, object: Handle, thread: usize, done: &AtomicUsize) {
    let mut operations: Vec<Box<Operation>> = (0..AT_ONCE).map(|_| Operation::new(queue)).collect();
    let mut launched = 0;
    while launched < OPERATIONS || operations.iter().any(|operation| !operation.is_free) {
        for operation in &mut operations {
            if !operation.is_free && operation.is_done() {
                assert_eq!(operation.event.error(), 0);
                done.fetch_add(1, Ordering::Relaxed);
                operation.is_free = true;
            }
            if operation.is_free && launched < OPERATIONS {
                operation.launch(object, thread, launched);
                launched += 1;
            }
        }
    }
    for operation in &mut operations {
        assert_eq!(words::event_fini(&mut operation.event), 0);
    }
}

/// Runs a test with an object of a system.
fn with_object(system: &CString, test: impl FnOnce(Handle)) {
    let _alone = words::alone();
    assert_eq!(words::init(), 0);
    let pool = words::connect(system);
    assert_eq!(words::cont_create(pool, c"threads".as_ptr(), null_mut(), null_mut(), null_mut()), 0);
    let cont = words::open_cont(pool, c"threads").unwrap();
    // Of hashed keys, of one shard: class and type as in the id of any such object.
    let object = words::open_object(cont, ObjId { lo: 1, hi: 1 << 48 | 1 << 32 }).unwrap();
    test(object);
    assert_eq!(words::obj_close(object, null_mut()), 0);
    assert_eq!(words::cont_close(cont, null_mut()), 0);
    assert_eq!(words::pool_disconnect(pool, null_mut()), 0);
    assert_eq!(words::fini(), 0);
}

/// Lets threads work on one queue.
fn share(object: Handle) {
    let (mut queue, done) = (NONE, AtomicUsize::new(0));
    assert_eq!(words::eq_create(&mut queue), 0);
    dolmen_env::scope(|threads| {
        for thread in 0..THREADS {
            let done = &done;
            threads.spawn(move || work(queue, object, thread, done));
        }
    });
    assert_eq!(done.load(Ordering::Relaxed), THREADS * OPERATIONS);
    assert_eq!(words::eq_destroy(queue, 0), 0);
}

fn of_directory(dir: &Path) -> CString {
    CString::new(format!("file:{}", dir.display())).unwrap()
}

fn of_socket(dir: &Path) -> CString {
    CString::new(format!("unix:{}", dir.join(Settings::SOCKET_NAME).display())).unwrap()
}

#[test]
fn threads_share_an_event_queue_in_one_process() {
    let dir = kit::system("threads-here");
    with_object(&of_directory(&dir), share);
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(!dir.exists());
}

#[test]
fn threads_share_an_event_queue_through_a_daemon() {
    let dir = kit::system("threads-served");
    let daemon = Daemon::start(&Settings::new(dir.clone()), |_| {}).unwrap();
    with_object(&of_socket(&dir), share);
    assert!(daemon.stop().is_ok());
    std::fs::remove_dir_all(dir).unwrap();
}
