//! An I/O error at every boundary of a write: the error is reported, and nothing acknowledged is lost. Damage
//! beside what is wanted is an error as well.

use crate::rig::{Rig, oid};
use dolmen_codec::verb::{ReadAt, Want};
use dolmen_env::Media;
use dolmen_env::sim::{CrashPlan, Fault};
use dolmen_types::{Durability, Error, Recx};
use smallvec::smallvec;

/// What a write answered, by dkey.
fn put(rig: &mut Rig, dkey: u8, bytes: usize) -> Result<(), Error> {
    rig.put(oid(1), &[dkey], b"a", &vec![dkey; bytes]).map(|_| ())
}

#[test]
fn after_a_failed_flush_nothing_is_acknowledged_and_what_was_stays() {
    let (mut read_only, mut failed) = (0, 0);
    for media in [Media::Block, Media::Mapped] {
        for bytes in [100, 20_000] {
            for at in 0..12 {
                let mut rig = Rig::new(media, Durability::Power);
                put(&mut rig, 1, bytes).unwrap();
                rig.drive.power().fail_at(rig.drive.power().ops() + at, Fault::Eio);
                let answers: Vec<_> = (2..8).map(|dkey| put(&mut rig, dkey, bytes)).collect();
                failed += answers.iter().filter(|answer| matches!(answer, Err(Error::Io { .. }))).count();
                // Once it is read-only it stays so, and it still answers reads.
                let first = answers.iter().position(|answer| matches!(answer, Err(Error::ReadOnly { .. })));
                if let Some(first) = first {
                    read_only += 1;
                    let stays = |answer: &Result<(), Error>| matches!(answer, Err(Error::ReadOnly { .. }));
                    assert!(answers[first..].iter().all(stays), "{media:?}, {at}: {answers:?}");
                    assert_eq!(rig.get(oid(1), &[1], b"a"), Some(vec![1; bytes]));
                }
                // What a failed flush covered never becomes durable by a later one.
                rig.crash(CrashPlan::None);
                for (dkey, answer) in (1..).zip([Ok(())].into_iter().chain(answers)) {
                    let found = rig.get(oid(1), &[dkey], b"a");
                    let whole = found == Some(vec![dkey; bytes]);
                    assert!(whole || found.is_none(), "{media:?}, {at}: half a value under {dkey}");
                    assert!(whole || answer.is_err(), "{media:?}, {at}: {dkey} was acknowledged");
                }
                rig.assert_clean();
            }
        }
    }
    assert!(read_only >= 4 && failed >= 10, "{read_only} read-only, {failed} failed");
}

#[test]
fn a_part_of_a_damaged_chunk_is_an_error() {
    for media in [Media::Block, Media::Mapped] {
        let mut rig = Rig::new(media, Durability::Power);
        rig.write(oid(1), b"d", b"x", 0, 1, &[7; 40_000]).unwrap();
        rig.target.take().unwrap().close().unwrap();
        rig.drive.flip("bulk.00000000", 100, 3).unwrap();
        rig.reopen();
        let mut part = |index| {
            let want = Want::Array { record_bytes: 1, extents: smallvec![Recx::new(index, 10)] };
            rig.fetch(oid(1), b"d", b"x", want, 10, ReadAt::Latest)
        };
        assert!(matches!(part(200), Err(Error::Corrupt { .. })), "{media:?}");
        assert_eq!(part(36_000).unwrap().2, [7; 10], "another chunk is whole");
    }
}

#[test]
fn damage_of_any_chunk_of_a_value_is_an_error() {
    const CHUNK: u64 = 32 << 10;
    let value: Vec<u8> = (0..100_000_u32).map(|at| at.to_le_bytes()[1] | 1).collect();
    for media in [Media::Block, Media::Mapped] {
        for chunk in 0..4 {
            let mut rig = Rig::new(media, Durability::Power);
            rig.write(oid(1), b"d", b"x", 0, 1, &value).unwrap();
            rig.target.take().unwrap().close().unwrap();
            rig.drive.flip("bulk.00000000", chunk * CHUNK + 100, 3).unwrap();
            rig.reopen();
            let want = Want::Array { record_bytes: 1, extents: smallvec![Recx::new(0, 100_000)] };
            let read = rig.fetch(oid(1), b"d", b"x", want, 100_000, ReadAt::Latest);
            assert!(matches!(read, Err(Error::Corrupt { .. })), "{media:?}, chunk {chunk}");
        }
    }
}
