//! Large files, or arrays in their stead: the phases of IOR.

use super::daos::{Array, File, Files, Mode};
use super::options::IorLoad;
use super::pattern::Pattern;
use super::rank::{Tally, Team};
use crate::error::{Error, Result};

const ENOENT: i32 = 2;

/// Where data lie; without a mount, in arrays.
type Mounted<'a> = Option<&'a Files>;

/// What is open: a file of a mount, or an array.
enum Open<'a> {
    File(&'a Files, File),
    Array(Array),
}

impl<'a> Open<'a> {
    fn new(load: &IorLoad, team: &Team, files: Mounted<'a>, rank: u32, mode: Mode) -> Result<Self> {
        match files {
            Some(files) => Ok(Self::File(files, files.open(None, &name(load, rank), mode)?)),
            None => {
                let number = 1 + owner(load, rank);
                Array::open(&team.connection, number, team.class, load.chunk_bytes).map(Self::Array)
            }
        }
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        match self {
            Self::File(files, file) => files.write(file, offset, bytes),
            Self::Array(array) => array.write(offset, bytes),
        }
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<u64> {
        match self {
            Self::File(files, file) => files.read(file, offset, bytes),
            Self::Array(array) => array.read(offset, bytes),
        }
    }

    fn close(self) -> Result<()> {
        match self {
            Self::File(_, file) => file.close(),
            Self::Array(array) => array.close(),
        }
    }
}

/// One repetition.
pub(super) fn round(load: &IorLoad, team: &Team, files: Mounted<'_>) -> Result<()> {
    if load.write {
        team.step("make room", || remove(load, team, files))?;
        team.phase("write", |tally| write(load, team, files, tally))?;
    }
    if load.check_write {
        team.phase("write check", |tally| read(load, team, files, tally, true))?;
    }
    if load.read {
        team.phase("read", |tally| read(load, team, files, tally, load.check_read))?;
    }
    if !load.keep {
        team.step("remove", || remove(load, team, files))?;
    }
    Ok(())
}

/// Removes this process's file, or as the first one that of all.
fn remove(load: &IorLoad, team: &Team, files: Mounted<'_>) -> Result<()> {
    if !load.file_per_process && !team.is_first() {
        return Ok(());
    }
    let Some(files) = files else {
        let array = Array::open(&team.connection, 1 + owner(load, team.rank), team.class, load.chunk_bytes)?;
        array.destroy()?;
        return array.close();
    };
    match files.remove(None, &name(load, team.rank), false) {
        Err(Error::Call { number: ENOENT, .. }) => Ok(()),
        other => other,
    }
}

fn name(load: &IorLoad, rank: u32) -> String {
    if load.file_per_process { format!("{}.{rank:08}", load.file) } else { load.file.clone() }
}

fn write(load: &IorLoad, team: &Team, files: Mounted<'_>, tally: &mut Tally) -> Result<()> {
    let open = Open::new(load, team, files, team.rank, Mode::Write)?;
    let (mut pattern, len) = (pattern(load), load.transfer_bytes);
    for offset in offsets(load, team.processes, team.rank) {
        let bytes = pattern.at(owner(load, team.rank), offset);
        tally.run(len, || open.write(offset, bytes))?;
    }
    open.close()
}

/// Reads what this process, or with `reorder` the next, has written. Without being asked to compare, it looks at how much
/// that is.
fn read(load: &IorLoad, team: &Team, files: Mounted<'_>, tally: &mut Tally, check: bool) -> Result<()> {
    let writer = team.next(u32::from(load.reorder));
    let open = Open::new(load, team, files, writer, Mode::Read)?;
    let mut pattern = pattern(load);
    let mut buffer = pattern.bytes().to_vec();
    let kind = if load.arrays { "array" } else { "file" };
    for offset in offsets(load, team.processes, writer) {
        let read = tally.run(load.transfer_bytes, || open.read(offset, &mut buffer))?;
        if check || read != load.transfer_bytes {
            let found = &buffer[..usize::try_from(read).unwrap_or(0)];
            let what = || format!("{kind} /{}", name(load, writer));
            pattern.check((owner(load, writer), offset), found, what, offset)?;
        }
    }
    open.close()
}

fn pattern(load: &IorLoad) -> Pattern {
    Pattern::new(load.signature, usize::try_from(load.transfer_bytes).expect("a transfer fits into memory"))
}

/// Files of processes differ in their data; of a shared file the offset tells enough.
fn owner(load: &IorLoad, rank: u32) -> u64 {
    if load.file_per_process { 1 + u64::from(rank) } else { 0 }
}

/// Where a process writes, in the order in which it does.
fn offsets(load: &IorLoad, processes: u32, rank: u32) -> Vec<u64> {
    let (blocks_a_row, own) =
        if load.file_per_process { (1, 0) } else { (u64::from(processes), u64::from(rank)) };
    let mut all: Vec<u64> = (0..load.segments)
        .flat_map(|segment| {
            let block = (segment * blocks_a_row + own) * load.block_bytes;
            (0..load.block_bytes / load.transfer_bytes).map(move |index| block + index * load.transfer_bytes)
        })
        .collect();
    if load.random {
        dolmen_env::Rng::from_seed(1 + u64::from(rank)).shuffle(&mut all);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load() -> IorLoad {
        IorLoad {
            transfer_bytes: 8,
            block_bytes: 16,
            segments: 2,
            file_per_process: false,
            write: true,
            read: true,
            check_write: false,
            check_read: false,
            reorder: false,
            random: false,
            keep: false,
            signature: 0,
            arrays: false,
            file: "f".to_owned(),
            class: None,
            chunk_bytes: 0,
        }
    }

    #[test]
    fn processes_together_cover_a_shared_file_once() {
        assert_eq!(offsets(&load(), 2, 0), [0, 8, 32, 40]);
        assert_eq!(offsets(&load(), 2, 1), [16, 24, 48, 56]);
        let own = IorLoad { file_per_process: true, ..load() };
        assert_eq!(offsets(&own, 2, 1), [0, 8, 16, 24]);
    }

    #[test]
    fn a_random_order_leaves_nothing_out() {
        let random = IorLoad { random: true, segments: 50, ..load() };
        let mut offsets = offsets(&random, 1, 0);
        assert!(!offsets.is_sorted());
        offsets.sort_unstable();
        assert_eq!(offsets, (0..100).map(|index| index * 8).collect::<Vec<u64>>());
    }
}
