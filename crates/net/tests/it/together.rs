//! Reads of one round at several engines: all are asked before anybody waits, and what one does not answer costs nobody else's.

use crate::given_back::{LONG, ask, open_verb};
use crate::obedient::{CONT, Double, VALUE, uuid};
use dolmen_codec::verb::{Fetch, FetchIod, ReadAt, Verb, Want};
use dolmen_codec::wire::{PoolAccess, PoolName};
use dolmen_codec::{Ask, Outcome, Request, Transport};
use dolmen_env::scope;
use dolmen_net::client::Remote;
use dolmen_types::{Cond, Error, Head, IoBuf, Key, Oid, TargetNo};
use std::time::Duration;

/// How long a client waits that gives up: longer than who is there needs.
const SHORT: Duration = Duration::from_secs(1);

const FETCH: &str = "fetch p";

/// Engines, and a client that waits so long for one.
fn engines(count: u32, patience: Duration) -> (Vec<Double>, Remote) {
    let all = Double::start_several(count);
    let name = PoolName::Uuid(uuid("p"));
    let link = all[0].link(patience);
    let remote = Remote::open(&link, &Head::default(), name, PoolAccess::ReadWrite).unwrap();
    remote.call(ask(open_verb())).result.unwrap();
    (all, remote)
}

/// Reads by turns of all targets; the tokens are no places.
fn round(targets: u16, count: u64) -> Vec<(Request<'static>, bool)> {
    let fetch = |number: u64| {
        let iod = FetchIod { akey: Key::from_slice(b"a"), want: Want::Single { room_bytes: 64 } };
        let fetch = Fetch {
            oid: Oid::default(),
            dkey: Key::from_slice(b"d"),
            at: ReadAt::Latest,
            cond: Cond::NONE,
            iods: [iod].into_iter().collect(),
            buf: IoBuf::zeroed(64),
        };
        let target = TargetNo(u16::try_from(number % u64::from(targets)).unwrap());
        let ask = Ask::Target(target, CONT, Verb::Fetch(fetch));
        (Request { token: 1000 - number, head: Head::default(), ask }, false)
    };
    (0..count).map(fetch).collect()
}

/// Asks a round, and whether what it is answered is a value, in the order of the requests.
fn answers(remote: &Remote, targets: u16, count: u64) -> Vec<Result<(), Error>> {
    let told = remote.call_all(round(targets, count));
    let is_value = |(number, (Outcome { token, result, buf }, lease)): (u64, (Outcome, _))| {
        assert_eq!((token, Option::is_none(&lease)), (1000 - number, true));
        let buf = buf.expect("the buffer of a fetch comes back");
        assert!(result.is_err() || buf[..VALUE.len()] == *VALUE, "number {number}");
        result.map(drop)
    };
    (0..).zip(told).map(is_value).collect()
}

#[test]
fn engines_of_a_round_are_all_asked_before_one_has_answered() {
    let (all, remote) = engines(3, LONG);
    all.iter().for_each(|double| double.hold(FETCH));
    scope(|threads| {
        let asks = threads.spawn(|| answers(&remote, 3, 900));
        // As many as one engine is asked at once.
        all.iter().for_each(|double| double.until_asked(FETCH, 256));
        assert!(all.iter().all(|double| double.asked(FETCH) == 256));
        all.iter().rev().for_each(Double::let_go);
        assert_eq!(asks.join().unwrap(), vec![Ok(()); 900]);
    });
    assert!(all.iter().all(|double| double.asked(FETCH) == 300));
}

#[test]
fn what_engines_answer_in_a_round_is_told_whoever_is_away_or_silent() {
    for gone in [0_u32, 2] {
        for is_silent in [false, true] {
            let (all, remote) = engines(3, SHORT);
            let one = &all[gone as usize];
            if is_silent {
                one.hold(FETCH);
            } else {
                one.go_away();
            }
            let expected = |number: u64| match number % 3 == u64::from(gone) {
                true => Err(Error::Unreachable { rank: gone }),
                false => Ok(()),
            };
            let expected: Vec<Result<(), Error>> = (0..60).map(expected).collect();
            let told = answers(&remote, 3, 60);
            assert!(told == expected, "{gone}, silent: {is_silent}: {told:?}");
        }
    }
}
