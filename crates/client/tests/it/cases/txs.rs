//! Transactions: atomic over targets, conflicts, repeats, ends.

use super::common::{new_container, open};
use super::objects::object;
use core::task::Poll;
use dolmen_client::{
    Anchor, Array, At, Cond, Container, Error, Invalid, IoBuf, NewValue, Object, ObjectClass, ObjectType,
    Page, Payload, QueryFlags, Recx, Tx, UpdateIod, Way,
};
use dolmen_codec::step;
use dolmen_types::Key;
use std::sync::Arc;

fn number(object: &Object, at: At<'_>, dkey: &[u8]) -> Result<u64, Error> {
    let mut buf = IoBuf::default();
    let len = object.get(at, dkey, b"n", &mut buf)?;
    Ok(len.map_or(0, |len| u64::from_le_bytes(buf[..len].try_into().unwrap())))
}

fn add(object: &Object, tx: &Tx, dkey: &[u8], by: u64) -> Result<(), Error> {
    let sum = number(object, At::Tx(tx), dkey)? + by;
    object.put(At::Tx(tx), dkey, b"n", &sum.to_le_bytes()).map(|_| ())
}

fn counters(cont: &Container) -> Object {
    object(cont, ObjectType::MultiHashed, "SX")
}

#[test]
fn a_commit_over_targets_is_seen_at_once_and_nothing_before() {
    let (_, _, cont) = open(4);
    let object = counters(&cont);
    let tx = cont.begin().unwrap();
    for n in 0..16_u8 {
        add(&object, &tx, &[n, 7], 1).unwrap();
        assert_eq!(number(&object, At::Latest, &[n, 7]).unwrap(), 0);
        assert_eq!(number(&object, At::Tx(&tx), &[n, 7]).unwrap(), 1);
    }
    let epoch = tx.commit().unwrap();
    assert_eq!(epoch, tx.epoch());
    for n in 0..16_u8 {
        assert_eq!(number(&object, At::Latest, &[n, 7]).unwrap(), 1);
    }
}

#[test]
fn a_transaction_that_has_dug_an_array_reads_what_it_writes_there_in_another_record_size() {
    let (_, _, cont) = open(2);
    let object = counters(&cont);
    object.write(At::Latest, b"d", b"a", 1, Recx::new(0, 8), b"12345678").unwrap();
    let tx = cont.begin().unwrap();
    object.punch_records(At::Tx(&tx), b"d", b"a", &[Recx::new(0, 100)]).unwrap();
    object.write(At::Tx(&tx), b"d", b"a", 2, Recx::new(0, 1), b"ab").unwrap();
    let mut buf = IoBuf::default();
    for committed in [false, true] {
        let at = if committed { At::Latest } else { At::Tx(&tx) };
        let read = object.read(at, b"d", b"a", 2, Recx::new(0, 3), &mut buf).unwrap();
        assert_eq!((read.size_bytes, &buf[..2]), (2, &b"ab"[..]), "committed: {committed}");
        if !committed {
            tx.commit().unwrap();
        }
    }
}

#[test]
fn of_two_that_read_and_write_the_same_one_must_restart() {
    let (_, _, cont) = open(2);
    let object = counters(&cont);
    let (first, second) = (cont.begin().unwrap(), cont.begin().unwrap());
    add(&object, &first, b"x", 1).unwrap();
    add(&object, &second, b"x", 10).unwrap();
    let results = [first.commit(), second.commit()];
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1, "{results:?}");
    let lost = if results[0].is_ok() { &second } else { &first };
    assert!(lost.must_restart());
    assert!(matches!(number(&object, At::Tx(lost), b"x"), Err(Error::TxRestart { .. })));
    lost.restart().unwrap();
    add(&object, lost, b"x", 100).unwrap();
    lost.commit().unwrap();
    let sum = number(&object, At::Latest, b"x").unwrap();
    assert!([101, 110].contains(&sum), "{sum}");
}

/// Two doctors: each may leave if the other stays. Write skew would let both go.
#[test]
fn write_skew_is_refused() {
    let (_, _, cont) = open(2);
    let object = counters(&cont);
    cont.transact(|tx| {
        add(&object, tx, b"a", 1)?;
        add(&object, tx, b"b", 1)
    })
    .unwrap();
    let (first, second) = (cont.begin().unwrap(), cont.begin().unwrap());
    for (tx, own) in [(&first, b"a"), (&second, b"b")] {
        let on_duty = number(&object, At::Tx(tx), b"a").unwrap() + number(&object, At::Tx(tx), b"b").unwrap();
        assert_eq!(on_duty, 2);
        object.punch_dkey(At::Tx(tx), own, Cond::NONE).unwrap();
    }
    let committed = [first.commit(), second.commit()].iter().filter(|r| r.is_ok()).count();
    assert_eq!(committed, 1);
}

#[test]
fn transact_repeats_until_it_meets_no_conflict() {
    let (_, _, cont) = open(2);
    let object = counters(&cont);
    let mut runs = 0;
    cont.transact(|tx| {
        add(&object, tx, b"x", 1)?;
        runs += 1;
        if runs <= 3 {
            // Somebody else is faster.
            let other = cont.begin()?;
            add(&object, &other, b"x", 100)?;
            other.commit()?;
        }
        Ok::<(), Error>(())
    })
    .unwrap();
    assert_eq!((runs, number(&object, At::Latest, b"x").unwrap()), (4, 301));
}

#[test]
fn transact_gives_up_after_a_bounded_number_of_conflicts() {
    // At least so many however long they take, and all that meet within half a minute.
    for (pause_ns, expected) in [(10_000_000_000, 64), (250_000_000, 121)] {
        let (served, _, cont) = open(1);
        let object = counters(&cont);
        let mut runs = 0;
        let result = cont.transact(|tx| {
            runs += 1;
            served.clock.advance(pause_ns);
            add(&object, tx, b"x", 1)?;
            object.put(At::Latest, b"x", b"n", &0_u64.to_le_bytes()).map(|_| ())
        });
        assert!(matches!(result, Err(Error::TxRestart { .. })), "{result:?}");
        assert_eq!(runs, expected);
    }
}

#[test]
fn an_error_of_the_body_leaves_nothing_behind() {
    let (_, _, cont) = open(2);
    let object = counters(&cont);
    let result: Result<(), Error> = cont.transact(|tx| {
        add(&object, tx, b"x", 1)?;
        Err(Error::NotEmpty)
    });
    assert_eq!(result, Err(Error::NotEmpty));
    assert_eq!(number(&object, At::Latest, b"x").unwrap(), 0);
}

#[test]
fn ended_transactions_and_those_of_others_are_refused() {
    let (_, pool, cont) = open(1);
    let object = counters(&cont);
    let tx = cont.begin().unwrap();
    let other = counters(&new_container(&pool));
    assert_eq!(other.put(At::Tx(&tx), b"d", b"a", b"v"), Err(Invalid::Argument.into()));
    assert_eq!(number(&other, At::Tx(&tx), b"d"), Err(Invalid::Argument.into()));
    add(&object, &tx, b"x", 1).unwrap();
    tx.abort();
    assert_eq!(tx.commit(), Err(Invalid::Argument.into()));
    assert_eq!(number(&object, At::Tx(&tx), b"x"), Err(Invalid::Argument.into()));
    tx.restart().unwrap();
    assert_eq!(number(&object, At::Tx(&tx), b"x"), Ok(0));
    assert!(tx.commit().is_ok());
    assert_eq!(number(&object, At::Latest, b"x"), Ok(0));
}

#[test]
fn bad_writes_fail_when_they_are_made() {
    let (_, _, cont) = open(1);
    let object = object(&cont, ObjectType::DkeyUint64, "S1");
    let tx = cont.begin().unwrap();
    assert_eq!(object.put(At::Tx(&tx), b"short", b"a", b"v"), Err(Invalid::Key.into()));
    assert_eq!(object.put(At::Tx(&tx), &[0; 8], b"", b"v"), Err(Invalid::Key.into()));
    assert_eq!(object.put(At::Tx(&tx), &[0; 8], b"a", b""), Err(Invalid::Payload.into()));
    assert_eq!(object.update(At::Tx(&tx), &[0; 8], Cond::NONE, &[]), Err(Invalid::Count.into()));
    assert_eq!(tx.commit(), Ok(tx.epoch()));
}

#[test]
fn a_commit_whose_answer_was_lost_can_be_repeated() {
    let (served, _, cont) = open(2);
    let object = counters(&cont);
    let tx = cont.begin().unwrap();
    add(&object, &tx, b"x", 1).unwrap();
    served.lose_answers(1);
    assert_eq!(tx.commit(), Err(Error::TimedOut));
    let first = served.heads().last().unwrap().id;
    assert_eq!(number(&object, At::Latest, b"x"), Ok(1));
    object.put(At::Latest, b"x", b"n", &7_u64.to_le_bytes()).unwrap();
    assert_eq!(tx.commit(), Ok(tx.epoch()));
    assert_eq!(served.heads().last().unwrap().id, first, "a repeated request keeps its id");
    assert_eq!(number(&object, At::Latest, b"x"), Ok(7));
}

/// The first pieces of what is refused may not stay: the commit would write them.
#[test]
fn what_a_transaction_has_no_room_for_leaves_nothing_in_it() {
    const PIECE: usize = 8 << 20;
    let (_, _, cont) = open(1);
    let object = counters(&cont);
    let oid = cont.alloc_oid(ObjectType::Array, ObjectClass::SX).unwrap();
    let array = Array::create(&cont, At::Latest, oid, 8, PIECE as u64 / 8).unwrap();
    array.write(At::Latest, &[Recx::new(0, 1), Recx::new(4, 1)], &[7; 16]).unwrap();
    let tx = cont.begin().unwrap();
    let value = vec![1; 2 * PIECE];
    let two_pieces = Recx::new(0, 2 * PIECE as u64 / 8);
    for number in 0..31_u8 {
        object.put(At::Tx(&tx), &[number], b"filler", &value[..PIECE]).unwrap();
    }
    let buffered = format!("{tx:?}");
    let written = object.write(At::Tx(&tx), b"d", b"a", 8, two_pieces, &value).map(|_| ());
    assert_eq!((written, format!("{tx:?}")), (Err(Invalid::Payload.into()), buffered.clone()));
    let written = array.write(At::Tx(&tx), &[two_pieces], &value);
    assert_eq!((written, format!("{tx:?}")), (Err(Invalid::Payload.into()), buffered));
    // Now there is room for no byte: neither for the last record of a shorter array, nor for the metadata of an empty one.
    object.put(At::Tx(&tx), b"last", b"filler", &value[..PIECE]).unwrap();
    let buffered = format!("{tx:?}");
    for size in [3, 0] {
        let cut = array.set_size(At::Tx(&tx), size);
        assert_eq!((cut, format!("{tx:?}")), (Err(Invalid::Payload.into()), buffered.clone()));
    }
    let mut buf = IoBuf::default();
    let read = object.read(At::Tx(&tx), b"d", b"a", 8, Recx::new(0, 1), &mut buf).unwrap();
    assert_eq!((read.size_bytes, array.size(At::Tx(&tx))), (0, Ok(5)));
    // What needs no room is still taken.
    array.punch(At::Tx(&tx), &[Recx::new(1, 4)]).unwrap();
    assert_eq!(array.size(At::Tx(&tx)), Ok(1));
}

/// Polls an operation to its end; what is done after the first poll is done with it under way.
fn polled<T>(operation: impl Future<Output = T>, meanwhile: impl FnOnce()) -> T {
    let mut operation = Box::pin(operation);
    assert!(step(&mut operation).is_pending(), "it has something to ask");
    meanwhile();
    loop {
        if let Poll::Ready(value) = step(&mut operation) {
            return value;
        }
    }
}

async fn list(object: &Object, at: At<'_>, way: Way) -> Vec<Vec<u8>> {
    let (mut anchor, mut keys) = (Anchor::default(), Vec::new());
    while !anchor.is_eof() {
        let page = object.list_dkeys_by(way, at, &mut anchor, Page::default()).await.unwrap();
        keys.extend(page.iter().map(<[u8]>::to_vec));
    }
    keys
}

#[test]
fn a_read_by_polling_sees_what_was_written_when_it_began() {
    let (_, _, cont) = open(4);
    let object = object(&cont, ObjectType::MultiUint64, "SX");
    let key = |number: u64| number.to_le_bytes();
    for number in 0..8 {
        object.put(At::Latest, &key(number), &key(1), &key(number)).unwrap();
    }
    let tx = Arc::new(cont.begin().unwrap());
    object.punch_dkey(At::Tx(&tx), &key(7), Cond::NONE).unwrap();
    object.put(At::Tx(&tx), &key(3), &key(2), b"own").unwrap();
    let [k1, k2, k3] = [1, 2, 3].map(key);
    let highest = QueryFlags(QueryFlags::MAX.0 | QueryFlags::DKEY.0);
    let (mut one, mut value) = (Anchor::default(), IoBuf::default());
    let before = dolmen_codec::now(list(&object, At::Tx(&tx), Way::Now));
    assert_eq!(before.len(), 7);

    // Of one read, all requests see the same; of several, those that read in the transaction as it was.
    let found = object.query_by(Way::Later, At::Tx(&tx), highest, b"", &k1);
    let found = polled(found, || {
        object.put(At::Tx(&tx), &key(9), &key(1), b"later").unwrap();
        object.punch_dkey(At::Tx(&tx), &key(6), Cond::NONE).unwrap();
    });
    assert_eq!(found.unwrap().unwrap().dkey[..], key(6));
    let now = Arc::new(tx.as_it_is(object.oid()));
    let akeys = object.list_akeys_by(Way::Later, At::Tx(&now), &k3, &mut one, Page::default());
    let akeys = polled(akeys, || {
        object.punch(At::Tx(&tx), Cond::NONE).unwrap();
    });
    assert_eq!(akeys.unwrap().len(), 2);
    let seen = polled(list(&object, At::Tx(&now), Way::Later), || {});
    assert_eq!(seen.len(), 7, "6 and 7 are gone, and 9 is there");
    let read = object.get_by(Way::Later, At::Tx(&now), &k2, &k1, &mut value);
    assert_eq!(polled(read, || {}), Ok(Some(8)));
    assert_eq!(value[..], k2);
    assert_eq!(dolmen_codec::now(list(&object, At::Tx(&tx), Way::Now)), Vec::<Vec<u8>>::new());
    // What shows a transaction is none.
    assert_eq!(object.put(At::Tx(&now), &key(1), &key(1), b"x"), Err(Error::NoPermission));
    assert_eq!(now.commit(), Err(Error::NoPermission));
    tx.commit().unwrap();
    assert_eq!(dolmen_codec::now(list(&object, At::Latest, Way::Now)), Vec::<Vec<u8>>::new());
}

#[test]
fn what_was_begun_before_a_restart_neither_writes_nor_ends_what_is_after_it() {
    let (served, _, cont) = open(2);
    let object = counters(&cont);
    let tx = Arc::new(cont.begin().unwrap());
    let value = NewValue::Single(Payload::Ref(b"value"));
    let iods = [UpdateIod { akey: Key::from_slice(b"n"), cond: Cond::NONE, value }];
    let made = object.update_by(Way::Later, At::Tx(&tx), b"x", Cond::DKEY_INSERT, &iods);
    let made = polled(made, || {
        // Since it is there now the condition does not hold for what is begun anew.
        object.put(At::Latest, b"x", b"n", &7_u64.to_le_bytes()).unwrap();
        tx.restart().unwrap();
    });
    assert!(matches!(made, Err(Error::Canceled)), "{made:?}");
    assert_eq!(number(&object, At::Tx(&tx), b"x").unwrap(), 7);
    add(&object, &tx, b"y", 1).unwrap();
    // A conflict that a read meets ends its transaction, unless that was begun anew since.
    let conflict = || served.fail_next([Error::TxRestart { after: tx.epoch() }]);
    let mut buf = IoBuf::default();
    conflict();
    let read = object.get_by(Way::Later, At::Tx(&tx), b"x", b"n", &mut buf);
    assert!(matches!(polled(read, || tx.restart().unwrap()), Err(Error::TxRestart { .. })));
    assert!(!tx.must_restart());
    let shown = Arc::new(tx.as_it_is(object.oid()));
    conflict();
    assert!(matches!(number(&object, At::Tx(&shown), b"x"), Err(Error::TxRestart { .. })));
    assert!(tx.must_restart() && shown.must_restart());
    tx.restart().unwrap();
    add(&object, &tx, b"y", 1).unwrap();
    tx.commit().unwrap();
    assert_eq!(number(&object, At::Latest, b"y").unwrap(), 1);
    let made = object.update_by(Way::Later, At::Latest, b"z", Cond::DKEY_INSERT, &iods);
    polled(made, || {}).unwrap();
}
