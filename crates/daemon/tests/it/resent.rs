//! Thousands of clients that have requests under way when their daemon dies, over the network.

use crate::child::ChildDaemon;
use crate::common::{Scratch, Way, create, pool};
use crate::raw::{Opened, Raw, oid};
use dolmen_codec::pool::{PoolReply, PoolVerb, TxCommit};
use dolmen_codec::verb::{Mutation, NewValue, Payload, Reply, Update, UpdateIod, Verb};
use dolmen_codec::{Answer, Ask};
use dolmen_types::{Cond, Epoch, Error, IoBuf, Key, Label, Props, RequestId, Result, TargetNo, TxId};
use std::collections::BTreeMap;

/// Processes of a large job, each a client.
const CLIENTS: u64 = 5_000;
/// Those of them that have not read their answers when the daemon dies.
const UNREAD: u64 = 200;
/// Requests under way at a time.
const AT_A_TIME: usize = 200;
/// Others, which write over what the first of them have written.
const OTHERS: u64 = 50;

fn id(client: u64, sequence: u64) -> RequestId {
    RequestId { client: u128::from(client) + 1000, sequence }
}

fn put(dkey: &str, cond: Cond, value: &[u8]) -> Update<'static> {
    let value = NewValue::Single(Payload::Owned(IoBuf::copy_of(value)));
    let iod = UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value };
    Update {
        oid: oid(),
        dkey: Key::from_slice(dkey.as_bytes()),
        cond,
        iods: [iod].into_iter().collect(),
        charged: None,
    }
}

/// A client's write: run twice, it would be refused.
fn insert(opened: Opened, client: u64) -> Ask<'static> {
    let verb = Verb::Update(put(&format!("w{client}"), Cond::DKEY_INSERT, b"first"));
    Ask::Target(TargetNo(0), opened.cont, verb)
}

/// A client's transaction, of one target or of both.
fn commit(opened: Opened, client: u64, begin: Epoch) -> Ask<'static> {
    let part = |target| {
        let update = put(&format!("t{client}"), Cond::NONE, b"first");
        (TargetNo(target), vec![Mutation::Update(update)])
    };
    let parts = (0..=u16::from(client.is_multiple_of(2))).map(part).collect();
    let tx = TxId { client: u128::from(client) + 1000, begin };
    Ask::Pool(PoolVerb::TxCommit(TxCommit {
        cont: opened.cont,
        tx,
        epoch: begin,
        parts,
        read: [].into_iter().collect(),
    }))
}

/// Asks for all, and reads the answers: by client.
fn ask_all(raw: &mut Raw, opened: Opened, asks: &[(u64, u64, Ask<'static>)]) -> BTreeMap<u64, Result<Epoch>> {
    let mut answers = BTreeMap::new();
    for some in asks.chunks(AT_A_TIME) {
        send_all(raw, opened, some);
        for _ in some {
            let (token, answer, _) = raw.answer();
            let epoch = answer.map(|answer| match answer {
                Answer::Target(Reply::Written(epoch)) | Answer::Pool(PoolReply::Epoch(epoch)) => epoch,
                other => panic!("{other:?}"),
            });
            assert!(answers.insert(token - 1, epoch).is_none(), "{token} is answered twice");
        }
    }
    answers
}

fn send_all(raw: &mut Raw, opened: Opened, asks: &[(u64, u64, Ask<'static>)]) {
    let mut frames = Vec::new();
    for (client, sequence, ask) in asks {
        // No request has token 0.
        frames.extend(raw.frame_by(id(*client, *sequence), client + 1, opened.slot, ask));
    }
    raw.send(&frames);
}

fn inserts(opened: Opened, clients: core::ops::Range<u64>) -> Vec<(u64, u64, Ask<'static>)> {
    clients.map(|client| (client, 1, insert(opened, client))).collect()
}

fn commits(opened: Opened, begun: &BTreeMap<u64, Epoch>) -> Vec<(u64, u64, Ask<'static>)> {
    begun.iter().map(|(&client, &begin)| (client, 2, commit(opened, client, begin))).collect()
}

/// Commits of all clients, each begun anew as long as others are in its way; when each began that is committed.
fn commit_all(raw: &mut Raw, opened: Opened) -> BTreeMap<u64, Epoch> {
    let mut left: Vec<u64> = (0..CLIENTS).collect();
    let mut done = BTreeMap::new();
    while !left.is_empty() {
        let begins: Vec<_> = left.iter().map(|&client| (client, 0, Ask::Pool(PoolVerb::TxBegin))).collect();
        let begun = ask_all(raw, opened, &begins).into_iter().map(|(client, begin)| (client, begin.unwrap()));
        let begun: BTreeMap<u64, Epoch> = begun.collect();
        for (client, result) in ask_all(raw, opened, &commits(opened, &begun)) {
            match result {
                Ok(epoch) => assert!(done.insert(client, epoch).is_none()),
                Err(Error::TxRestart { .. } | Error::InDoubt { .. }) => {}
                Err(other) => panic!("{client}: {other}"),
            }
        }
        left.retain(|client| !done.contains_key(client));
    }
    done
}

#[test]
fn each_of_thousands_of_clients_has_its_first_result_from_the_next_daemon() {
    let dir = Scratch::new();
    let daemon = ChildDaemon::start(dir.path());
    let link = daemon.link(Way::Tcp);
    create(&link, "tank");
    pool(&link, "tank").create_container(Some(Label::new("home").unwrap()), Props::default()).unwrap();
    let mut raw = Raw::connect(&daemon, Way::Tcp);
    let opened = raw.open("tank", "home");
    let heard = CLIENTS - UNREAD;
    let written = ask_all(&mut raw, opened, &inserts(opened, 0..heard));
    assert!(written.values().all(Result::is_ok));
    let committed = commit_all(&mut raw, opened);
    send_all(&mut raw, opened, &inserts(opened, heard..CLIENTS));
    daemon.kill();
    daemon.start_again();

    let mut raw = Raw::connect(&daemon, Way::Tcp);
    let opened = raw.open("tank", "home");
    for client in 0..OTHERS {
        for dkey in [format!("w{client}"), format!("t{client}")] {
            let update = Verb::Update(put(&dkey, Cond::NONE, b"second"));
            raw.ask(opened, &Ask::Target(TargetNo(0), opened.cont, update)).unwrap();
        }
    }
    let again = ask_all(&mut raw, opened, &inserts(opened, 0..CLIENTS));
    let first: BTreeMap<_, _> =
        again.range(..heard).map(|(&client, result)| (client, result.clone())).collect();
    assert_eq!(first, written);
    assert!(again.values().all(Result::is_ok), "what was under way has run, or runs now");
    assert_eq!(ask_all(&mut raw, opened, &inserts(opened, 0..CLIENTS)), again, "and once");
    for (client, result) in ask_all(&mut raw, opened, &commits(opened, &committed)) {
        assert_eq!(result, Ok(committed[&client]), "{client}");
    }
    for client in 0..2 * OTHERS {
        let expected: &[u8] = if client < OTHERS { b"second" } else { b"first" };
        for dkey in [format!("w{client}"), format!("t{client}")] {
            let found = raw.fetched_single(opened, dkey.as_bytes(), expected.len());
            assert_eq!(found, expected, "{dkey}");
        }
    }
    daemon.assert_sound();
}
