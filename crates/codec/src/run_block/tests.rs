//! Blocks round-trip, find what they hold, and refuse every damage.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys and payloads of any length, and such as are much alike: of one form with some fields that differ.
fn entries() -> impl Strategy<Value = Entries> {
    prop_oneof![mixed(), alike()]
}

fn alike() -> impl Strategy<Value = Entries> {
    let rare = prop_oneof![20 => Just(0u8), 1 => any::<u8>()];
    let fields = (any::<u16>(), prop::collection::vec(any::<u8>(), 3), prop::collection::vec(rare, 90));
    let entry = (fields, 0usize..90, 0usize..90).prop_map(|((name, body, rare), key_end, payload_end)| {
        let key = [&[7; 9], &name.to_le_bytes()[..], &[0; 8], &body, &rare[..80 - key_end / 80]].concat();
        let payload = [&[9; 12], &name.to_le_bytes()[..], &rare[..70 - payload_end / 88 * 60]].concat();
        (key, payload)
    });
    prop::collection::vec(entry, 1..300).prop_map(|entries| entries.into_iter().collect())
}

fn mixed() -> impl Strategy<Value = Entries> {
    let key = (prop::collection::vec(0u8..3, 0..4), prop::collection::vec(any::<u8>(), 0..20))
        .prop_map(|(prefix, rest)| [vec![7; 6], prefix, rest].concat());
    prop::collection::btree_map(key, prop::collection::vec(any::<u8>(), 0..60), 1..120)
}

/// All blocks of these entries, as a writer makes them.
fn blocks(entries: &Entries, run: u32) -> Vec<IoBuf> {
    let mut builder = RunBlockBuilder::new(RunBlockKind::Entries);
    let (mut out, mut page) = (Vec::new(), 0);
    for (key, payload) in entries {
        if !builder.push(key, payload, 7) {
            out.push(builder.finish(run, page));
            page += u32::try_from(out.last().unwrap().len() / RUN_PAGE_BYTES).unwrap();
            assert!(builder.push(key, payload, 7));
        }
    }
    out.push(builder.finish(run, page));
    out
}

fn read(block: &RunBlock<&[u8]>) -> Entries {
    let (mut key, mut payload) = (Vec::new(), Vec::new());
    let mut stepped = (Vec::new(), Vec::new());
    let last = block.count() - 1;
    block.key_into(last, &mut stepped.0);
    block.payload_into(last, &mut stepped.1);
    let one = |index: usize| {
        block.key_into(index, &mut key);
        block.payload_into(index, &mut payload);
        block.step_into(index, &mut stepped.0, &mut stepped.1);
        assert_eq!((&key, &payload), (&stepped.0, &stepped.1));
        (key.clone(), payload.clone())
    };
    (0..block.count()).map(one).collect()
}

proptest! {
    #[test]
    fn blocks_hold_what_was_pushed_and_find_it(entries in entries(), probes in prop::collection::vec(prop::collection::vec(0u8..9, 0..12), 20)) {
        let mut all = Entries::new();
        let mut page = 0;
        for bytes in blocks(&entries, 3) {
            let block = RunBlock::parse(&bytes[..], RunBlockKind::Entries, (3, page, 0)).unwrap();
            page += u32::try_from(block.len() / RUN_PAGE_BYTES).unwrap();
            let part = read(&block);
            prop_assert_eq!(block.epochs(), (7, 7));
            for probe in part.keys().chain(&probes) {
                prop_assert_eq!(block.lower_bound(probe), part.range(..probe.clone()).count());
                prop_assert_eq!(block.begins_after(probe), block.upper_bound(probe) == 0);
                prop_assert_eq!(block.upper_bound(probe), part.range(..=probe.clone()).count());
            }
            all.extend(part);
        }
        prop_assert_eq!(all, entries);
    }

    #[test]
    fn forged_blocks_with_a_right_checksum_give_an_error_or_stay_inside(
        is_short: bool,
        changes in prop::collection::vec((20usize..400, any::<u8>()), 1..8),
    ) {
        let key = |n: u8| if is_short { vec![1, n] } else { [[1; 8], [n; 8], [2; 8], [n; 8], [3; 8]].concat() };
        let entries = (0..9u8).map(|n| (key(n), vec![n; 20])).collect();
        let mut bytes = blocks(&entries, 3).remove(0);
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        let sum = crc32c(&bytes[SUM_BYTES..]);
        bytes[..SUM_BYTES].copy_from_slice(&sum.to_le_bytes());
        if let Ok(block) = RunBlock::parse(&bytes[..], RunBlockKind::Entries, (3, 0, 0)) {
            // Forged keys may be equal to each other.
            prop_assert!(read(&block).len() <= block.count());
            prop_assert!(block.lower_bound(&[1, 4]) <= block.count());
        }
    }

    #[test]
    fn no_bytes_make_the_decoders_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(RunBlock::parse(&bytes[..], RunBlockKind::Fence, (0, 0, 0)).is_err());
        prop_assert!(decode_filter_block(&bytes, (0, 0, 0), &mut Vec::new()).is_err());
    }
}

#[test]
fn any_flipped_bit_and_any_other_name_is_refused() {
    let entries = (0..40u8).map(|n| (vec![1, n], vec![n; 30])).collect();
    let mut bytes = blocks(&entries, 3).remove(0);
    let parse = |bytes: &[u8], run, page, kind| {
        RunBlock::parse(bytes, kind, (run, page, 4096)).map(|block| block.count())
    };
    assert_eq!(parse(&bytes, 3, 0, RunBlockKind::Entries), Ok(40));
    for (run, page, kind) in
        [(4, 0, RunBlockKind::Entries), (3, 1, RunBlockKind::Entries), (3, 0, RunBlockKind::Fence)]
    {
        assert_eq!(parse(&bytes, run, page, kind), Err(RunDamage { run, offset: 4096 }));
    }
    for byte in (0..RUN_PAGE_BYTES).step_by(7) {
        bytes[byte] ^= 0x20;
        assert!(parse(&bytes, 3, 0, RunBlockKind::Entries).is_err(), "byte {byte}");
        bytes[byte] ^= 0x20;
    }
    assert!(parse(&bytes[..4000], 3, 0, RunBlockKind::Entries).is_err());
    assert_eq!(RunDamage { run: 3, offset: 4096 }.to_string(), "run 3 is damaged at byte 4096");
}

#[test]
fn the_longest_entry_makes_a_block_of_fifteen_pages() {
    let entries = Entries::from([(vec![1; 365], vec![2; RUN_ENTRY_BYTES_MAX - 365]), (vec![2], vec![])]);
    let all = blocks(&entries, 3);
    assert_eq!(all[0].len(), RUN_BLOCK_PAGES_MAX * RUN_PAGE_BYTES);
    let block = RunBlock::parse(&all[1][..], RunBlockKind::Entries, (3, 15, 0)).unwrap();
    assert_eq!((block.page(), block.run(), block.is_empty()), (15, 3, false));
}

#[test]
fn filter_blocks_round_trip() {
    let lines: Vec<[u64; 8]> = (0..RUN_FILTER_BLOCK_LINES as u64).map(|n| [n; 8]).collect();
    let mut bytes = encode_filter_block(9, 8, &lines);
    assert_eq!(bytes.len(), 8 * RUN_PAGE_BYTES);
    let mut out = Vec::new();
    decode_filter_block(&bytes, (9, 8, 0), &mut out).unwrap();
    assert_eq!(out, lines);
    bytes[5000] ^= 1;
    assert!(decode_filter_block(&bytes, (9, 8, 0), &mut out).is_err());
}

#[test]
fn golden_bytes_of_a_block() {
    let mut builder = RunBlockBuilder::new(RunBlockKind::Entries);
    assert!(builder.push(b"stone a", b"one", 0x11));
    assert!(builder.push(b"stone bcheese", b"", 0x2233));
    let bytes = builder.finish(0x0102_0304, 0x0506_0708);
    let golden: [&[u8]; 13] = [
        &GOLDEN_SUM,
        b"DRBK\x02\x00\x01\x01\x04\x03\x02\x01\x08\x07\x06\x05\0\0\0\0",
        b"\x11\0\0\0\0\0\0\0",
        b"\x33\x22\0\0\0\0\0\0",
        b"\x02\0\x06\0\xff\xff\xff\xff",
        &[0; 16],
        b"stone \0\0",
        b"\x58\0\0\0\0\0\0a",
        b"\x5f\0seehcb",
        b"\x01\0\x03\0",
        b"one",
        b"\x07\0\0\0",
        b"e",
    ];
    is_golden(&bytes, &golden.concat());
    assert_eq!(builder.count(), 0);
}

/// Of the bytes above and the zeros behind them; computed once, then written down.
const GOLDEN_SUM: [u8; 4] = [0, 74, 23, 30];

#[test]
fn golden_bytes_of_a_block_of_entries_that_are_alike() {
    let mut builder = RunBlockBuilder::new(RunBlockKind::Entries);
    assert!(builder.push(b"stone 123456-left-a-end", b"value 1 of 3", 0x11));
    assert!(builder.push(b"stone 223456-left-b-end", b"value 2 of 3", 0x11));
    let bytes = builder.finish(3, 4);
    let golden: [&[u8]; 11] = [
        &GOLDEN_SUM_ALIKE,
        b"DRBK\x02\x00\x01\x01\x03\0\0\0\x04\0\0\0\x0b\x0c\0\0",
        b"\x11\0\0\0\0\0\0\0\x11\0\0\0\0\0\0\0",
        b"\x02\0\x06\0\x11\0\x0c\0",
        b"\x40\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0",
        b"stone ",
        b"-left-\0-end",
        b"value \0 of 3\0\0\0",
        b"\x70\x00654321\x72\x00654322",
        b"a1",
        b"b2",
    ];
    is_golden(&bytes, &golden.concat());
}

/// As above.
const GOLDEN_SUM_ALIKE: [u8; 4] = [238, 77, 211, 102];

fn is_golden(bytes: &[u8], golden: &[u8]) {
    assert_eq!(bytes.len(), RUN_PAGE_BYTES);
    assert_eq!(&bytes[..golden.len()], golden);
    assert!(bytes[golden.len()..].iter().all(|&byte| byte == 0));
}

#[test]
fn entries_that_are_alike_take_what_they_differ_in() {
    /// Bytes in which they differ, as below: a hash but for its head, then stamp, place, checksum and name.
    const LANES: usize = 10 + 6 + 5 + 4 + 8;
    let mut entries = Entries::new();
    for number in 0..1000u64 {
        let random = |salt: u64| (number ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let key = [
            &[1; 20],
            &random(1).to_le_bytes()[..],
            &random(2).to_le_bytes(),
            &[2; 16],
            &[0; 11],
            &random(3).to_le_bytes()[..6],
        ];
        let payload = [
            &[3; 11],
            &random(4).to_le_bytes()[..5],
            &random(5).to_le_bytes()[..4],
            &random(6).to_le_bytes(),
        ];
        entries.insert(key.concat(), payload.concat());
    }
    let all = blocks(&entries, 3);
    let bytes: usize = all.iter().map(|block| block.len()).sum();
    assert!(bytes < entries.len() * (8 + LANES + 5), "{bytes} bytes");
    let mut builder = RunBlockBuilder::new(RunBlockKind::Entries);
    let taken = entries.iter().take_while(|(key, payload)| builder.push(key, payload, 7)).count();
    assert!(builder.plain_bytes() >= taken * (8 + 4 + 45 + 28) && taken > 70, "{taken} entries");
}
