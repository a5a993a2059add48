//! Asynchronous requests: many under way from one thread, each answered once.

use crate::common::{TempDir, fetch, make_cont, put, small};
use dolmen_codec::pool::PoolVerb;
use dolmen_codec::verb::{Payload, Verb};
use dolmen_codec::{Answer, Ask, Request, Transport};
use dolmen_local::{OpenOptions, PoolOptions, create, open};
use dolmen_types::{Error, Head, TargetNo};
use std::collections::BTreeSet;

fn owned(verb: Verb<'_>) -> Verb<'static> {
    let Verb::Update(mut update) = verb else { unreachable!("only updates borrow") };
    let iod = update.iods.remove(0);
    let dolmen_codec::verb::NewValue::Single(payload) = iod.value else { unreachable!("a single value") };
    let value = dolmen_codec::verb::NewValue::Single(Payload::into_owned(payload));
    let iods = smallvec::smallvec![dolmen_codec::verb::UpdateIod { akey: iod.akey, cond: iod.cond, value }];
    Verb::Update(dolmen_codec::verb::Update {
        oid: update.oid,
        dkey: update.dkey,
        cond: update.cond,
        iods,
        charged: None,
    })
}

#[test]
fn every_request_of_a_queue_is_answered_once() {
    let temp = TempDir::new("queues");
    create(&temp.join("p"), &PoolOptions { volatile: false, ..small(2) }).unwrap();
    let pool = open(&temp.join("p"), &OpenOptions::default()).unwrap();
    let cont = make_cont(&pool, "c");
    let queue = pool.open_queue().unwrap();
    let submit = |token: u64, ask| pool.submit(queue, Request { token, head: Head::default(), ask });
    for token in 0..64 {
        let target = TargetNo(u16::try_from(token % 2).unwrap());
        submit(token, Ask::Target(target, cont.no, owned(put(token, &token.to_le_bytes()))));
    }
    submit(64, Ask::Pool(PoolVerb::Query));
    submit(65, Ask::Target(TargetNo(9), cont.no, fetch(1, 8)));
    let mut outcomes = Vec::new();
    while outcomes.len() < 66 {
        let before = outcomes.len();
        pool.poll(queue, true, &mut outcomes);
        assert!(outcomes.len() > before, "a poll that waits brings something");
    }
    let tokens: BTreeSet<u64> = outcomes.iter().map(|outcome| outcome.token).collect();
    assert_eq!(tokens.len(), 66);
    for outcome in &outcomes {
        match outcome.token {
            65 => {
                assert!(matches!(outcome.result, Err(Error::Invalid(_))));
                assert_eq!(
                    outcome.buf.as_ref().unwrap().len(),
                    8,
                    "the buffer comes back also with an error"
                );
            }
            _ => assert!(matches!(outcome.result, Ok(Answer::Target(_) | Answer::Pool(_))), "{outcome:?}"),
        }
    }
    pool.poll(queue, true, &mut outcomes);
    assert_eq!(outcomes.len(), 66, "nothing is under way any more");

    submit(70, Ask::Target(TargetNo(0), cont.no, owned(put(1, b"x"))));
    pool.close_queue(queue);
    assert_eq!(pool.open_queue().unwrap(), queue, "a closed queue's number is free");
}
