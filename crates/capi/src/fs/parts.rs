//! Reads and writes of files with events: a request for each piece of the ranges, side by side, and again where the answers say so.
//!
//! Nothing here waits: what is not one request goes on when somebody polls.

use super::io::READ_BLIND_MAX;
use crate::buffer;
use crate::error::{Der, Errno, PosixResult};
use crate::event::{
    Chained, Ending, Ev, Finish, Next, Start, launch_chain_with, launch_posix, launch_rounds, launch_with,
};
use crate::place::PoolHandle;
use crate::raw::Out;
use crate::types::Iov;
use core::ffi::c_int;
use core::ops::Range;
use dolmen_client::{At, Error as StoreError, Event, Found, Output, Payload, Recx, Way};
use dolmen_dfs::{Error, File, FilePlace, Piece};
use std::collections::VecDeque;
use std::sync::Arc;

/// Requests of one operation that are under way side by side, with a buffer of at most 1 MiB for each that reads: enough to
/// keep every target of a pool at work, and a bound for the memory that a program's own numbers can claim.
const ROUND_MAX: usize = 64;

/// Moments that a read asks for: what it sees of one is aggregated only by who does so up to the present, each time again.
const MOMENTS_MAX: u32 = 8;

/// A range of a file: its offset and its length.
pub(super) type FileRange = (u64, usize);

/// The program's buffers as one row of bytes.
struct Places {
    iovs: Vec<Iov>,
    /// Where each begins.
    starts: Vec<usize>,
}

impl Places {
    fn new(iovs: &[Iov]) -> Self {
        let mut end = 0;
        let starts = iovs.iter().map(|iov| {
            let start = end;
            end += iov.len;
            start
        });
        Self { starts: starts.collect(), iovs: iovs.to_vec() }
    }

    /// The parts of a range, each in one buffer: where it is, and which bytes of the range it has.
    fn parts(&self, range: &Range<usize>) -> impl Iterator<Item = (Out<u8>, Range<usize>)> + use<'_> {
        let (start, end) = (range.start, range.end);
        let first = self.starts.partition_point(|&at| at <= start).saturating_sub(1);
        let touched = self.iovs[first..].iter().zip(&self.starts[first..]);
        touched.take_while(move |(_, at)| **at < end).filter_map(move |(iov, &at)| {
            let (from, to) = (start.max(at), end.min(at + iov.len));
            (from < to).then(|| (iov.buf.at(from - at), from - start..to - start))
        })
    }

    fn write(&self, at: usize, bytes: &[u8]) -> PosixResult<()> {
        for (place, part) in self.parts(&(at..at + bytes.len())) {
            place.copy_from(&bytes[part])?;
        }
        Ok(())
    }

    /// The bytes of a range: where they are, if that is one buffer, else a copy.
    fn payload(&self, range: &Range<usize>) -> PosixResult<Payload<'static>> {
        let mut parts = self.parts(range);
        if let (Some((place, part)), None) = (parts.next(), parts.next()) {
            return Ok(Payload::Ref(place.list(part.len())?));
        }
        let mut gathered = buffer::take(range.len())?;
        for (place, part) in self.parts(range) {
            gathered[part.clone()].copy_from_slice(place.list(part.len())?);
        }
        Ok(Payload::Owned(gathered))
    }
}

/// Why a request of a file could not be started.
fn refused(error: Error) -> Der {
    match error {
        Error::Store(error) => (*error).into(),
        _ => Der::MISC,
    }
}

fn code_of(error: Der) -> c_int {
    Errno::from(error).0
}

fn code(done: PosixResult<()>) -> c_int {
    done.map_or_else(|error| error.0, |()| 0)
}

fn next(done: PosixResult<Next>) -> Next {
    done.unwrap_or_else(|error| Next::Ended(error.0))
}

fn output(ending: &mut Ending) -> PosixResult<Output> {
    let result = core::mem::replace(&mut ending.result, Err(dolmen_client::Error::Canceled));
    result.map_err(|error| Error::from(error).into())
}

/// Launches a write of ranges from the program's buffers, which are as many bytes; whether it could be: not of nothing.
///
/// # Errors
/// What is wrong before anything is written.
pub(super) fn launch_write(
    pool: &Arc<PoolHandle>,
    ev: Ev,
    file: &File,
    ranges: &[FileRange],
    iovs: &[Iov],
) -> PosixResult<bool> {
    if ranges.iter().all(|&(_, len)| len == 0) {
        return Ok(false);
    }
    for &(offset, len) in ranges {
        if !file.begin_write(offset, len)? {
            return launch_looking_write(ev, file, ranges, iovs).map(|()| true);
        }
    }
    if let (&[(offset, len)], [iov]) = (ranges, iovs)
        && let Some(piece) = sole(file, offset, len)?
    {
        let data = Payload::Ref(iov.buf.list(len)?);
        let start = |event: &mut _| file.write_piece_on(event, &piece, data).map_err(refused);
        let end = |mut ending: Ending| code(output(&mut ending).map(drop));
        launch_with(ev, pool, start, Finish::Boxed(Box::new(end)))?;
        return Ok(true);
    }
    let (mut left, mut base) = (VecDeque::new(), 0);
    for &(offset, len) in ranges {
        left.extend(file.pieces(offset, len)?.map(|piece| (base, piece)));
        base += len;
    }
    let mut writing = Writing { file: file.clone(), places: Places::new(iovs), left };
    let first = writing.round()?;
    let step = move |endings: Vec<Ending>| next(writing.go_on(endings));
    launch_rounds(ev, pool, code_of, first, Box::new(step))?;
    Ok(true)
}

/// Launches a write of which each piece is a transaction that sees that the file is there: one after the other, as without an
/// event.
fn launch_looking_write(ev: Ev, file: &File, ranges: &[FileRange], iovs: &[Iov]) -> PosixResult<()> {
    launch_posix(ev, || {
        let (mut left, mut base) = (Vec::new(), 0);
        for &(offset, len) in ranges {
            file.begin_looking_write(offset, len)?;
            left.extend(file.pieces(offset, len)?.map(|piece| (base, piece)));
            base += len;
        }
        let (file, places) = (file.clone(), Places::new(iovs));
        Ok(async move {
            for (base, piece) in left {
                let bytes = piece.bytes();
                let data = places.payload(&(base + bytes.start..base + bytes.end))?;
                file.write_piece_by(Way::Later, &piece, data.bytes()).await?;
            }
            Ok(())
        })
    })
}

/// The range as one piece, if it is one.
fn sole(file: &File, offset: u64, len: usize) -> PosixResult<Option<Piece>> {
    let mut pieces = file.pieces(offset, len)?;
    let first = pieces.next();
    Ok(first.filter(|_| pieces.next().is_none()))
}

struct Writing {
    file: File,
    places: Places,
    /// What is to be written: where its range begins in the buffers, and the piece of it.
    left: VecDeque<(usize, Piece)>,
}

impl Writing {
    fn round(&mut self) -> PosixResult<Vec<Start>> {
        let count = self.left.len().min(ROUND_MAX);
        let mut starts = Vec::<Start>::with_capacity(count);
        for (base, piece) in self.left.drain(..count) {
            let bytes = piece.bytes();
            let data = self.places.payload(&(base + bytes.start..base + bytes.end))?;
            let file = self.file.clone();
            starts.push(Box::new(move |event| file.write_piece_on(event, &piece, data).map_err(refused)));
        }
        Ok(starts)
    }

    fn go_on(&mut self, endings: Vec<Ending>) -> PosixResult<Next> {
        for mut ending in endings {
            output(&mut ending)?;
        }
        if self.left.is_empty() { Ok(Next::Ended(0)) } else { Ok(Next::Ask(self.round()?)) }
    }
}

/// Launches a read of ranges into the program's buffers, which are as many bytes; whether it could be: not of nothing.
///
/// # Errors
/// What is wrong before anything is read.
pub(super) fn launch_read(
    pool: &Arc<PoolHandle>,
    ev: Ev,
    file: &File,
    ranges: &[FileRange],
    iovs: &[Iov],
    read_size: Out<u64>,
) -> PosixResult<bool> {
    if ranges.iter().all(|&(_, len)| len == 0) {
        return Ok(false);
    }
    if let (&[(offset, len)], &[iov]) = (ranges, iovs)
        && let Some(piece) = sole(file, offset, len)?
    {
        let reading = Reading::new(file, ranges, &[iov], read_size);
        launch_sole(pool, ev, reading, piece, iov)?;
        return Ok(true);
    }
    for &(offset, len) in ranges {
        // Ignored: only whether the range is one.
        let _pieces = file.pieces(offset, len)?;
    }
    let mut reading = Reading::new(file, ranges, iovs, read_size);
    let is_long = ranges.iter().any(|&(_, len)| len > READ_BLIND_MAX);
    let Next::Ask(first) = (if is_long { reading.ask_size(Stage::Bound) } else { reading.begin()? }) else {
        return Ok(false);
    };
    let step = move |endings: Vec<Ending>| next(reading.go_on(endings));
    launch_rounds(ev, pool, code_of, first, Box::new(step))?;
    Ok(true)
}

/// Launches a read of one piece into one buffer: usually it is all data, and the operation ends with it.
fn launch_sole(
    pool: &Arc<PoolHandle>,
    ev: Ev,
    mut reading: Reading,
    piece: Piece,
    iov: Iov,
) -> PosixResult<()> {
    let (file, len) = (reading.file.clone(), piece.bytes().len());
    reading.asked.push((0, 0, piece));
    let mut is_first = true;
    let start = move |event: &mut Event| {
        file.read_piece_on(event, At::Latest, &piece, buffer::take(len)?).map_err(refused)
    };
    let step = move |ending: Ending| {
        if core::mem::take(&mut is_first)
            && let (Ok(Output::Fetched(found)), Some(buf)) = (&ending.result, &ending.buf)
            && found.first().is_some_and(|found| is_whole(&found.filled, len))
        {
            let copied = iov.buf.copy_from(&buf[..len]).and_then(|()| reading.read_size.set(len as u64));
            ending.buf.into_iter().for_each(buffer::put_back);
            return Ok(Chained::Ended(copied.map_or_else(code_of, |()| 0)));
        }
        Ok(match next(reading.go_on(vec![ending])) {
            Next::Ended(error) => Chained::Ended(error),
            Next::Ask(mut starts) => starts.pop().map_or(Chained::Ended(libc::EIO), Chained::Ask),
        })
    };
    Ok(launch_chain_with(ev, pool, code_of, start, step)?)
}

fn is_whole(filled: &[Recx], len: usize) -> bool {
    filled.iter().map(|recx| recx.count).sum::<u64>() == len as u64
}

/// What the answers of a round are.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// The size, before more is read than may be there.
    Bound,
    /// What is there.
    Data,
    /// The size, after holes or the end were read.
    Size,
    /// A moment of which size and data are to be read, where others may cut the file in between.
    Moment,
    /// What is there in holes that are inside of the file: data may have come since.
    Again,
    /// The entry of the file, in which nothing was found.
    Name,
}

/// A read under way.
struct Reading {
    file: File,
    places: Places,
    read_size: Out<u64>,
    ranges: Vec<ReadRange>,
    /// What is to be read: which range, how far in it the piece's own begins, and the piece.
    left: VecDeque<(usize, usize, Piece)>,
    asked: Vec<(usize, usize, Piece)>,
    stage: Stage,
    /// When it is read.
    at: At<'static>,
    /// Moments that were asked for.
    moments: u32,
    /// Where the name of the file is looked for.
    place: Option<FilePlace>,
}

struct ReadRange {
    offset: u64,
    len: usize,
    /// Where it begins in the buffers.
    base: usize,
    /// From where on nothing says that the file goes on.
    open_from: Option<usize>,
}

impl Reading {
    fn new(file: &File, ranges: &[FileRange], iovs: &[Iov], read_size: Out<u64>) -> Self {
        let mut end = 0;
        let ranges = ranges.iter().map(|&(offset, len)| {
            let base = end;
            end += len;
            ReadRange { offset, len, base, open_from: None }
        });
        let (left, asked) = (VecDeque::new(), Vec::new());
        let (ranges, file, places) = (ranges.collect(), file.clone(), Places::new(iovs));
        let (stage, at) = (Stage::Data, At::Latest);
        Self { file, places, read_size, ranges, left, asked, stage, at, moments: 0, place: None }
    }

    /// The first data.
    fn begin(&mut self) -> PosixResult<Next> {
        self.stage = Stage::Data;
        for (index, range) in self.ranges.iter().enumerate() {
            self.left.extend(self.file.pieces(range.offset, range.len)?.map(|piece| (index, 0, piece)));
        }
        self.round()
    }

    fn round(&mut self) -> PosixResult<Next> {
        let count = self.left.len().min(ROUND_MAX);
        self.asked = self.left.drain(..count).collect();
        if self.asked.is_empty() {
            return self.after_data();
        }
        let mut starts = Vec::<Start>::with_capacity(count);
        for &(_, _, piece) in &self.asked {
            let (file, at, buf) = (self.file.clone(), self.at, buffer::take(piece.bytes().len())?);
            starts.push(Box::new(move |event| file.read_piece_on(event, at, &piece, buf).map_err(refused)));
        }
        Ok(Next::Ask(starts))
    }

    fn ask_size(&mut self, stage: Stage) -> Next {
        self.stage = stage;
        let (file, at) = (self.file.clone(), self.at);
        Next::Ask(vec![Box::new(move |event| file.size_on(event, at).map_err(refused))])
    }

    fn ask_moment(&mut self) -> Next {
        self.stage = Stage::Moment;
        self.moments += 1;
        let file = self.file.clone();
        Next::Ask(vec![Box::new(move |event| file.moment_on(event).map_err(refused))])
    }

    fn go_on(&mut self, endings: Vec<Ending>) -> PosixResult<Next> {
        let is_gone = |ending: &Ending| matches!(ending.result, Err(StoreError::EpochGone { .. }));
        let is_of_a_moment = matches!(self.at, At::Snapshot(_)) && self.moments < MOMENTS_MAX;
        if is_of_a_moment && endings.iter().any(is_gone) {
            self.left.clear();
            return Ok(self.ask_moment());
        }
        match self.stage {
            Stage::Bound => {
                let size = self.size(endings)?;
                for range in &mut self.ranges {
                    range.len = range.len_in(size);
                }
                self.begin()
            }
            Stage::Data | Stage::Again => {
                let asked = core::mem::take(&mut self.asked);
                for (ending, of) in endings.into_iter().zip(asked) {
                    self.take(ending, of)?;
                }
                self.round()
            }
            Stage::Size => {
                let size = self.size(endings)?;
                self.look_again(size)
            }
            Stage::Moment => {
                let mut ending = endings.into_iter().next().ok_or(Errno(libc::EIO))?;
                let Output::Written(epoch) = output(&mut ending)? else { return Err(Errno(libc::EIO)) };
                self.at = At::Snapshot(epoch);
                Ok(self.ask_size(Stage::Size))
            }
            Stage::Name => self.named(endings),
        }
    }

    fn size(&self, endings: Vec<Ending>) -> PosixResult<u64> {
        let mut ending = endings.into_iter().next().ok_or(Errno(libc::EIO))?;
        let Output::Found(found) = output(&mut ending)? else { return Err(Errno(libc::EIO)) };
        Ok(self.file.size_told(Option::<&Found>::from(&found))?)
    }

    /// Gives the program what a piece has. Behind its last data it is left as it is, until the size of the file is known.
    fn take(&mut self, mut ending: Ending, (index, from, piece): (usize, usize, Piece)) -> PosixResult<()> {
        let Output::Fetched(found) = output(&mut ending)? else { return Err(Errno(libc::EIO)) };
        let mut buf = ending.buf.take().ok_or(Errno(libc::EIO))?;
        let (range, len) = (&mut self.ranges[index], piece.bytes().len());
        let mut end = 0;
        for data in piece.data(&found.first().ok_or(Errno(libc::EIO))?.filled) {
            buf[end..data.start].fill(0);
            end = data.end;
        }
        if self.stage == Stage::Again {
            buf[end..len].fill(0);
            end = len;
        }
        let at = from + piece.bytes().start;
        self.places.write(range.base + at, &buf[..end])?;
        if end < len {
            let open_from = at + end;
            range.open_from = Some(range.open_from.map_or(open_from, |known| known.min(open_from)));
        }
        buffer::put_back(buf);
        Ok(())
    }

    fn after_data(&mut self) -> PosixResult<Next> {
        let is_open = self.ranges.iter().any(|range| range.open_from.is_some());
        if self.stage == Stage::Data && is_open {
            return Ok(self.ask_size(Stage::Size));
        }
        let finds_nothing = self.ranges.iter().any(|range| range.open_from.is_some() && range.len == 0);
        if !finds_nothing || !self.file.may_be_removed() {
            return self.end();
        }
        self.ask_name(self.file.place())
    }

    fn ask_name(&mut self, place: FilePlace) -> PosixResult<Next> {
        self.stage = Stage::Name;
        let (file, buf, at) = (self.file.clone(), buffer::take(File::NAME_RECORD_BYTES)?, place.clone());
        self.place = Some(place);
        Ok(Next::Ask(vec![Box::new(move |event| file.name_on(event, &at, buf).map_err(refused))]))
    }

    /// The size tells what of the open ends is in the file: that is read again, since data may have come before the size was
    /// looked at. What is not there now is a hole, unless the file was cut in between: where it may be, both are of one moment.
    fn look_again(&mut self, size: u64) -> PosixResult<Next> {
        let is_in = |range: &ReadRange| range.open_from.is_some_and(|from| from < range.len_in(size));
        let is_of_now = matches!(self.at, At::Latest);
        if is_of_now && self.file.may_be_cut() && self.ranges.iter().any(is_in) {
            return Ok(self.ask_moment());
        }
        self.stage = Stage::Again;
        for (index, range) in self.ranges.iter_mut().enumerate() {
            let Some(open_from) = range.open_from else { continue };
            range.len = range.len_in(size);
            if open_from < range.len {
                let pieces = self.file.pieces(range.offset + open_from as u64, range.len - open_from)?;
                self.left.extend(pieces.map(|piece| (index, open_from, piece)));
            }
        }
        self.round()
    }

    /// A file in which nothing was found is there still, or not.
    fn named(&mut self, endings: Vec<Ending>) -> PosixResult<Next> {
        let mut ending = endings.into_iter().next().ok_or(Errno(libc::EIO))?;
        let buf = ending.buf.take().unwrap_or_default();
        let Output::Fetched(found) = output(&mut ending)? else { return Err(Errno(libc::EIO)) };
        let place = self.place.take().ok_or(Errno(libc::EIO))?;
        match self.file.is_named(&place, &found, &buf)? {
            Some(place) => self.ask_name(place),
            None => self.end(),
        }
    }

    fn end(&self) -> PosixResult<Next> {
        let read: u64 = self.ranges.iter().map(|range| range.len as u64).sum();
        self.read_size.set(read)?;
        Ok(Next::Ended(0))
    }
}

impl ReadRange {
    /// How much of it is in a file of this size.
    fn len_in(&self, size: u64) -> usize {
        let there = size.saturating_sub(self.offset);
        usize::try_from(there).map_or(self.len, |there| there.min(self.len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_to_their_places_and_come_from_them_whatever_the_buffers_are() {
        let mut memory: Vec<Vec<u8>> = [3, 0, 1, 0, 0, 6].map(|len| vec![0; len]).to_vec();
        let iovs: Vec<Iov> = memory
            .iter_mut()
            .map(|bytes| Iov { buf: Out::of(bytes.as_mut_ptr()), buf_len: bytes.len(), len: bytes.len() })
            .collect();
        let places = Places::new(&iovs);
        for start in 0..10_usize {
            for end in start..=10 {
                let bytes: Vec<u8> = (start..end).map(|at| u8::try_from(100 + at).unwrap()).collect();
                places.write(start, &bytes).unwrap();
                let payload = places.payload(&(start..end)).unwrap();
                assert_eq!(payload.bytes(), bytes, "{start}..{end}");
                let is_one = start < end && (end <= 3 || (start == 3 && end == 4) || start >= 4);
                assert_eq!(matches!(payload, Payload::Ref(_)), is_one, "{start}..{end}");
            }
        }
        assert_eq!(memory.concat(), (100..110).collect::<Vec<u8>>());
    }
}
