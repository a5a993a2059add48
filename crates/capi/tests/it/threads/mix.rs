//! All that threads may do with events at one time: on a queue that everybody drives, on queues of their own, on none.
//!
//! `cargo xtask soak threads` runs this, and its parent, under ThreadSanitizer, with the library and the standard library
//! instrumented. That a race would be seen is proved by each such run: it begins with `THREADS_RACE` set, which lets
//! `an_error_is_read_by_who_was_told_of_its_event` read before it was told, and goes on only if that was found.

use super::{AT_ONCE, OPERATIONS, Operation, of_directory, of_socket, with_object, work};
use crate::kit;
use crate::scripted::words::{self, Event, Handle, NONE};
use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use dolmen_daemon::{Daemon, Settings};

/// Threads of each kind; those that test share the queue or use none.
const LAUNCHERS: usize = 2;
const FAMILIES: usize = 2;
const TESTERS: usize = 4;
const HERMITS: usize = 2;
const POLLERS: usize = 2;
/// Rounds of a family and of a hermit; how many of a family's until it ends its events; and its children.
const ROUNDS: usize = 40;
const USES: usize = 5;
const CHILDREN: usize = 3;
/// How long one poll waits, and for how many events.
const POLL_US: i64 = 500;
const POLLED_MAX: usize = 4;

/// How often a long callback lets others run.
const YIELDS: usize = 10_000;

const NO_PERM: c_int = -1001;
const NO_HDL: c_int = -1002;
const EXIST: c_int = -1004;
const DESTROY_FORCE: c_int = 1;
/// An update that is refused if its dkey is there.
const INSERT: u64 = 1 << 1;

// Calls of `count_call`; one test at a time has the library.
static CALLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count_call(_argument: *mut u8, _event: *mut Event, error: c_int) -> c_int {
    CALLED.fetch_add(1, Ordering::Relaxed);
    error
}

/// An event as those know it who poll for others, and how often they have seen it.
#[derive(Default)]
struct Seen {
    event: AtomicPtr<Event>,
    count: AtomicUsize,
}

impl Seen {
    fn wait(&self, count: usize) {
        while self.count.load(Ordering::Acquire) < count {
            dolmen_env::yield_now();
        }
        assert_eq!(self.count.load(Ordering::Acquire), count);
    }
}

/// What all threads have in common.
struct Common {
    queue: Handle,
    object: Handle,
    /// Of each launcher its events, then of each family the parent.
    seen: Vec<Seen>,
    /// Threads that launch something on the queue.
    busy: AtomicUsize,
    watched: AtomicBool,
    polled: AtomicUsize,
    polled_of_testers: AtomicUsize,
    tested: AtomicUsize,
}

impl Common {
    fn new(object: Handle) -> Self {
        let mut queue = NONE;
        assert_eq!(words::eq_create(&mut queue), 0);
        let seen = core::iter::repeat_with(Seen::default).take(LAUNCHERS * AT_ONCE + FAMILIES).collect();
        let busy = AtomicUsize::new(LAUNCHERS + FAMILIES + TESTERS);
        let [polled, polled_of_testers, tested] = [0; 3].map(AtomicUsize::new);
        Self { queue, object, seen, busy, watched: AtomicBool::new(false), polled, polled_of_testers, tested }
    }

    /// Takes what has completed off the queue until nobody uses it, and tells whoever waits for it.
    fn poll(&self) {
        let mut is_last = false;
        while !is_last {
            is_last = self.busy.load(Ordering::Acquire) == 0;
            let mut events = [null_mut(); POLLED_MAX];
            let count = words::eq_poll(self.queue, 0, POLL_US, 4, events.as_mut_ptr());
            for event in &events[..usize::try_from(count).unwrap()] {
                match self.seen.iter().find(|seen| seen.event.load(Ordering::Relaxed) == *event) {
                    Some(seen) => {
                        self.polled.fetch_add(1, Ordering::Relaxed);
                        seen.count.fetch_add(1, Ordering::Release);
                    }
                    None => {
                        self.polled_of_testers.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
    }

    /// Asks what is completed and under way, and aborts what others have launched, which ends none of it.
    fn watch(&self) {
        while self.busy.load(Ordering::Acquire) > 0 {
            for query in 1..4 {
                let mut events = [null_mut(); POLLED_MAX];
                assert!(words::eq_query(self.queue, query, 0, null_mut()) >= 0);
                assert!((0..5).contains(&words::eq_query(self.queue, query, 4, events.as_mut_ptr())));
            }
            for seen in &self.seen[..LAUNCHERS * AT_ONCE] {
                let event = seen.event.load(Ordering::Acquire);
                assert!(event.is_null() || words::event_abort(event) == 0);
            }
            dolmen_env::yield_now();
        }
        self.watched.store(true, Ordering::Release);
    }

    /// Writes a value and reads it back, on each of several events that others poll.
    fn launch(&self, thread: usize) {
        let seen = &self.seen[thread * AT_ONCE..][..AT_ONCE];
        let mut operations: Vec<Box<Operation>> = (0..AT_ONCE).map(|_| Operation::new(self.queue)).collect();
        for (operation, seen) in operations.iter_mut().zip(seen) {
            seen.event.store(&raw mut operation.event, Ordering::Release);
        }
        for use_index in 0..OPERATIONS / AT_ONCE * 2 {
            for (at, (operation, seen)) in operations.iter_mut().zip(seen).enumerate() {
                seen.wait(use_index);
                assert_eq!(operation.event.error(), 0);
                let number = use_index / 2 * AT_ONCE + at;
                if use_index % 2 == 0 {
                    assert!(use_index == 0 || operation.holds(number - AT_ONCE));
                    assert_eq!(words::event_register(&mut operation.event, Some(count_call), null_mut()), 0);
                    operation.launch(self.object, thread, number);
                } else {
                    let event = operation.event.address();
                    operation.read(self.object, event);
                }
            }
        }
        for seen in seen {
            seen.wait(OPERATIONS / AT_ONCE * 2);
        }
        self.busy.fetch_sub(1, Ordering::Release);
        while !self.watched.load(Ordering::Acquire) {
            dolmen_env::yield_now();
        }
        for operation in &mut operations {
            assert_eq!(words::event_fini(&mut operation.event), 0);
        }
    }

    /// Launches children, then their parent, as a group or with a write of its own, until others have polled it.
    fn keep_family(&self, family: usize, thread: usize) {
        let seen = &self.seen[LAUNCHERS * AT_ONCE + family];
        let mut parent = Operation::blank();
        let mut children = [(); CHILDREN].map(|()| Operation::blank());
        seen.event.store(&raw mut parent.event, Ordering::Release);
        for round in 0..ROUNDS {
            if round % USES == 0 {
                parent.begin(self.queue, null_mut());
                children.iter_mut().for_each(|child| child.begin(NONE, &raw mut parent.event));
            }
            let number = round * (1 + CHILDREN);
            for (at, child) in children.iter_mut().enumerate() {
                child.launch(self.object, thread, number + 1 + at);
            }
            assert_eq!(words::event_test(&mut children[0].event, 0, &mut false), NO_PERM);
            if round % 2 == 0 {
                parent.launch(self.object, thread, number);
            } else {
                assert_eq!(words::event_barrier(&mut parent.event), 0);
            }
            seen.wait(round + 1);
            assert_eq!(parent.event.error(), 0);
            let (mut child, mut count) = (null_mut(), 0);
            while words::event_next(&mut parent.event, &mut child) == 0 && !child.is_null() {
                count += 1;
            }
            assert_eq!(count, CHILDREN);
            for child in &children {
                assert_eq!(child.event.error(), 0);
            }
            if round % USES == USES - 1 {
                assert_eq!(words::event_fini(&mut parent.event), 0);
            }
        }
        self.busy.fetch_sub(1, Ordering::Release);
    }

    /// Tests events that it launches, on the queue or on none.
    fn test(&self, thread: usize) {
        work(if thread.is_multiple_of(2) { self.queue } else { NONE }, self.object, thread, &self.tested);
        self.busy.fetch_sub(1, Ordering::Release);
    }

    /// Launches events on a queue of its own and gives that up, while another thread polls it: then the memory is its own.
    fn live_alone(&self, thread: usize) {
        for round in 0..ROUNDS {
            let mut queue = NONE;
            assert_eq!(words::eq_create(&mut queue), 0);
            let mut operations: Vec<Box<Operation>> = (0..AT_ONCE).map(|_| Operation::new(queue)).collect();
            let polled = dolmen_env::scope(|threads| {
                let polled = threads.spawn(move || poll_to_end(queue));
                for (at, operation) in operations.iter_mut().enumerate() {
                    assert_eq!(words::event_register(&mut operation.event, Some(count_call), null_mut()), 0);
                    operation.launch(self.object, thread, round * AT_ONCE + at);
                }
                assert_eq!(words::eq_destroy(queue, DESTROY_FORCE), 0);
                for operation in &mut operations {
                    assert_eq!(operation.event.error(), 0);
                    operation.value.fill(0);
                    assert_eq!(words::event_fini(&mut operation.event), 0);
                }
                polled.join().unwrap()
            });
            assert!(polled <= AT_ONCE);
        }
    }
}

/// Polls a queue until it is gone: how many events were there.
fn poll_to_end(queue: Handle) -> usize {
    let mut polled = 0;
    loop {
        let mut events = [null_mut(); POLLED_MAX];
        let count = words::eq_poll(queue, 0, POLL_US, 4, events.as_mut_ptr());
        if count == NO_HDL {
            return polled;
        }
        polled += usize::try_from(count).unwrap();
    }
}

/// What the threads write: each thread, and the numbers of its values.
fn written() -> impl Iterator<Item = (usize, usize)> {
    // The children's, and every other round's parent's.
    let is_child = |number: &usize| !number.is_multiple_of(1 + CHILDREN);
    let family = move |number: &usize| is_child(number) || (number / (1 + CHILDREN)).is_multiple_of(2);
    let counts = [
        (LAUNCHERS, OPERATIONS / AT_ONCE * AT_ONCE),
        (FAMILIES, ROUNDS * (1 + CHILDREN)),
        (TESTERS, OPERATIONS),
        (HERMITS, ROUNDS * AT_ONCE),
    ];
    let kinds = counts.into_iter().flat_map(|(threads, count)| core::iter::repeat_n(count, threads));
    kinds.enumerate().flat_map(move |(thread, count)| {
        let is_family = (LAUNCHERS..LAUNCHERS + FAMILIES).contains(&thread);
        (0..count).filter(move |number| !is_family || family(number)).map(move |number| (thread, number))
    })
}

/// Lets all threads run and compares what they have counted, and what is stored.
fn mix(object: Handle) {
    let common = Common::new(object);
    CALLED.store(0, Ordering::Relaxed);
    dolmen_env::scope(|threads| {
        let (common, mut thread) = (&common, 0..);
        let mut next = || thread.next().unwrap();
        for _ in 0..POLLERS {
            threads.spawn(|| common.poll());
        }
        threads.spawn(|| common.watch());
        for thread in core::iter::repeat_with(&mut next).take(LAUNCHERS) {
            threads.spawn(move || common.launch(thread));
        }
        for (family, thread) in core::iter::repeat_with(&mut next).take(FAMILIES).enumerate() {
            threads.spawn(move || common.keep_family(family, thread));
        }
        for thread in core::iter::repeat_with(&mut next).take(TESTERS) {
            threads.spawn(move || common.test(thread));
        }
        for thread in core::iter::repeat_with(&mut next).take(HERMITS) {
            threads.spawn(move || common.live_alone(thread));
        }
    });
    let of_launcher = OPERATIONS / AT_ONCE * AT_ONCE;
    assert_eq!(common.polled.load(Ordering::Relaxed), 2 * LAUNCHERS * of_launcher + FAMILIES * ROUNDS);
    assert_eq!(CALLED.load(Ordering::Relaxed), LAUNCHERS * of_launcher + HERMITS * ROUNDS * AT_ONCE);
    assert_eq!(common.tested.load(Ordering::Relaxed), TESTERS * OPERATIONS);
    assert!(common.polled_of_testers.load(Ordering::Relaxed) <= TESTERS * OPERATIONS);
    let mut operation = Operation::blank();
    assert!(written().all(|(thread, number)| operation.is_stored(object, thread, number)));
    assert_eq!(words::eq_destroy(common.queue, 0), 0);
}

#[test]
fn threads_use_events_in_every_way_in_one_process() {
    let dir = kit::system("mix-here");
    with_object(&of_directory(&dir), mix);
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(!dir.exists());
}

#[test]
fn threads_use_events_in_every_way_through_a_daemon() {
    let dir = kit::system("mix-served");
    let daemon = Daemon::start(&Settings::new(dir.clone()), |_| {}).unwrap();
    with_object(&of_socket(&dir), mix);
    assert!(daemon.stop().is_ok());
    std::fs::remove_dir_all(dir).unwrap();
}

// Where `take_time` is: not called yet, in it, behind it.
static TAKING: AtomicUsize = AtomicUsize::new(0);

extern "C" fn take_time(_argument: *mut u8, _event: *mut Event, error: c_int) -> c_int {
    TAKING.store(1, Ordering::Release);
    for _ in 0..YIELDS {
        dolmen_env::yield_now();
    }
    TAKING.store(2, Ordering::Release);
    error
}

/// Gives a queue up while another thread is in a callback.
fn give_up(object: Handle) {
    let mut queue = NONE;
    assert_eq!(words::eq_create(&mut queue), 0);
    let mut operation = Operation::new(queue);
    TAKING.store(0, Ordering::Relaxed);
    assert_eq!(words::event_register(&mut operation.event, Some(take_time), null_mut()), 0);
    operation.launch(object, 0, 0);
    dolmen_env::scope(|threads| {
        let polled = threads.spawn(move || poll_to_end(queue));
        while TAKING.load(Ordering::Acquire) == 0 {
            dolmen_env::yield_now();
        }
        assert_eq!(words::eq_destroy(queue, DESTROY_FORCE), 0);
        assert_eq!(TAKING.load(Ordering::Relaxed), 2);
        assert_eq!(operation.event.error(), 0);
        assert_eq!(words::event_fini(&mut operation.event), 0);
        assert!(polled.join().unwrap() <= 1);
    });
}

#[test]
fn a_queue_that_is_given_up_waits_for_callbacks_in_other_threads() {
    let dir = kit::system("mix-given-up");
    with_object(&of_directory(&dir), give_up);
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(!dir.exists());
}

/// Launches what is refused, and reads its errors while or after another thread polls.
fn be_refused(object: Handle, is_race: bool) {
    let mut queue = NONE;
    assert_eq!(words::eq_create(&mut queue), 0);
    let mut operations: Vec<Box<Operation>> = (0..AT_ONCE).map(|_| Operation::new(queue)).collect();
    operations[0].write(object, 0, 0, 0, null_mut());
    for operation in &mut operations {
        operation.launch_with(object, INSERT, 0, 0);
    }
    dolmen_env::scope(|threads| {
        let polled = threads.spawn(move || {
            let mut polled = 0;
            while polled < AT_ONCE {
                let mut events = [null_mut(); POLLED_MAX];
                let count = words::eq_poll(queue, 1, POLL_US, 4, events.as_mut_ptr());
                polled += usize::try_from(count).unwrap();
            }
        });
        if is_race {
            core::hint::black_box(operations.iter().map(|one| one.event.error()).sum::<c_int>());
        }
        polled.join().unwrap();
        assert!(operations.iter().all(|one| one.event.error() == EXIST));
    });
    for operation in &mut operations {
        assert_eq!(words::event_fini(&mut operation.event), 0);
    }
    assert_eq!(words::eq_destroy(queue, 0), 0);
}

#[test]
fn an_error_is_read_by_who_was_told_of_its_event() {
    let (dir, is_race) = (kit::system("mix-told"), std::env::var_os("THREADS_RACE").is_some());
    with_object(&of_directory(&dir), |object| be_refused(object, is_race));
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(!dir.exists());
}
