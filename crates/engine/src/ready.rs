//! Bulk segments that are made while nobody asks for anything, so that who writes next does not wait for memory.
//!
//! Where devices are memory, a page that nobody has had before costs several times what copying into it does: on a machine
//! that is itself a guest 0.4 to 2 us, so that a writer who made its segments would get 0.6 to 2 GiB/s however fast it is.
//! A pool has a part of its capacity at hand, in pieces that hold a target up no longer than a large write does.
//!
//! Invariants: a segment in the making is named by no manifest and refers to nothing, so a crash leaves a file that the next
//! open removes; it becomes one of the segments once it is as long as they are, written from end to end.

use crate::bulk::{Bulk, file_name};
use crate::error::disk_error;
use crate::target::Target;
use dolmen_env::{Disk, FileId, Media};
use dolmen_types::Error;

/// What is at hand is such a part of the capacity, and of what the device has left; DAOS takes all of both at once.
const PARTS: u64 = 16;

/// And no more than this on one device, which a machine writes in about a quarter of a second.
const READY_BYTES_MAX: u64 = 512 << 20;

/// What one step makes: less than a millisecond, two where the machine's own host has to find the memory.
const PIECE_BYTES: u64 = 1 << 20;

/// Written over and over: as much as stays near the processor.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// What is made ahead.
#[derive(Default)]
pub(crate) struct Ready {
    making: Option<Making>,
    /// Empty segments that are to be there; none before the first was made.
    wanted: usize,
    /// There is nothing to be made until something is asked: enough is there, or no room, or the device has refused a piece.
    is_settled: bool,
}

/// A segment that is not complete.
struct Making {
    number: u32,
    file: FileId,
    made_bytes: u64,
}

impl Ready {
    /// Something is asked of the target, or has been freed.
    #[inline]
    pub(crate) fn disturb(&mut self) {
        self.is_settled = false;
    }

    /// Empty segments that are kept for what comes.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted
    }
}

impl Target {
    /// Makes a piece of the next segment if the target has too few at hand; whether it did. To be called at rest.
    pub(crate) fn make_ready(&mut self) -> bool {
        if self.store.disks.bulk().media() != Media::Mapped || self.store.bulk.ready.is_settled {
            return false;
        }
        let wanted = self.segments_at_hand();
        self.store.bulk.ready.wanted = wanted;
        let is_made = self.store.bulk.empty_count() < wanted
            && self.has_room_for_segment()
            && self.store.bulk.make_piece(self.store.disks.bulk()).is_ok();
        self.store.bulk.ready.is_settled = !is_made;
        is_made
    }

    /// How many empty segments should be there.
    fn segments_at_hand(&mut self) -> usize {
        let left = self.store.disks.bulk().space().map_or(0, |space| space.free_bytes);
        let sharers = u64::from(self.config.device_sharers.max(1));
        let bytes = (self.config.capacity_bytes / PARTS).min(left / PARTS / sharers);
        let count = bytes.min(READY_BYTES_MAX / sharers) / self.store.bulk.segment_bytes();
        usize::try_from(count).unwrap_or(usize::MAX)
    }
}

impl Bulk {
    /// Makes a piece of the next segment.
    fn make_piece(&mut self, disk: &mut dyn Disk) -> Result<(), Error> {
        let made = self.make_next_piece(disk);
        if made.is_err() {
            self.give_up_making(disk);
        }
        made
    }

    fn make_next_piece(&mut self, disk: &mut dyn Disk) -> Result<(), Error> {
        let (target, segment_bytes) = (self.target(), self.segment_bytes());
        let io = |e: dolmen_env::Error| disk_error(target, &e);
        let Some(making) = &mut self.ready.making else {
            let number = self.unused_number(disk)?;
            let made_bytes = PIECE_BYTES.min(segment_bytes);
            let file = disk.create(&file_name(number), made_bytes).map_err(io)?;
            self.ready.making = Some(Making { number, file, made_bytes });
            return self.take_made(disk);
        };
        let more_bytes = PIECE_BYTES.min(segment_bytes - making.made_bytes);
        disk.extend(making.file, more_bytes).map_err(io)?;
        let end = making.made_bytes + more_bytes;
        while making.made_bytes < end {
            let len = (end - making.made_bytes).min(ZEROS.len() as u64);
            let zeros = &ZEROS[..usize::try_from(len).expect("no more than there are")];
            disk.write_at(making.file, making.made_bytes, zeros).map_err(io)?;
            making.made_bytes += len;
        }
        self.take_made(disk)
    }

    /// A segment that is complete becomes one of the others. Its length becomes durable with what is written into it.
    fn take_made(&mut self, disk: &mut dyn Disk) -> Result<(), Error> {
        let segment_bytes = self.segment_bytes();
        let Some(made) = self.ready.making.take_if(|making| making.made_bytes == segment_bytes) else {
            return Ok(());
        };
        let added = self.add_segment(disk, made.number, made.file);
        if added.is_err() {
            self.ready.making = Some(made);
        }
        added
    }

    /// Completes the segment in the making for a writer who needs one; whether there was any.
    pub(crate) fn finish_making(&mut self, disk: &mut dyn Disk) -> Result<bool, Error> {
        let was_making = self.ready.making.is_some();
        while self.ready.making.is_some() {
            self.make_piece(disk)?;
        }
        Ok(was_making)
    }

    /// Gives back what there is of a segment in the making.
    pub(crate) fn give_up_making(&mut self, disk: &mut dyn Disk) {
        if let Some(making) = self.ready.making.take() {
            disk.close(making.file);
            // Ignored: a segment that nothing names is removed by the next open.
            let _removed = disk.remove(&file_name(making.number));
        }
    }

    /// Nothing is kept for what comes: the target is closed.
    pub(crate) fn stop_making(&mut self, disk: &mut dyn Disk) {
        self.give_up_making(disk);
        self.ready = Ready::default();
    }
}
