//! Conditions of updates, punches and fetches.

use super::Case;
use super::harness::{
    At, Harness, akeys_scope, hole, no_single, oid, punch, single, update, want_single, want_size,
};
use dolmen_codec::verb::{PunchScope, ReadAt};
use dolmen_types::{Cond, Error, Invalid, Key};

pub(super) const CASES: &[(&str, Case)] = &[
    ("dkey_insert_refuses_what_exists", dkey_insert_refuses_what_exists),
    ("dkey_update_refuses_what_is_missing", dkey_update_refuses_what_is_missing),
    ("akey_insert_looks_at_every_iod", akey_insert_looks_at_every_iod),
    ("akey_update_looks_at_every_iod", akey_update_looks_at_every_iod),
    ("per_akey_conditions_are_those_of_each_iod", per_akey_conditions_are_those_of_each_iod),
    ("conditions_of_iods_do_not_count_without_per_akey", conditions_of_iods_do_not_count_without_per_akey),
    ("fetch_conditions", fetch_conditions),
    ("punch_conditions", punch_conditions),
    ("conditions_see_removals_and_holes", conditions_see_removals_and_holes),
    ("contradicting_conditions_are_refused", contradicting_conditions_are_refused),
];

/// S5: `DKEY_INSERT` on a dkey that exists is `Exists`, whichever akey makes it exist, and changes nothing.
fn dkey_insert_refuses_what_exists(h: &mut Harness<'_>) {
    let insert = |bytes: &[u8]| update(oid(1), b"d", Cond::DKEY_INSERT, vec![single(b"a", bytes)]);
    h.mutate(insert(b"first")).expect("nothing is there");
    assert_eq!(h.mutate(insert(b"second")), Err(Error::Exists));
    let other = update(oid(1), b"d", Cond::DKEY_INSERT, vec![single(b"b", b"x")]);
    assert_eq!(h.mutate(other), Err(Error::Exists));
    assert_eq!(h.single(At(oid(1), b"d", b"a")).as_deref(), Some(&b"first"[..]));
    assert_eq!(h.akeys(oid(1), b"d", ReadAt::Latest), ["a"]);
    h.punch_dkey(oid(1), b"d");
    h.mutate(insert(b"third")).expect("it was punched");
}

/// S5: `DKEY_UPDATE` on a missing dkey is `NotFound`.
fn dkey_update_refuses_what_is_missing(h: &mut Harness<'_>) {
    let change = || update(oid(1), b"d", Cond::DKEY_UPDATE, vec![single(b"a", b"x")]);
    assert_eq!(h.mutate(change()), Err(Error::NotFound));
    h.put(At(oid(1), b"e", b"a"), b"x");
    assert_eq!(h.mutate(change()), Err(Error::NotFound));
    h.put(At(oid(1), b"d", b"other"), b"x");
    h.mutate(change()).expect("the dkey exists");
}

/// S5: `AKEY_INSERT` fails if any akey of the call exists, and then writes none.
fn akey_insert_looks_at_every_iod(h: &mut Harness<'_>) {
    h.put(At(oid(1), b"d", b"b"), b"old");
    let insert = |akeys: [&[u8]; 2]| {
        update(oid(1), b"d", Cond::AKEY_INSERT, akeys.iter().map(|akey| single(akey, b"new")).collect())
    };
    assert_eq!(h.mutate(insert([b"a", b"b"])), Err(Error::Exists));
    assert_eq!(h.single(At(oid(1), b"d", b"a")), None);
    assert_eq!(h.single(At(oid(1), b"d", b"b")).as_deref(), Some(&b"old"[..]));
    h.mutate(insert([b"a", b"c"])).expect("neither exists");
}

/// S5: `AKEY_UPDATE` fails if any akey of the call is missing, and then writes none.
fn akey_update_looks_at_every_iod(h: &mut Harness<'_>) {
    h.put(At(oid(1), b"d", b"a"), b"old");
    h.write(At(oid(1), b"d", b"array"), 5, b"x");
    let change = |akeys: [&[u8]; 2]| {
        update(oid(1), b"d", Cond::AKEY_UPDATE, akeys.iter().map(|akey| single(akey, b"new")).collect())
    };
    assert_eq!(h.mutate(change([b"a", b"b"])), Err(Error::NotFound));
    assert_eq!(h.single(At(oid(1), b"d", b"a")).as_deref(), Some(&b"old"[..]));
    h.mutate(change([b"a", b"array"])).expect("an akey exists by its array as well");
}

/// S5: with `PER_AKEY` each iod has its own condition.
fn per_akey_conditions_are_those_of_each_iod(h: &mut Harness<'_>) {
    h.put(At(oid(1), b"d", b"here"), b"old");
    let both = |insert: &[u8], change: &[u8]| {
        let mut iods = vec![single(insert, b"i"), single(change, b"u"), single(b"any", b"n")];
        iods[0].cond = Cond::AKEY_INSERT;
        iods[1].cond = Cond::AKEY_UPDATE;
        update(oid(1), b"d", Cond::PER_AKEY, iods)
    };
    assert_eq!(h.mutate(both(b"new", b"missing")), Err(Error::NotFound));
    assert_eq!(h.mutate(both(b"here", b"missing")), Err(Error::Exists));
    assert_eq!(h.akeys(oid(1), b"d", ReadAt::Latest), ["here"]);
    h.mutate(both(b"new", b"here")).expect("both conditions hold");
    assert_eq!(h.akeys(oid(1), b"d", ReadAt::Latest), ["any", "here", "new"]);
}

/// S5: without `PER_AKEY` the condition of the call counts, not those of the iods.
fn conditions_of_iods_do_not_count_without_per_akey(h: &mut Harness<'_>) {
    let mut iods = vec![single(b"a", b"x")];
    iods[0].cond = Cond::AKEY_UPDATE;
    h.mutate(update(oid(1), b"d", Cond::NONE, iods)).expect("no condition");
}

/// S4: `DKEY_FETCH` and `AKEY_FETCH` turn what is missing into `NotFound`.
fn fetch_conditions(h: &mut Harness<'_>) {
    let fetch = |h: &mut Harness<'_>, cond, akeys: &[&[u8]]| {
        let iods = akeys.iter().map(|akey| want_single(akey, 4)).collect();
        h.fetch((oid(1), b"d"), cond, ReadAt::Latest, iods, 8).0.map(|iods| iods.len())
    };
    assert_eq!(fetch(h, Cond::DKEY_FETCH, &[b"a"]), Err(Error::NotFound));
    assert_eq!(fetch(h, Cond::AKEY_FETCH, &[b"a"]), Err(Error::NotFound));
    h.put(At(oid(1), b"d", b"a"), b"x");
    assert_eq!(fetch(h, Cond::DKEY_FETCH, &[b"missing"]), Ok(1));
    assert_eq!(fetch(h, Cond::AKEY_FETCH, &[b"a"]), Ok(1));
    assert_eq!(fetch(h, Cond::AKEY_FETCH, &[b"a", b"missing"]), Err(Error::NotFound));
    let (result, _) = h.fetch((oid(1), b"d"), Cond::AKEY_FETCH, ReadAt::Latest, vec![want_size(b"no")], 0);
    assert_eq!(result, Err(Error::NotFound));
}

/// S6: without a condition a punch of nothing succeeds; with it, `NotFound` unless all that is named exists.
fn punch_conditions(h: &mut Harness<'_>) {
    let dkey = || PunchScope::Dkey(Key::from_slice(b"d"));
    let scopes =
        || [PunchScope::Object, dkey(), akeys_scope(b"d", &[b"a"]), akeys_scope(b"d", &[b"a", b"b"])];
    for scope in scopes() {
        h.mutate(punch(oid(1), scope.clone(), Cond::NONE)).expect("without condition");
        assert_eq!(h.mutate(punch(oid(1), scope, Cond::PUNCH)), Err(Error::NotFound));
    }
    h.put(At(oid(1), b"d", b"a"), b"x");
    let half = punch(oid(1), akeys_scope(b"d", &[b"a", b"b"]), Cond::PUNCH);
    assert_eq!(h.mutate(half), Err(Error::NotFound));
    assert_eq!(h.akeys(oid(1), b"d", ReadAt::Latest), ["a"], "a refused punch removes nothing");
    for scope in scopes() {
        h.mutate(update(oid(1), b"d", Cond::NONE, vec![single(b"a", b"x"), single(b"b", b"x")]))
            .expect("an update");
        h.mutate(punch(oid(1), scope.clone(), Cond::PUNCH)).expect("all of it exists");
        assert_eq!(h.mutate(punch(oid(1), scope, Cond::PUNCH)), Err(Error::NotFound));
    }
}

/// S1: what was removed, or holds only holes, counts as missing for a condition.
fn conditions_see_removals_and_holes(h: &mut Harness<'_>) {
    h.put(At(oid(1), b"d", b"s"), b"x");
    h.write(At(oid(1), b"d", b"v"), 0, b"xy");
    h.mutate(update(oid(1), b"d", Cond::NONE, vec![no_single(b"s"), hole(b"v", &[(0, 2)])]))
        .expect("removals");
    let change = update(oid(1), b"d", Cond::AKEY_UPDATE, vec![single(b"v", b"x")]);
    assert_eq!(h.mutate(change), Err(Error::NotFound));
    let change = update(oid(1), b"d", Cond::DKEY_UPDATE, vec![single(b"v", b"x")]);
    assert_eq!(h.mutate(change), Err(Error::NotFound));
    let insert = Cond::DKEY_INSERT.and(Cond::AKEY_INSERT);
    h.mutate(update(oid(1), b"d", insert, vec![single(b"s", b"y")])).expect("nothing exists");
}

/// A condition and its opposite together are refused.
fn contradicting_conditions_are_refused(h: &mut Harness<'_>) {
    h.put(At(oid(1), b"d", b"a"), b"x");
    for cond in [Cond::DKEY_INSERT.and(Cond::DKEY_UPDATE), Cond::AKEY_INSERT.and(Cond::AKEY_UPDATE)] {
        let result = h.mutate(update(oid(1), b"d", cond, vec![single(b"a", b"y")]));
        assert!(
            matches!(result, Err(Error::Invalid(Invalid::Flags) | Error::Exists | Error::NotFound)),
            "{result:?}"
        );
    }
    assert_eq!(h.single(At(oid(1), b"d", b"a")).as_deref(), Some(&b"x"[..]));
}
