//! Requests that are sent again after a restart, by many clients and by strangers.

use crate::rig::{Rig, oid, small_config};
use dolmen_codec::verb::{NewValue, Payload, Reply, Update, UpdateIod, Verb};
use dolmen_codec::{Op, TargetStore};
use dolmen_engine::TargetConfig;
use dolmen_env::Media;
use dolmen_env::sim::CrashPlan;
use dolmen_types::{Cond, Credentials, Durability, Epoch, Error, Head, Key, RequestId};
use smallvec::smallvec;
use std::collections::BTreeMap;

/// Processes of a large job.
const RANKS: u128 = 2_500;
/// What a user may have at the most while there is no other: half of all places.
const SHARE: u128 = 16_384;
/// A client that is not heard of for so long may make room.
const SILENT_NS: u64 = 120_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Restart {
    Crash(CrashPlan),
    Clean,
    /// A checkpoint holds the clients, and the log more of them.
    CheckpointAndCrash,
}

const RESTARTS: [Restart; 4] = [
    Restart::Crash(CrashPlan::None),
    Restart::Crash(CrashPlan::Process),
    Restart::Clean,
    Restart::CheckpointAndCrash,
];

fn roomy() -> TargetConfig {
    TargetConfig { capacity_bytes: 256 << 20, memory_budget_bytes: 64 << 20, ..small_config() }
}

fn asks(uid: u32, client: u128, sequence: u64, oldest: u64) -> Head {
    let cred = Credentials { uid, ..Credentials::default() };
    Head { id: RequestId { client, sequence }, oldest, cred, ..Head::default() }
}

fn write(rig: &mut Rig, head: Head, dkey: u128, cond: Cond, value: &[u8]) -> Result<Epoch, Error> {
    let iod = UpdateIod {
        akey: Key::from_slice(b"a"),
        cond: Cond::NONE,
        value: NewValue::Single(Payload::Ref(value)),
    };
    let dkey = Key::from_slice(&dkey.to_le_bytes());
    let update = Update { oid: oid(1), dkey, cond, iods: smallvec![iod], charged: None };
    match rig.complete_as(head, Verb::Update(update)).result? {
        Reply::Written(epoch) => Ok(epoch),
        other => panic!("{other:?}"),
    }
}

fn get(rig: &mut Rig, dkey: u128) -> Option<Vec<u8>> {
    rig.get(oid(1), &dkey.to_le_bytes(), b"a")
}

fn restart(rig: &mut Rig, how: Restart) {
    match how {
        Restart::Crash(plan) => rig.crash(plan),
        Restart::Clean => rig.close_and_reopen(),
        Restart::CheckpointAndCrash => rig.crash(CrashPlan::None),
    }
}

#[test]
fn each_of_thousands_of_clients_has_the_first_result_of_what_it_sends_again_after_a_restart() {
    for how in RESTARTS {
        let mut rig = Rig::with_config(Media::Mapped, Durability::Power, roomy());
        // Each inserts a key of its own, and loses the answer with the daemon.
        let insert = |rig: &mut Rig, client| {
            let oldest = u64::try_from(client % 3).unwrap() + 1;
            write(rig, asks(1, client, oldest, oldest), client, Cond::DKEY_INSERT, b"first")
        };
        let mut epochs = Vec::new();
        for client in 0..RANKS {
            epochs.push(insert(&mut rig, client).unwrap());
            if how == Restart::CheckpointAndCrash && client == RANKS / 2 {
                rig.ask(Verb::Checkpoint).unwrap();
            }
        }
        restart(&mut rig, how);
        // Others come first, and change what those have written.
        for client in RANKS..RANKS + 50 {
            write(&mut rig, asks(1, client, 1, 1), client - RANKS, Cond::NONE, b"second").unwrap();
        }
        for (client, &epoch) in (0..).zip(&epochs) {
            assert_eq!(insert(&mut rig, client), Ok(epoch), "{how:?}: client {client}");
        }
        for client in 0..RANKS {
            let expected: &[u8] = if client < 50 { b"second" } else { b"first" };
            assert_eq!(get(&mut rig, client).as_deref(), Some(expected), "{how:?}: client {client}");
        }
    }
}

/// A client's write, whose answer it has lost, and what another has written since.
fn lose_an_answer(rig: &mut Rig) -> Epoch {
    let epoch = write(rig, asks(1, 77, 5, 5), 9, Cond::NONE, b"first").unwrap();
    write(rig, asks(1, 78, 1, 1), 9, Cond::NONE, b"second").unwrap();
    epoch
}

fn ask_again(rig: &mut Rig, epoch: Epoch) {
    assert_eq!(write(rig, asks(1, 77, 5, 5), 9, Cond::NONE, b"first"), Ok(epoch));
    assert_eq!(get(rig, 9).as_deref(), Some(&b"second"[..]));
}

#[test]
fn however_many_clients_another_user_has_he_pushes_nobody_out() {
    for how in RESTARTS {
        let mut rig = Rig::with_config(Media::Mapped, Durability::Power, roomy());
        let epoch = lose_an_answer(&mut rig);
        let (mut ran, mut busy) = (0, 0);
        for client in 0..SHARE + 1_100 {
            match write(&mut rig, asks(4242, client, 1, 1), 1 << 64, Cond::NONE, b"x") {
                Ok(_) => ran += 1,
                Err(error) => {
                    assert_eq!(error, Error::Busy);
                    busy += 1;
                }
            }
        }
        assert_eq!((ran, busy), (SHARE - 1, 1_101), "two places are others'");
        if how == Restart::CheckpointAndCrash {
            rig.ask(Verb::Checkpoint).unwrap();
        }
        ask_again(&mut rig, epoch);
        restart(&mut rig, how);
        ask_again(&mut rig, epoch);
        write(&mut rig, asks(1, 79, 1, 1), 10, Cond::NONE, b"there is room for others").unwrap();
        write(&mut rig, asks(3, 79, 1, 1), 10, Cond::NONE, b"of other users, too").unwrap();
        // What was silent for long enough makes room for its own user alone.
        rig.clock.advance(SILENT_NS + 1);
        for client in 0..2_000 {
            write(&mut rig, asks(4242, SHARE * 2 + client, 1, 1), 1 << 64, Cond::NONE, b"x").unwrap();
        }
        ask_again(&mut rig, epoch);
    }
}

#[test]
fn another_user_under_a_clients_id_takes_nothing_from_it() {
    for how in RESTARTS {
        let mut rig = Rig::with_config(Media::Mapped, Durability::Power, roomy());
        let epoch = lose_an_answer(&mut rig);
        for sequence in (1..200).chain([1 << 62]) {
            let forged = asks(4242, 77, sequence, sequence);
            write(&mut rig, forged, 1 << 64, Cond::NONE, b"x").unwrap();
        }
        if how == Restart::CheckpointAndCrash {
            rig.ask(Verb::Checkpoint).unwrap();
        }
        ask_again(&mut rig, epoch);
        restart(&mut rig, how);
        ask_again(&mut rig, epoch);
        for sequence in 6..206 {
            let dkey = 1_000 + u128::from(sequence);
            write(&mut rig, asks(1, 77, sequence, sequence), dkey, Cond::DKEY_INSERT, b"new").unwrap();
            assert_eq!(get(&mut rig, dkey).as_deref(), Some(&b"new"[..]), "it is acknowledged, and done");
        }
    }
}

#[test]
fn what_a_client_asked_for_that_has_made_room_does_not_run_again() {
    for how in RESTARTS {
        let mut rig = Rig::with_config(Media::Mapped, Durability::Power, roomy());
        for client in 0..SHARE {
            write(&mut rig, asks(1, client, 3, 3), client, Cond::NONE, b"first").unwrap();
        }
        rig.clock.advance(SILENT_NS + 1);
        // The order of use is that of the log, and of the manifest behind it.
        write(&mut rig, asks(1, 0, 4, 4), 0, Cond::NONE, b"second").unwrap();
        if how == Restart::CheckpointAndCrash {
            rig.ask(Verb::Checkpoint).unwrap();
        }
        for newcomer in SHARE..SHARE + 10 {
            write(&mut rig, asks(1, newcomer, 1, 1), newcomer, Cond::NONE, b"new").unwrap();
        }
        for round in 0..2 {
            for client in 1..=10 {
                let again = write(&mut rig, asks(1, client, 3, 3), client, Cond::NONE, b"first");
                assert_eq!(again, Err(Error::TimedOut), "{how:?}, round {round}: client {client}");
            }
            for client in [0, 11, SHARE - 1] {
                let sequence = if client == 0 { 4 } else { 3 };
                let value: &[u8] = if client == 0 { b"second" } else { b"first" };
                let again = write(&mut rig, asks(1, client, sequence, 3), client, Cond::NONE, value);
                assert!(again.is_ok(), "{how:?}, round {round}: client {client}");
            }
            restart(&mut rig, how);
        }
        // After a restart all may ask again: nobody makes room at once.
        let newcomer = asks(1, SHARE + 10, 1, 1);
        assert_eq!(write(&mut rig, newcomer, 1, Cond::NONE, b"new"), Err(Error::Busy));
        rig.clock.advance(SILENT_NS + 1);
        assert!(write(&mut rig, newcomer, 1, Cond::NONE, b"new").is_ok());
        assert!(write(&mut rig, asks(1, 1, 4, 4), 1, Cond::NONE, b"it goes on").is_ok());
    }
}

#[test]
fn wherever_a_write_is_cut_short_its_repetition_has_its_result_or_runs_once() {
    let insert = |client: u128, value: &[u8], run: &mut dyn FnMut(Head, Verb<'_>)| {
        let uid = u32::try_from(client % 3).unwrap();
        let iod = UpdateIod {
            akey: Key::from_slice(b"a"),
            cond: Cond::NONE,
            value: NewValue::Single(Payload::Ref(value)),
        };
        let dkey = Key::from_slice(&client.to_le_bytes());
        let update =
            Update { oid: oid(1), dkey, cond: Cond::DKEY_INSERT, iods: smallvec![iod], charged: None };
        run(asks(uid, client, 1, 1), Verb::Update(update));
    };
    let value = |client: u128| {
        let byte = u8::try_from(client).unwrap() + 1;
        vec![byte; if client.is_multiple_of(4) { 9000 } else { 20 }]
    };
    let plans = (0..8).map(CrashPlan::Subset).chain([CrashPlan::None, CrashPlan::All, CrashPlan::Process]);
    let mut cut = 0;
    for (media, plan) in
        [Media::Block, Media::Mapped].into_iter().flat_map(|m| plans.clone().map(move |p| (m, p)))
    {
        let mut rig = Rig::with_config(media, Durability::Power, small_config());
        let mut acknowledged: BTreeMap<u128, Epoch> = BTreeMap::new();
        for client in 0..30_u128 {
            // Cut off somewhere: it is under way, and nobody has looked after it since.
            insert(client, &value(client), &mut |head, verb| {
                let cont = rig.cont;
                rig.target.as_mut().unwrap().submit(&mut vec![Op { token: 9, head, cont, verb }]);
            });
            let mut crashed = rig.after_crash(plan);
            let mut again = |client: u128| {
                let mut answer = None;
                insert(client, &value(client), &mut |head, verb| {
                    answer = Some(crashed.complete_as(head, verb).result);
                });
                match answer.unwrap() {
                    Ok(Reply::Written(epoch)) => epoch,
                    other => panic!("{media:?} {plan:?}: client {client}: {other:?}"),
                }
            };
            let epoch = again(client);
            assert_eq!(again(client), epoch);
            for (&client, &epoch) in &acknowledged {
                assert_eq!(again(client), epoch, "{media:?} {plan:?}: client {client}");
            }
            assert_eq!(get(&mut crashed, client), Some(value(client)));
            crashed.assert_clean();
            let mut out = Vec::new();
            while out.is_empty() {
                rig.target.as_mut().unwrap().poll(true, &mut out);
            }
            let Ok(Reply::Written(first)) = out[0].result else { panic!("{:?}", out[0]) };
            cut += usize::from(first != epoch);
            acknowledged.insert(client, first);
            if client == 15 {
                rig.ask(Verb::Checkpoint).unwrap();
            }
        }
    }
    assert!(cut > 50, "{cut} were cut off and ran when they came again");
}
