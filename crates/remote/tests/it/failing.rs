//! How requests fail.

use crate::bucket::pattern;
use crate::weed::{OWNER, READER, WRITER, Weed, nowhere, weed};
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use dolmen_env::{Address, Listener};
use dolmen_remote::{Options, Remote, RemoteFile};
use dolmen_rntuple::bucket::{Bucket, BucketResult, Failure, Got, Put, Read};
use dolmen_rntuple::stop;
use dolmen_types::IoBuf;
use std::sync::Arc;

fn failure<T: core::fmt::Debug>(result: BucketResult<T>) -> Failure {
    result.unwrap_err().failure
}

fn one(key: &str, bytes: &[u8]) -> Vec<Put> {
    vec![Put { key: key.into(), bytes: IoBuf::copy_of(bytes) }]
}

/// What each method fails with.
fn failures(remote: &Remote) -> [Failure; 6] {
    let mut into = [0; 8];
    [
        failure(remote.get("a", None)),
        failure(remote.read(&mut [Read { key: "a", offset: 0, into: &mut into }])),
        failure(remote.put(one("a", b"a"))),
        failure(remote.replace("a", None, b"a".to_vec())),
        failure(remote.list("")),
        failure(remote.delete(vec!["a".into()])),
    ]
}

#[test]
fn wrong_keys_are_denied() {
    for keys in [("nobody", "secret"), (OWNER.0, "wrong")] {
        let remote = Remote::open("s3://events/denied", &weed().options(keys)).unwrap();
        assert_eq!(failures(&remote), [Failure::Denied; 6], "{keys:?}");
    }
}

#[test]
fn who_may_read_may_not_write() {
    weed().open("read only").put(one("a", b"a")).unwrap();
    let remote = Remote::open("s3://events/read only", &weed().options(READER)).unwrap();
    let Got::Bytes(bytes, tag) = remote.get("a", None).unwrap() else { panic!("it may be read") };
    assert_eq!(bytes, b"a");
    assert_eq!(remote.list("").unwrap().len(), 1);
    assert_eq!(failure(remote.put(one("a", b"b"))), Failure::Denied);
    assert_eq!(failure(remote.put(one("a", &pattern(17 << 20)))), Failure::Denied);
    assert_eq!(failure(remote.replace("a", Some(&tag), b"b".to_vec())), Failure::Denied);
    assert_eq!(failure(remote.delete(vec!["a".into()])), Failure::Denied);
    assert_eq!(remote.get("a", Some(&tag)).unwrap(), Got::Same);
}

#[test]
fn a_bucket_that_is_not_there_is_told_from_an_object_that_is_not() {
    let remote = Remote::open("s3://not-there/x", &weed().options(WRITER)).unwrap();
    assert_eq!(failures(&remote), [Failure::NoBucket; 6]);
}

#[test]
fn keys_that_are_none_are_refused() {
    let remote = weed().open("");
    for key in ["", "/a", "a/", "a//b", "../a", "a/./b"] {
        assert_eq!(failure(remote.get(key, None)), Failure::Refused, "{key}");
        assert_eq!(failure(remote.put(one(key, b"a"))), Failure::Refused, "{key}");
        assert_eq!(failure(remote.delete(vec![key.into()])), Failure::Refused, "{key}");
    }
}

#[test]
fn where_nothing_listens_is_said_at_once() {
    let hour = Duration::from_secs(3600);
    let options = Options {
        endpoint: Some(nowhere()),
        repeats_max: u32::MAX,
        repeat: hour,
        patience: hour,
        ..weed().options(OWNER)
    };
    let remote = Remote::open("s3://events/x", &options).unwrap();
    // It would be repeated for an hour if it were.
    assert_eq!(failures(&remote), [Failure::Unreachable; 6]);
}

#[test]
fn who_waits_for_a_server_that_never_answers_can_be_told_to_stop() {
    let silent = Listener::bind(&Address::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
    let hour = Duration::from_secs(3600);
    let options = Options {
        endpoint: Some(silent.address().to_string().replace("tcp://", "http://")),
        repeat: hour,
        patience: hour,
        ..weed().options(OWNER)
    };
    let remote = Remote::open("s3://events/x", &options).unwrap();
    // Told when it has waited once.
    let asked_count = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked_count);
    let asked: stop::Asked = Arc::new(move || count.fetch_add(1, Ordering::Relaxed) > 0);
    let failed = stop::asking(Some(asked), || failures(&remote));
    assert_eq!(failed, [Failure::Stopped; 6]);
    assert!(asked_count.load(Ordering::Relaxed) >= 7);
    let said =
        stop::asking(Some(Arc::new(|| true)), || RemoteFile::of(&Arc::new(remote), "file").unwrap_err());
    assert!(matches!(said, dolmen_remote::Error::Bucket(error) if error.failure == Failure::Stopped));
}

#[test]
fn a_server_that_went_away_is_waited_for() {
    let mut weed = Weed::start("restarted");
    let remote = weed.open("x");
    remote.put(one("a", b"before")).unwrap();
    let impatient = Options { repeats_max: 1, ..weed.options(OWNER) };
    let impatient = Remote::open("s3://events/x", &impatient).unwrap();
    assert!(matches!(impatient.get("a", None).unwrap(), Got::Bytes(..)));
    weed.kill();
    assert_eq!(failure(impatient.get("a", None)), Failure::Unreachable);
    let remote = &remote;
    dolmen_env::scope(|threads| {
        let asked = threads.spawn(move || remote.get("a", None).unwrap());
        let replaced = threads.spawn(move || remote.replace("b", None, b"after".to_vec()).unwrap());
        assert!(weed.restart());
        assert!(matches!(asked.join().unwrap(), Got::Bytes(bytes, _) if bytes == b"before"));
        assert!(replaced.join().unwrap().tag().is_some());
    });
}
