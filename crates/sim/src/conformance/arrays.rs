//! Array values: records, holes, overlaps, record sizes, windows.

use super::Case;
use super::harness::{At, Harness, hole, oid, records, update, want_records};
use dolmen_codec::verb::{NewValue, ReadAt};
use dolmen_types::{Cond, Error, Invalid, Oid, Recx, limits};

pub(super) const CASES: &[(&str, Case)] = &[
    ("records_are_read_as_written", records_are_read_as_written),
    ("holes_leave_the_buffer_untouched", holes_leave_the_buffer_untouched),
    ("missing_array_has_size_zero", missing_array_has_size_zero),
    ("epoch_order_decides_between_overlapping_extents", epoch_order_decides_between_overlapping_extents),
    ("zeros_are_not_holes", zeros_are_not_holes),
    ("dug_records_are_holes", dug_records_are_holes),
    ("array_of_holes_does_not_exist", array_of_holes_does_not_exist),
    ("record_size_is_fixed_while_data_is_visible", record_size_is_fixed_while_data_is_visible),
    ("fetch_with_another_record_size_is_refused", fetch_with_another_record_size_is_refused),
    ("records_of_any_size", records_of_any_size),
    ("largest_records", largest_records),
    ("extents_lie_in_one_window", extents_lie_in_one_window),
    ("wrong_extents_are_refused", wrong_extents_are_refused),
    ("wrong_record_sizes_are_refused", wrong_record_sizes_are_refused),
    ("array_is_sparse_over_64_bits", array_is_sparse_over_64_bits),
    ("long_holes_reach_over_windows", long_holes_reach_over_windows),
    ("filled_parts_are_ascending_and_merged", filled_parts_are_ascending_and_merged),
    ("many_small_writes_become_one_text", many_small_writes_become_one_text),
    ("large_extents_keep_their_bytes", large_extents_keep_their_bytes),
];

const A: At<'static> = At(Oid { hi: 0x0001_0001_0000_0000, lo: 2 }, b"dkey", b"akey");
const W: u64 = limits::WINDOW_RECORDS;

/// Several extents of one update take the payload one after the other.
fn records_are_read_as_written(h: &mut Harness<'_>) {
    h.mutate(update(A.0, A.1, Cond::NONE, vec![records(A.2, 1, &[(10, 3), (2, 2)], b"abcde")]))
        .expect("records");
    assert_eq!(h.text(A, 0, 15), "..de......abc..");
}

/// S4: records never written leave the bytes of the buffer as they were.
fn holes_leave_the_buffer_untouched(h: &mut Harness<'_>) {
    h.write(A, 5, b"x");
    assert_eq!(h.text(A, 0, 8), ".....x..");
    assert_eq!(h.text(A, 6, 4), "....");
}

/// S4: a missing array has size 0 and nothing filled; one whose data lie elsewhere has its record size.
fn missing_array_has_size_zero(h: &mut Harness<'_>) {
    let want = || vec![want_records(A.2, 4, &[(0, 2)])];
    let (result, _) = h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, want(), 8);
    let found = result.expect("a plain fetch").remove(0);
    assert_eq!((found.size_bytes, found.filled.len()), (0, 0));
    h.mutate(update(A.0, A.1, Cond::NONE, vec![records(A.2, 4, &[(50, 1)], b"four")])).expect("records");
    let (result, _) = h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, want(), 8);
    let found = result.expect("a plain fetch").remove(0);
    assert_eq!((found.size_bytes, found.filled.len()), (4, 0));
}

/// S3: of overlapping extents the later write is seen, at each epoch as it was then.
fn epoch_order_decides_between_overlapping_extents(h: &mut Harness<'_>) {
    let first = h.write(A, 0, b"aaaaaaaaaa");
    let second = h.write(A, 3, b"bbb");
    let third = h.write(A, 5, b"cccccccc");
    let fourth = h.write(A, 0, b"d");
    assert_eq!(h.text(A, 0, 14), "daabbcccccccc.");
    assert_eq!(h.text_at(A, 0, 14, ReadAt::Epoch(third)), "aaabbcccccccc.");
    assert_eq!(h.text_at(A, 0, 14, ReadAt::Epoch(second)), "aaabbbaaaa....");
    assert_eq!(h.text_at(A, 0, 14, ReadAt::Epoch(first)), "aaaaaaaaaa....");
    assert!(first < second && second < third && third < fourth);
}

/// Records of zero bytes are data, not holes.
fn zeros_are_not_holes(h: &mut Harness<'_>) {
    h.write(A, 2, b"\0\0\0");
    assert_eq!(h.text(A, 0, 6), "..\0\0\0.");
}

/// S3: removed records read as holes from then on, before that as they were.
fn dug_records_are_holes(h: &mut Harness<'_>) {
    let full = h.write(A, 0, b"0123456789");
    h.dig(A, 3, 4);
    assert_eq!(h.text(A, 0, 10), "012....789");
    h.write(A, 4, b"X");
    assert_eq!(h.text(A, 0, 10), "012.X..789");
    assert_eq!(h.text_at(A, 0, 10, ReadAt::Epoch(full)), "0123456789");
}

/// S1: an array all of whose records are removed does not exist; digging in nothing makes nothing.
fn array_of_holes_does_not_exist(h: &mut Harness<'_>) {
    h.dig(At(A.0, b"never", A.2), 0, 10);
    assert!(h.objects(10, ReadAt::Latest).is_empty());
    h.write(A, 0, b"abc");
    h.dig(A, 0, 2);
    assert_eq!(h.dkeys(A.0, ReadAt::Latest), ["dkey"]);
    h.dig(A, 2, 1);
    assert!(h.akeys(A.0, A.1, ReadAt::Latest).is_empty());
    assert!(h.dkeys(A.0, ReadAt::Latest).is_empty());
    assert!(h.objects(10, ReadAt::Latest).is_empty());
}

/// S3: another record size is refused while data is visible, and taken when none is.
fn record_size_is_fixed_while_data_is_visible(h: &mut Harness<'_>) {
    let wide = || update(A.0, A.1, Cond::NONE, vec![records(A.2, 2, &[(100, 1)], b"xy")]);
    h.write(A, 0, b"abc");
    assert_eq!(h.mutate(wide()), Err(Error::RecordSize { stored_bytes: 1 }));
    h.dig(A, 0, 2);
    assert_eq!(h.mutate(wide()), Err(Error::RecordSize { stored_bytes: 1 }));
    h.dig(A, 2, 1);
    h.mutate(wide()).expect("no data is visible");
    let (result, buf) =
        h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, vec![want_records(A.2, 2, &[(100, 1)])], 2);
    assert_eq!((result.expect("a plain fetch")[0].size_bytes, &buf[..]), (2, &b"xy"[..]));
    h.punch_dkey(A.0, A.1);
    h.write(A, 7, b"z");
    assert_eq!(h.text(A, 6, 3), ".z.");
}

/// S4: a fetch with another record size than the visible data's is refused.
fn fetch_with_another_record_size_is_refused(h: &mut Harness<'_>) {
    h.mutate(update(A.0, A.1, Cond::NONE, vec![records(A.2, 4, &[(0, 1)], b"four")])).expect("records");
    let (result, _) =
        h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, vec![want_records(A.2, 8, &[(0, 1)])], 8);
    assert_eq!(result, Err(Error::RecordSize { stored_bytes: 4 }));
}

/// Records of odd sizes: partial reads and overwrites move by whole records.
fn records_of_any_size(h: &mut Harness<'_>) {
    for record_bytes in [1_usize, 3, 8, 100, 4096, 33_000] {
        let akey = record_bytes.to_string();
        let record = |number: usize| -> Vec<u8> {
            (0..record_bytes)
                .map(|i| u8::try_from((number * 37 + i) % 256).expect("below 256") | 0x80)
                .collect()
        };
        let size = record_bytes as u64;
        let ten: Vec<u8> = (0..10).flat_map(record).collect();
        let two: Vec<u8> = (50..52).flat_map(record).collect();
        h.mutate(update(A.0, A.1, Cond::NONE, vec![records(akey.as_bytes(), size, &[(20, 10)], &ten)]))
            .expect("records");
        h.mutate(update(A.0, A.1, Cond::NONE, vec![records(akey.as_bytes(), size, &[(24, 2)], &two)]))
            .expect("records");
        let want = vec![want_records(akey.as_bytes(), size, &[(23, 4)])];
        let (result, buf) = h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, want, 4 * record_bytes);
        assert_eq!(result.expect("a plain fetch")[0].filled[..], [Recx::new(23, 4)]);
        let expected: Vec<u8> = [3, 50, 51, 6].into_iter().flat_map(record).collect();
        assert!(buf[..] == expected[..], "{record_bytes} bytes a record");
    }
}

/// Records of the largest size are kept.
fn largest_records(h: &mut Harness<'_>) {
    let size = limits::RECORD_BYTES_MAX;
    let len = usize::try_from(size).expect("a megabyte");
    let bytes = vec![0xA5; 2 * len];
    h.mutate(update(A.0, A.1, Cond::NONE, vec![records(A.2, size, &[(7, 2)], &bytes)])).expect("records");
    let (result, buf) =
        h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, vec![want_records(A.2, size, &[(8, 1)])], len);
    assert_eq!(result.expect("a plain fetch")[0].filled[..], [Recx::new(8, 1)]);
    assert!(buf[..] == bytes[..len]);
}

/// S3: an extent of data lies inside one window; extents that end or begin at its edge do.
fn extents_lie_in_one_window(h: &mut Harness<'_>) {
    for (index, count) in [(W - 1, 2), (0, W + 1), (3 * W - 5, 10)] {
        let data = vec![1; usize::try_from(count).expect("a megabyte")];
        let result = h.mutate(update(A.0, A.1, Cond::NONE, vec![records(A.2, 1, &[(index, count)], &data)]));
        assert_eq!(result, Err(Invalid::Extent.into()), "{index} + {count}");
    }
    h.write(A, W - 2, b"ab");
    h.write(A, W, b"cd");
    assert_eq!(h.text(A, W - 3, 6), ".abcd.");
    let whole = vec![7; usize::try_from(W).expect("a megabyte")];
    h.write(At(A.0, A.1, b"whole"), 5 * W, &whole);
    assert_eq!(h.text(At(A.0, A.1, b"whole"), 6 * W - 2, 3), "\x07\x07.");
}

/// S3: empty, overflowing and overlapping extents are refused; nothing of the update is kept.
fn wrong_extents_are_refused(h: &mut Harness<'_>) {
    let wrong = [
        records(A.2, 1, &[(0, 2), (1, 2)], b"abcd"),
        records(A.2, 1, &[(5, 2), (5, 2)], b"abcd"),
        records(A.2, 1, &[(5, 0)], b""),
        records(A.2, 1, &[(u64::MAX, 1)], b"a"),
        hole(A.2, &[(0, 0)]),
        hole(A.2, &[(2, u64::MAX)]),
        hole(A.2, &[(0, 10), (9, 2)]),
    ];
    for iod in wrong {
        let result = h.mutate(update(A.0, A.1, Cond::NONE, vec![records(b"ok", 1, &[(0, 1)], b"x"), iod]));
        assert_eq!(result, Err(Invalid::Extent.into()));
    }
    assert!(h.objects(10, ReadAt::Latest).is_empty());
}

/// S4, S5: a record size of zero is refused, and one above the limit.
fn wrong_record_sizes_are_refused(h: &mut Harness<'_>) {
    let refused = Error::from(Invalid::RecordSize);
    let result = h.mutate(update(A.0, A.1, Cond::NONE, vec![records(A.2, 0, &[(0, 1)], b"")]));
    assert_eq!(result, Err(refused.clone()));
    let mut iod = records(A.2, 1, &[(0, 1)], b"x");
    if let NewValue::Array { record_bytes, .. } = &mut iod.value {
        *record_bytes = limits::RECORD_BYTES_MAX + 1;
    }
    assert_eq!(h.mutate(update(A.0, A.1, Cond::NONE, vec![iod])), Err(refused.clone()));
    let (result, _) =
        h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, vec![want_records(A.2, 0, &[(0, 1)])], 8);
    assert_eq!(result, Err(refused));
}

/// Records stand anywhere in 64 bits.
fn array_is_sparse_over_64_bits(h: &mut Harness<'_>) {
    let places = [0, 1 << 20, 1 << 40, (1 << 63) + 5, u64::MAX - 3];
    for &index in &places {
        h.write(A, index, b"me");
    }
    for &index in &places {
        assert_eq!(h.text(A, index, 3), "me.");
    }
    assert_eq!(h.extents(A, 100, ReadAt::Latest).len(), places.len());
    h.dig(A, 1, u64::MAX - 1);
    assert_eq!(h.text(A, 0, 3), "m..");
    assert_eq!(h.text(A, 1 << 63, 8), "........");
}

/// S3: a hole may be of any length, and later data stand in it.
fn long_holes_reach_over_windows(h: &mut Harness<'_>) {
    for window in 0..4 {
        h.write(A, window * W + 10, b"abcdef");
    }
    h.dig(A, W + 12, 2 * W);
    h.write(A, 2 * W + 12, b"Z");
    assert_eq!(h.text(A, 10, 6), "abcdef");
    assert_eq!(h.text(A, W + 10, 6), "ab....");
    assert_eq!(h.text(A, 2 * W + 10, 6), "..Z...");
    assert_eq!(h.text(A, 3 * W + 10, 6), "..cdef");
}

/// S4: the parts that hold data are ascending and merged where they touch, over extents and over writes.
fn filled_parts_are_ascending_and_merged(h: &mut Harness<'_>) {
    h.write(A, 10, b"ab");
    h.write(A, 12, b"cd");
    h.write(A, 20, b"e");
    let want = vec![want_records(A.2, 1, &[(18, 4), (8, 5), (13, 3)])];
    let (result, buf) = h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, want, 12);
    assert_eq!(result.expect("a plain fetch")[0].filled[..], [Recx::new(10, 4), Recx::new(20, 1)]);
    assert_eq!(&buf[..], b"..e...abcd..");
}

/// Records written one by one, each twice and in mixed order, read as one text.
fn many_small_writes_become_one_text(h: &mut Harness<'_>) {
    let text: Vec<u8> = (0..300_u64).map(|i| b'a' + (i % 26).to_le_bytes()[0]).collect();
    for round in 0..2 {
        for step in 0..300_u64 {
            let index = step * 7 % 300;
            let byte = if round == 0 { b'?' } else { text[usize::try_from(index).expect("below 300")] };
            h.write(A, 1000 + index, &[byte]);
        }
    }
    assert_eq!(h.text(A, 1000, 300).as_bytes(), &text[..]);
    assert_eq!(h.text(A, 1150, 40).as_bytes(), &text[150..190]);
}

/// Extents far above the small threshold, overwritten in the middle, keep every byte.
fn large_extents_keep_their_bytes(h: &mut Harness<'_>) {
    let mut bytes: Vec<u8> =
        (0..700_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0]).collect();
    h.mutate(update(oid(7), A.1, Cond::NONE, vec![records(A.2, 1, &[(1000, 700_000)], &bytes)]))
        .expect("records");
    let patch: Vec<u8> = (0..100_001_u32).map(|i| (i % 253).to_le_bytes()[0]).collect();
    h.mutate(update(oid(7), A.1, Cond::NONE, vec![records(A.2, 1, &[(51_001, 100_001)], &patch)]))
        .expect("records");
    bytes[50_001..150_002].copy_from_slice(&patch);
    for (from, len) in [(0, 700_000), (49_999, 5), (150_000, 4), (32_767, 32_770), (699_999, 1)] {
        let want = vec![want_records(A.2, 1, &[(1000 + from as u64, len as u64)])];
        let (result, buf) = h.fetch((oid(7), A.1), Cond::NONE, ReadAt::Latest, want, len);
        assert_eq!(result.expect("a plain fetch")[0].filled[..], [Recx::new(1000 + from as u64, len as u64)]);
        assert!(buf[..] == bytes[from..from + len], "{len} bytes from {from}");
    }
}
