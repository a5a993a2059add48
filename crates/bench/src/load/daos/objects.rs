//! An object, its values under one akey of each dkey, one at a time or several under way on one event queue.

use super::ffi::{self, Event, Handle, Iod, Iov, ObjId, Recx, SgList};
use super::{Connection, done};
use crate::error::Result;
use core::ffi::{c_int, c_uint};
use core::ptr::null_mut;

/// What lies under an akey.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::load) enum Kind {
    Single,
    Array,
}

/// The one akey.
const AKEY: &[u8] = b"value";
const DKEY_BYTES: usize = 8;
/// Waits until an event completes.
const WAIT: i64 = -1;

/// An open object, and how its values are stored.
pub(in crate::load) struct Objects {
    object: Handle,
    kind: Kind,
}

impl Objects {
    /// Opens an object of a class; nothing is asked.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn open(
        connection: &Connection,
        number: u64,
        class: u32,
        kind: Kind,
    ) -> Result<Self> {
        let mut oid = ObjId { lo: number, hi: 0 };
        let generated = ffi::daos_obj_generate_oid2(connection.cont, &mut oid, 0, class, 0, 0);
        done("daos_obj_generate_oid", "", generated)?;
        let mut object = Handle::default();
        let (cont, mode, at) = (connection.cont, ffi::OBJECT_OPEN_RW, &raw mut object);
        // SAFETY: the library checks the handle; there is a place for the new one, and no event.
        done("daos_obj_open", "", unsafe { ffi::daos_obj_open(cont, oid, mode, at, null_mut()) })?;
        Ok(Self { object, kind })
    }

    /// Removes all values.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn punch(&self) -> Result<()> {
        let no_transaction = Handle::default();
        // SAFETY: the library checks the handle; there is no event.
        let number = unsafe { ffi::daos_obj_punch(self.object, no_transaction, 0, null_mut()) };
        done("daos_obj_punch", "", number)
    }

    /// Gives it up.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn close(self) -> Result<()> {
        // SAFETY: the library checks the handle; there is no event.
        done("daos_obj_close", "", unsafe { ffi::daos_obj_close(self.object, null_mut()) })
    }
}

/// One operation, with all that the library is given of it; the event comes first.
#[repr(C)]
struct Slot {
    event: Event,
    dkey: [u8; DKEY_BYTES],
    dkey_iov: Iov,
    extent: Recx,
    iod: Iod,
    value: Vec<u8>,
    value_iov: Iov,
    list: SgList,
}

/// Room for so many operations at a time. With one there is no queue: each call returns when it is done.
///
/// Invariants: a slot that runs is neither moved nor touched before its event was taken off the queue; slots are given up
/// only when none runs, and else never: an operation that nobody waited for may still write there.
pub(in crate::load) struct Slots {
    // Boxes each of which stays where it is.
    slots: Vec<*mut Slot>,
    is_running: Vec<bool>,
    queue: Option<Handle>,
}

impl Slots {
    /// Room for `count` operations with values of `value_bytes`.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn new(count: usize, value_bytes: usize) -> Result<Self> {
        let mut slots =
            Self { slots: Vec::with_capacity(count), is_running: vec![false; count], queue: None };
        if count > 1 {
            let mut queue = Handle::default();
            done("daos_eq_create", "", ffi::daos_eq_create(&mut queue))?;
            slots.queue = Some(queue);
        }
        for _ in 0..count {
            let slot = Box::into_raw(Box::new(Slot::new(value_bytes)));
            slots.slots.push(slot);
            if let Some(queue) = slots.queue {
                // SAFETY: the slot was just made.
                let event = unsafe { &raw mut (*slot).event };
                // SAFETY: the event stays where it is until it is ended.
                done("daos_event_init", "", unsafe { ffi::daos_event_init(event, queue, null_mut()) })?;
            }
        }
        Ok(slots)
    }

    /// The slot's value.
    ///
    /// # Panics
    /// If its operation runs.
    pub(in crate::load) fn value(&mut self, index: usize) -> &mut [u8] {
        &mut self.slot(index).value
    }

    fn slot(&mut self, index: usize) -> &mut Slot {
        assert!(!self.is_running[index], "the library has what is under way");
        let slot = self.slots[index];
        // SAFETY: it was made by `new`, the library is done with it, and `self` lends slots to one at a time.
        unsafe { &mut *slot }
    }

    /// Writes the slot's value under a dkey.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn update(&mut self, index: usize, objects: &Objects, dkey: u64) -> Result<()> {
        let event = self.begin(index, objects.kind, dkey);
        let (oh, th, slot) = (objects.object, Handle::default(), self.slots[index]);
        let [dkey_at, iod, list] = places(slot);
        // SAFETY: all of it is in the slot, which is left alone until the operation is over.
        let number =
            unsafe { ffi::daos_obj_update(oh, th, 0, dkey_at.cast(), 1, iod.cast(), list.cast(), event) };
        self.begun("daos_obj_update", index, dkey, number)
    }

    /// Reads what is under a dkey into the slot's value.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn fetch(&mut self, index: usize, objects: &Objects, dkey: u64) -> Result<()> {
        let event = self.begin(index, objects.kind, dkey);
        let (oh, th, slot) = (objects.object, Handle::default(), self.slots[index]);
        let [dkey_at, iod, list] = places(slot);
        // SAFETY: as in `update`; nobody asks for a map.
        let number = unsafe {
            ffi::daos_obj_fetch(oh, th, 0, dkey_at.cast(), 1, iod.cast(), list.cast(), null_mut(), event)
        };
        self.begun("daos_obj_fetch", index, dkey, number)
    }

    /// Fills in what the library is given.
    fn begin(&mut self, index: usize, kind: Kind, dkey: u64) -> *mut Event {
        let has_queue = self.queue.is_some();
        let slot = self.slot(index);
        slot.fill(kind, dkey);
        if has_queue { &raw mut slot.event } else { null_mut() }
    }

    fn begun(&mut self, function: &'static str, index: usize, dkey: u64, number: c_int) -> Result<()> {
        if number == 0 && self.queue.is_some() {
            self.is_running[index] = true;
        }
        if number == 0 { Ok(()) } else { done(function, &format!("dkey {dkey}"), number) }
    }

    /// Whether an operation runs.
    pub(in crate::load) fn is_busy(&self) -> bool {
        self.is_running.contains(&true)
    }

    /// Waits until something is over; which slots that were.
    ///
    /// # Errors
    /// Those of the library, and of the operations.
    pub(in crate::load) fn wait(&mut self, over: &mut Vec<usize>) -> Result<()> {
        over.clear();
        let Some(queue) = self.queue else { return Ok(()) };
        let mut events = [null_mut(); EVENTS_AT_ONCE as usize];
        let (count, at) = (EVENTS_AT_ONCE, events.as_mut_ptr());
        // SAFETY: there is room for so many.
        let taken = unsafe { ffi::daos_eq_poll(queue, 1, WAIT, count, at) };
        let Ok(taken) = usize::try_from(taken) else { return done("daos_eq_poll", "", taken) };
        for event in &events[..taken] {
            let position = self.slots.iter().position(|slot| slot.cast() == *event);
            let index = position.expect("the event is the first of its slot, and nobody else has the queue");
            self.is_running[index] = false;
            let slot = self.slot(index);
            let (error, dkey) = (slot.event.error, u64::from_le_bytes(slot.dkey));
            if error != 0 {
                return done("the event of an operation", &format!("dkey {dkey}"), error);
            }
            over.push(index);
        }
        Ok(())
    }

    /// The bytes that the last fetch of a slot has found.
    pub(in crate::load) fn found_bytes(&mut self, index: usize, kind: Kind) -> u64 {
        let slot = self.slot(index);
        match kind {
            Kind::Single => slot.iod.size,
            Kind::Array => slot.iod.size * slot.value_iov.len as u64,
        }
    }

    /// Waits for what runs, and gives slots and queue up.
    ///
    /// # Errors
    /// Those of the library.
    pub(in crate::load) fn close(mut self) -> Result<()> {
        let mut over = Vec::new();
        while self.is_busy() {
            self.wait(&mut over)?;
        }
        let slots = core::mem::take(&mut self.slots);
        for slot in slots {
            // SAFETY: it was made by `new` of a box, and nothing of it runs.
            let mut slot = unsafe { Box::from_raw(slot) };
            if self.queue.is_some() {
                let event = &raw mut slot.event;
                // SAFETY: it was begun by `new`, and is over.
                done("daos_event_fini", "", unsafe { ffi::daos_event_fini(event) })?;
            }
        }
        match self.queue {
            Some(queue) => done("daos_eq_destroy", "", ffi::daos_eq_destroy(queue, 0)),
            None => Ok(()),
        }
    }
}

/// Events taken at once.
const EVENTS_AT_ONCE: c_uint = 64;

/// Where a slot has its dkey, descriptor and list of buffers.
fn places(slot: *mut Slot) -> [*mut u8; 3] {
    // SAFETY: slots are there as long as their owner.
    let slot = unsafe { &mut *slot };
    [(&raw mut slot.dkey_iov).cast(), (&raw mut slot.iod).cast(), (&raw mut slot.list).cast()]
}

impl Slot {
    fn new(value_bytes: usize) -> Self {
        let iod = Iod {
            name: Iov::NONE,
            kind: ffi::KIND_SINGLE,
            size: value_bytes as u64,
            flags: 0,
            nr: 1,
            recxs: null_mut(),
        };
        Self {
            event: Event::NEW,
            dkey: [0; DKEY_BYTES],
            dkey_iov: Iov::NONE,
            extent: Recx { index: 0, count: value_bytes as u64 },
            iod,
            value: vec![0; value_bytes],
            value_iov: Iov::NONE,
            list: SgList { nr: 1, nr_out: 0, iovs: null_mut() },
        }
    }

    /// Points at the slot itself, which does not move from here on.
    fn fill(&mut self, kind: Kind, dkey: u64) {
        self.dkey = dkey.to_le_bytes();
        self.dkey_iov = Iov::of(&self.dkey);
        self.iod.name = Iov::of(AKEY);
        (self.iod.kind, self.iod.size, self.iod.recxs) = match kind {
            Kind::Single => (ffi::KIND_SINGLE, self.value.len() as u64, null_mut()),
            Kind::Array => (ffi::KIND_ARRAY, 1, &raw mut self.extent),
        };
        self.value_iov = Iov::room(&mut self.value);
        self.list = SgList { nr: 1, nr_out: 0, iovs: &raw mut self.value_iov };
    }
}
