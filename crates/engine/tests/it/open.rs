//! Transactions that are open while others work: only what conflicts makes them begin again.

use crate::rig::{Rig, oid, small_config};
use dolmen_codec::verb::{Mutation, NewValue, Payload, ReadAt, Update, UpdateIod};
use dolmen_env::{Clock as _, Media};
use dolmen_types::{Cond, Durability, Epoch, Error, Key};
use smallvec::smallvec;

fn rig() -> Rig {
    Rig::with_config(Media::Mapped, Durability::Process, small_config())
}

/// Begins a transaction that reads a key of an object.
fn begin(rig: &mut Rig, object: u64, dkey: u64) -> Epoch {
    rig.clock.advance(100_000);
    let epoch = Epoch::from_unix_ns(rig.clock.now_ns());
    rig.get_at(oid(object), &dkey.to_le_bytes(), b"a", ReadAt::Tx(epoch)).unwrap();
    rig.clock.advance(100_000);
    epoch
}

/// Commits it with a write of a key.
fn commit(rig: &mut Rig, tx: Epoch, object: u64, dkey: u64) -> Result<Epoch, Error> {
    let value = NewValue::Single(Payload::Ref(b"mine"));
    let iods = smallvec![UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value }];
    let dkey = Key::from_slice(&dkey.to_le_bytes());
    rig.commit_at(
        tx,
        vec![Mutation::Update(Update { oid: oid(object), dkey, cond: Cond::NONE, iods, charged: None })],
    )
}

/// What others do meanwhile, on an object of their own: each writes a key and reads another.
fn work(rig: &mut Rig, count: u64) {
    for number in 0..count {
        rig.clock.advance(100_000);
        rig.put(oid(2), &number.to_le_bytes(), b"a", b"theirs").unwrap();
        rig.get(oid(2), &(number / 2).to_le_bytes(), b"a");
    }
}

#[test]
fn a_transaction_that_waits_commits_after_thousands_of_operations_elsewhere() {
    let mut rig = rig();
    let waiting: Vec<Epoch> = (0..20).map(|number| begin(&mut rig, 1, number)).collect();
    work(&mut rig, 4000);
    for (number, tx) in (0..).zip(waiting) {
        assert_eq!(commit(&mut rig, tx, 1, number), Ok(tx), "transaction {number}");
    }
}

#[test]
fn what_others_did_long_ago_still_makes_an_open_transaction_begin_again() {
    let mut rig = rig();
    let (read, written) = (begin(&mut rig, 1, 1), begin(&mut rig, 1, 2));
    // Of the first one's key by another transaction that began later, and of the second one's.
    begin(&mut rig, 1, 1);
    rig.put(oid(1), &2_u64.to_le_bytes(), b"a", b"theirs").unwrap();
    work(&mut rig, 4000);
    for (tx, dkey) in [(read, 1), (written, 2)] {
        assert!(matches!(commit(&mut rig, tx, 1, dkey), Err(Error::TxRestart { .. })), "key {dkey}");
    }
}

#[test]
fn thousands_of_open_transactions_with_a_key_each_all_commit() {
    const COUNT: u64 = 1500;
    let mut rig = rig();
    let open: Vec<Epoch> = (0..COUNT).map(|number| begin(&mut rig, 1, number)).collect();
    for (number, tx) in (0..).zip(open) {
        assert_eq!(commit(&mut rig, tx, 1, number), Ok(tx), "transaction {number}");
    }
}
