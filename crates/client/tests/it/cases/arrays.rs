//! Arrays against a plain vector of cells.

use super::common::open;
use core::task::Poll;
use dolmen_client::{
    Array, ArrayRead, At, Container, Epoch, Error, Invalid, IoBuf, ObjectClass, ObjectType, Recx, Way,
};
use dolmen_codec::step as step_once;
use proptest::prelude::*;

fn array(cont: &Container, object_type: ObjectType, cell: u64, chunk: u64) -> Array {
    let oid = cont.alloc_oid(object_type, ObjectClass::SX).unwrap();
    Array::create(cont, At::Latest, oid, cell, chunk).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<(u64, u64)>),
    Punch(u64, u64),
    SetSize(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop::collection::vec((0_u64..60, 1_u64..20), 1..4).prop_map(Step::Write),
        1 => (0_u64..60, 1_u64..30).prop_map(|(start, count)| Step::Punch(start, count)),
        1 => (0_u64..60).prop_map(|start| Step::Punch(start, u64::MAX - start)),
        1 => (0_u64..90).prop_map(Step::SetSize),
    ]
}

/// Cells by index; `None` is a hole.
#[derive(Default, Debug)]
struct Plain(Vec<Option<[u8; 2]>>);

impl Plain {
    fn trim(&mut self) {
        while self.0.last().is_some_and(Option::is_none) {
            self.0.pop();
        }
    }

    fn set(&mut self, index: u64, cell: Option<[u8; 2]>) {
        let index = usize::try_from(index).unwrap();
        if self.0.len() <= index {
            self.0.resize(index + 1, None);
        }
        self.0[index] = cell;
        self.trim();
    }

    fn set_size(&mut self, size: u64) {
        let size = usize::try_from(size).unwrap();
        self.0.resize(size, None);
        if let Some(last) = self.0.last_mut() {
            last.get_or_insert([0; 2]);
        }
    }
}

/// Ranges of one write may not overlap; each starts after the one before.
fn spread(ranges: &[(u64, u64)]) -> Vec<Recx> {
    let mut start = 0;
    ranges
        .iter()
        .map(|&(skip, count)| {
            let recx = Recx::new(start + skip / 4, count);
            start = recx.index + count;
            recx
        })
        .collect()
}

/// Polls an operation to its end.
fn later<T>(operation: impl Future<Output = T>) -> T {
    let mut operation = Box::pin(operation);
    loop {
        if let Poll::Ready(result) = step_once(&mut operation) {
            return result;
        }
    }
}

fn apply(array: &Array, at: At<'_>, step: &Step, mark: u8, plain: &mut Plain) {
    match step {
        Step::Write(ranges) => {
            let ranges = spread(ranges);
            let cells: Vec<u64> = ranges.iter().flat_map(|r| r.index..r.index + r.count).collect();
            let data: Vec<u8> = cells.iter().flat_map(|&i| [mark, u8::try_from(i).unwrap()]).collect();
            array.write(at, &ranges, &data).unwrap();
            cells.iter().for_each(|&i| plain.set(i, Some([mark, u8::try_from(i).unwrap()])));
        }
        Step::Punch(start, count) => {
            array.punch(at, &[Recx::new(*start, *count)]).unwrap();
            (*start..(start + count).min(plain.0.len() as u64)).for_each(|i| plain.set(i, None));
        }
        Step::SetSize(size) => {
            match at {
                // As events do it, which goes another way.
                At::Latest if mark.is_multiple_of(2) => later(array.set_size_by(Way::Later, *size)).unwrap(),
                at => array.set_size(at, *size).unwrap(),
            }
            plain.set_size(*size);
        }
    }
}

fn check(array: &Array, at: At<'_>, plain: &Plain, ranges: &[Recx]) {
    let size = plain.0.len() as u64;
    assert_eq!(array.size(at).unwrap(), size);
    let mut buf = IoBuf::copy_of(&[0xaa; 64]);
    let read = array.read(at, ranges, &mut buf).unwrap();
    let cells: Vec<u64> = ranges.iter().flat_map(|r| r.index..r.index + r.count).collect();
    let short_records = cells.iter().filter(|&&i| i >= size).count() as u64;
    assert_eq!(read, ArrayRead { records: cells.len() as u64 - short_records, short_records });
    let cell = |i: u64| plain.0.get(usize::try_from(i).unwrap()).copied().flatten().unwrap_or([0; 2]);
    let expected: Vec<u8> = cells.iter().flat_map(|&i| cell(i)).collect();
    assert_eq!(&buf[..expected.len()], &expected[..]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_array_behaves_like_a_vector_of_cells(
        chunk in 1_u64..12,
        steps in prop::collection::vec((step(), any::<bool>()), 1..14),
        ranges in prop::collection::vec((0_u64..80, 1_u64..30), 1..4),
    ) {
        let (_, _, cont) = open(3);
        for object_type in [ObjectType::Array, ObjectType::ArrayAttr] {
            let array = array(&cont, object_type, 2, chunk);
            let mut plain = Plain::default();
            let ranges: Vec<Recx> = ranges.iter().map(|&(start, count)| Recx::new(start, count)).collect();
            for (number, (step, in_tx)) in steps.iter().enumerate() {
                let mark = u8::try_from(number).unwrap() + 1;
                if *in_tx {
                    let tx = cont.begin().unwrap();
                    apply(&array, At::Tx(&tx), step, mark, &mut plain);
                    check(&array, At::Tx(&tx), &plain, &ranges);
                    tx.commit().unwrap();
                } else {
                    apply(&array, At::Latest, step, mark, &mut plain);
                }
                check(&array, At::Latest, &plain, &ranges);
            }
        }
    }
}

#[test]
fn an_array_keeps_its_sizes_with_it() {
    let (_, _, cont) = open(2);
    let oid = cont.alloc_oid(ObjectType::Array, ObjectClass::SX).unwrap();
    assert_eq!(Array::open(&cont, At::Latest, oid).err(), Some(Error::NotFound));
    let array = Array::create(&cont, At::Latest, oid, 8, 1000).unwrap();
    assert_eq!(Array::create(&cont, At::Latest, oid, 8, 1000).err(), Some(Error::Exists));
    let same = Array::open(&cont, At::Latest, oid).unwrap();
    assert_eq!((same.cell_bytes(), same.chunk_records()), (8, 1000));
    array.write(At::Latest, &[Recx::new(5, 1)], &[1; 8]).unwrap();
    array.set_size(At::Latest, 0).unwrap();
    assert_eq!(array.size(At::Latest), Ok(0));
    assert!(Array::open(&cont, At::Latest, oid).is_ok());
    array.destroy(At::Latest).unwrap();
    assert_eq!(Array::open(&cont, At::Latest, oid).err(), Some(Error::NotFound));
}

#[test]
fn other_ids_and_sizes_are_refused() {
    let (_, _, cont) = open(1);
    let id = |object_type| cont.alloc_oid(object_type, ObjectClass::S1).unwrap();
    let refused = |result: Result<Array, Error>| result.err().unwrap();
    let array = id(ObjectType::Array);
    assert_eq!(refused(Array::open_with(&cont, array, 1, 1)), Invalid::ObjectId.into());
    assert_eq!(refused(Array::open_with(&cont, id(ObjectType::MultiHashed), 1, 1)), Invalid::ObjectId.into());
    assert_eq!(refused(Array::open_with(&cont, id(ObjectType::ArrayByte), 2, 1)), Invalid::RecordSize.into());
    assert_eq!(refused(Array::open_with(&cont, id(ObjectType::ArrayAttr), 2, 0)), Invalid::Argument.into());
    assert_eq!(refused(Array::create(&cont, At::Latest, array, 0, 1)), Invalid::RecordSize.into());
    let bytes = Array::open_with(&cont, id(ObjectType::ArrayByte), 1, 16).unwrap();
    assert_eq!(bytes.write(At::Latest, &[Recx::new(0, 3)], b"four"), Err(Invalid::Payload.into()));
    assert_eq!(bytes.write(At::Latest, &[Recx::new(u64::MAX, 3)], b"abc"), Err(Invalid::Extent.into()));
    assert_eq!(
        bytes.read(At::Latest, &[Recx::new(0, 1 << 40)], &mut IoBuf::default()),
        Err(Invalid::Count.into())
    );
    let object = bytes.object();
    let all = object.read(At::Latest, &[0; 8], b"a", 1, Recx::new(0, u64::MAX), &mut IoBuf::default());
    assert_eq!(all, Err(Invalid::Extent.into()));
    let many = vec![Recx::new(0, 1); 16_385];
    assert_eq!(bytes.read(At::Latest, &many, &mut IoBuf::default()), Err(Invalid::Count.into()));
}

#[test]
fn the_age_of_an_array_is_that_of_its_newest_record() {
    let (_, _, cont) = open(2);
    let array = array(&cont, ObjectType::ArrayByte, 1, 4);
    assert_eq!(array.stat(At::Latest).unwrap().max_epoch, Epoch::ZERO);
    array.write(At::Latest, &[Recx::new(0, 9)], &[1; 9]).unwrap();
    let before = array.stat(At::Latest).unwrap();
    let epoch =
        cont.transact(|tx| array.write(At::Tx(tx), &[Recx::new(2, 1)], b"x").map(|()| tx.epoch())).unwrap();
    let after = array.stat(At::Latest).unwrap();
    assert_eq!((before.size, after.size, after.max_epoch), (9, 9, epoch));
    assert!(before.max_epoch < epoch);
}

#[test]
fn a_snapshot_keeps_size_and_cells() {
    let (_, _, cont) = open(3);
    let array = array(&cont, ObjectType::ArrayByte, 1, 4);
    array.write(At::Latest, &[Recx::new(0, 40)], &[1; 40]).unwrap();
    let epoch = cont.create_snapshot(None).unwrap();
    array.set_size(At::Latest, 7).unwrap();
    assert_eq!((array.size(At::Snapshot(epoch)), array.size(At::Latest)), (Ok(40), Ok(7)));
    assert_eq!(array.set_size(At::Snapshot(epoch), 1), Err(Error::NoPermission));
}

/// Ranges that overlap, or records of another size, in the last chunk of several.
#[test]
fn what_a_transaction_refuses_of_an_array_it_refuses_of_all_its_chunks() {
    let (_, _, cont) = open(2);
    let array = array(&cont, ObjectType::Array, 2, 4);
    array.write(At::Latest, &[Recx::new(2, 1)], b"ab").unwrap();
    let tx = cont.begin().unwrap();
    let at = At::Tx(&tx);
    let overlapping = [Recx::new(0, 6), Recx::new(5, 2)];
    assert_eq!(array.write(at, &overlapping, &[7; 16]), Err(Invalid::Extent.into()));
    assert_eq!(array.punch(at, &overlapping), Err(Invalid::Extent.into()));
    array.object().write(at, &3_u64.to_le_bytes(), b"0", 1, Recx::new(0, 1), b"x").unwrap();
    let other_size = array.write(at, &[Recx::new(0, 12)], &[7; 24]);
    assert_eq!(other_size, Err(Error::RecordSize { stored_bytes: 1 }));
    tx.commit().unwrap();
    let filled = array.read_filled(At::Latest, &[Recx::new(0, 8)], &mut IoBuf::default()).unwrap();
    assert_eq!(filled[..], [Recx::new(2, 1)]);
}

/// Whatever the number of polls after which another writes behind the end.
#[test]
fn a_size_that_is_set_by_polling_is_before_or_behind_what_comes_between_its_requests() {
    let (_, _pool, cont) = open(3);
    let mut sizes = Vec::new();
    for polls in 0..16 {
        let array = array(&cont, ObjectType::ArrayByte, 1, 4);
        array.write(At::Latest, &[Recx::new(0, 10)], &[7; 10]).unwrap();
        let mut cut = Box::pin(array.set_size_by(Way::Later, 5));
        let mut end = Poll::Pending;
        for _ in 0..polls {
            if end.is_pending() {
                end = step_once(&mut cut);
            }
        }
        array.write(At::Latest, &[Recx::new(20, 1)], &[8]).unwrap();
        match end {
            Poll::Ready(result) => result.unwrap(),
            Poll::Pending => later(cut).unwrap(),
        }
        let size = array.size(At::Latest).unwrap();
        let mut buf = IoBuf::zeroed(21);
        array.read(At::Latest, &[Recx::new(0, 21)], &mut buf).unwrap();
        let rest = if size == 5 { [0; 16] } else { core::array::from_fn(|at| if at == 15 { 8 } else { 0 }) };
        assert_eq!((&buf[..5], &buf[5..21]), (&[7; 5][..], &rest[..]), "after {polls} polls");
        sizes.push(size);
    }
    assert!(sizes.is_sorted() && sizes[0] == 5 && sizes[15] == 21, "{sizes:?}");
}
