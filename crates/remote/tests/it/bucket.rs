//! What a bucket does.

use crate::weed::weed;
use dolmen_remote::Remote;
use dolmen_rntuple::bucket::{Bucket, Got, Put, Read, Replaced, Tag};
use dolmen_types::IoBuf;

fn put(remote: &Remote, key: &str, bytes: &[u8]) {
    remote.put(vec![Put { key: key.into(), bytes: IoBuf::copy_of(bytes) }]).unwrap();
}

/// Bytes that tell where they are.
pub(crate) fn pattern(count: usize) -> Vec<u8> {
    (0..count as u64 / 8 + 1).flat_map(u64::to_le_bytes).take(count).collect()
}

fn got(remote: &Remote, key: &str) -> (Vec<u8>, Tag) {
    match remote.get(key, None).unwrap() {
        Got::Bytes(bytes, tag) => (bytes, tag),
        other => panic!("{key} is there: {other:?}"),
    }
}

fn keys(remote: &Remote, prefix: &str) -> Vec<String> {
    remote.list(prefix).unwrap().into_iter().map(|object| object.key).collect()
}

#[test]
fn bytes_come_back_as_they_were_written() {
    let remote = weed().open("whole/of it");
    assert_eq!(remote.address(), "s3://events/whole/of it");
    assert_eq!(remote.get("none", None).unwrap(), Got::None);
    for (key, bytes) in [("empty", 0), ("small", 1), ("page", 4096), ("large/er", 3 << 20)] {
        let bytes = pattern(bytes);
        put(&remote, key, &bytes);
        let (back, tag) = got(&remote, key);
        assert!(back == bytes, "{key}");
        assert_eq!(remote.get(key, Some(&tag)).unwrap(), Got::Same);
        put(&remote, key, b"other");
        let Got::Bytes(other, new) = remote.get(key, Some(&tag)).unwrap() else {
            panic!("{key} was replaced")
        };
        assert_eq!((&other[..], new == tag), (&b"other"[..], false));
    }
}

#[test]
fn reads_fill_memory_with_what_there_is_from_their_offset() {
    let remote = weed().open("ranges");
    let bytes = pattern(100_000);
    put(&remote, "a", &bytes);
    put(&remote, "empty", b"");
    let cases: [(&str, u64, usize, u64); 10] = [
        ("a", 0, 100_000, 100_000),
        ("a", 0, 1, 1),
        ("a", 99_999, 1, 1),
        ("a", 99_999, 2, 1),
        ("a", 50_000, 80_000, 50_000),
        ("a", 100_000, 1, 0),
        ("a", u64::MAX - 10, 4, 0),
        ("a", 12_345, 4096, 4096),
        ("empty", 0, 10, 0),
        ("none", 0, 10, 0),
    ];
    let mut memory: Vec<Vec<u8>> = cases.iter().map(|case| vec![0xEE; case.2]).collect();
    let mut reads: Vec<Read<'_>> =
        cases.iter().zip(&mut memory).map(|(&(key, offset, ..), into)| Read { key, offset, into }).collect();
    let counts = remote.read(&mut reads).unwrap();
    for ((case, into), count) in cases.iter().zip(&memory).zip(counts) {
        assert_eq!(count, case.3, "{case:?}");
        let (read, rest) = into.split_at(usize::try_from(count).unwrap());
        let start = usize::try_from(case.1).unwrap();
        assert!(read.is_empty() || read == &bytes[start..start + read.len()], "{case:?}");
        assert!(rest.iter().all(|byte| *byte == 0xEE), "{case:?}: memory behind what there is stays");
    }
    assert_eq!(remote.read(&mut []).unwrap(), Vec::<u64>::new());
}

#[test]
fn hundreds_of_reads_go_side_by_side_each_to_its_own_memory() {
    let remote = weed().open("many reads");
    let bytes = pattern(1 << 20);
    put(&remote, "a", &bytes);
    let mut memory = vec![vec![0; 1000]; 500];
    let mut reads: Vec<Read<'_>> = memory
        .iter_mut()
        .enumerate()
        .map(|(nth, into)| Read { key: "a", offset: nth as u64 * 2000, into })
        .collect();
    assert!(remote.read(&mut reads).unwrap().iter().all(|count| *count == 1000));
    for (nth, into) in memory.iter().enumerate() {
        assert!(into == &bytes[nth * 2000..nth * 2000 + 1000], "{nth}");
    }
}

#[test]
fn what_is_replaced_is_what_was_known() {
    let remote = weed().open("replaced");
    let wrong = Tag("\"00000000000000000000000000000000\"".into());
    assert_eq!(
        remote.replace("a", Some(&wrong), b"one".to_vec()).unwrap(),
        Replaced::Refused,
        "there is none"
    );
    assert_eq!(remote.get("a", None).unwrap(), Got::None);
    let one = remote.replace("a", None, b"one".to_vec()).unwrap().tag().expect("there was none");
    assert_eq!(remote.replace("a", None, b"two".to_vec()).unwrap(), Replaced::Refused, "there is one");
    assert_eq!(remote.replace("a", Some(&wrong), b"two".to_vec()).unwrap(), Replaced::Refused);
    assert_eq!(got(&remote, "a"), (b"one".to_vec(), one.clone()));
    let two = remote.replace("a", Some(&one), b"two".to_vec()).unwrap().tag().expect("it is that");
    assert_eq!(
        remote.replace("a", Some(&one), b"three".to_vec()).unwrap(),
        Replaced::Refused,
        "it is no longer that"
    );
    assert_eq!(got(&remote, "a"), (b"two".to_vec(), two));
}

#[test]
fn of_those_who_replace_the_same_exactly_one_does() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 5;
    let remote = &weed().open("raced");
    let mut known: Option<Tag> = None;
    for round in 0..ROUNDS {
        let known_now = &known;
        let won: Vec<(usize, Tag)> = dolmen_env::scope(|threads| {
            let asked: Vec<_> = (0..THREADS)
                .map(|thread| {
                    threads.spawn(move || {
                        let bytes = format!("round {round} thread {thread}").into_bytes();
                        remote.replace("a", known_now.as_ref(), bytes).unwrap().tag().map(|tag| (thread, tag))
                    })
                })
                .collect();
            asked.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(won.len(), 1, "round {round}: {won:?}");
        let (thread, tag) = won.into_iter().next().unwrap();
        assert_eq!(got(remote, "a"), (format!("round {round} thread {thread}").into_bytes(), tag.clone()));
        known = Some(tag);
    }
}

#[test]
fn large_objects_are_written_in_parts() {
    let remote = weed().open("parts");
    let bytes = pattern((40 << 20) + 5);
    let puts = [("a", &bytes[..]), ("b", &bytes[..16 << 20]), ("c", &bytes[..(16 << 20) - 1]), ("d", b"d")];
    let puts = puts.map(|(key, bytes)| Put { key: key.into(), bytes: IoBuf::copy_of(bytes) });
    remote.put(puts.into()).unwrap();
    let (back, tag) = got(&remote, "a");
    assert!(back == bytes);
    // The tag of an object of parts says how many.
    assert!(tag.0.contains("-6"), "{tag:?}");
    assert!(got(&remote, "b").0 == bytes[..16 << 20]);
    let (back, tag) = got(&remote, "c");
    assert!(back == bytes[..(16 << 20) - 1] && !tag.0.contains('-'), "{tag:?}");
    assert_eq!(got(&remote, "d").0, b"d");
}

#[test]
fn all_objects_are_listed_in_order_and_deleted() {
    let remote = weed().open("many");
    let mut wanted: Vec<String> = (0..1203).map(|nth| format!("p/{nth}")).collect();
    let puts = wanted.iter().map(|key| Put { key: key.clone(), bytes: IoBuf::copy_of(key.as_bytes()) });
    remote.put(puts.collect()).unwrap();
    put(&remote, "q", b"q");
    put(&weed().open("many more"), "r", b"r");
    wanted.sort();
    assert_eq!(keys(&remote, "p/"), wanted);
    assert_eq!(keys(&remote, "p/120"), ["p/120", "p/1200", "p/1201", "p/1202"]);
    assert_eq!(keys(&remote, "").len(), 1204);
    assert_eq!(keys(&remote, "none"), [""; 0]);
    let listed = remote.list("p/1202").unwrap();
    assert_eq!(listed[0].bytes, 6);
    // After 2020, and before 2100: nanoseconds since 1970.
    assert!((1_577_836_800_000_000_000..4_102_444_800_000_000_000).contains(&listed[0].written_ns));
    let mut gone = wanted;
    gone.push("none".into());
    remote.delete(gone).unwrap();
    assert_eq!(keys(&remote, ""), ["q"]);
    remote.delete(vec!["q".into(), "q".into()]).unwrap();
    remote.delete(Vec::new()).unwrap();
    assert_eq!(keys(&remote, ""), [""; 0]);
    assert_eq!(keys(&weed().open("many more"), ""), ["r"]);
}

#[test]
fn keys_and_prefixes_may_have_any_characters() {
    for prefix in ["odd/%41 a+b", "odd/ä€/x&y=z", "odd/<q>'\"#?"] {
        let remote = weed().open(prefix);
        for key in ["a b/c", "100%", "%2F", "ü&=?#+;,:@$!*'()", "a~b_c-d.e"] {
            put(&remote, key, key.as_bytes());
            assert_eq!(got(&remote, key).0, key.as_bytes(), "{prefix} {key}");
            assert_eq!(keys(&remote, key), [key], "{prefix}");
            let tag = got(&remote, key).1;
            assert!(remote.replace(key, Some(&tag), b"new".to_vec()).unwrap().tag().is_some());
            remote.delete(vec![key.into()]).unwrap();
            assert_eq!(remote.get(key, None).unwrap(), Got::None, "{prefix} {key}");
        }
    }
}

#[test]
fn the_whole_bucket_is_a_prefix_too() {
    let remote = weed().open("");
    put(&remote, "in the bucket/a", b"a");
    assert_eq!(keys(&remote, "in the bucket/"), ["in the bucket/a"]);
    assert_eq!(got(&weed().open("in the bucket/"), "a").0, b"a");
    assert!(keys(&remote, "").contains(&"in the bucket/a".to_owned()));
}
