//! The difference between two epochs, whatever lies between them and wherever a call ends.

use crate::rig::{Rig, oid};
use dolmen_codec::verb::{
    Change, ChangeKind, ContVerb, List, ListWhat, Listed, PunchScope, ReadAt, Reply, Verb,
};
use dolmen_env::Media;
use dolmen_types::{Anchor, Cond, Durability, Epoch, Key};

/// All changes, in calls that return few, and how many calls that took.
fn changes(rig: &mut Rig, from: Epoch, to: Epoch, items_max: u32) -> (Vec<Change>, usize) {
    let (mut anchor, mut found, mut calls) = (Anchor::default(), Vec::new(), 0);
    while !anchor.is_eof() {
        let what = ListWhat::Changes { from, to };
        let list = List { what, anchor, items_max, bytes_max: 1 << 20, at: ReadAt::Latest };
        match rig.ask(Verb::List(list)).unwrap() {
            Reply::Listed(Listed::Changes(changes), next) => {
                found.extend(changes);
                anchor = next;
                calls += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    (found, calls)
}

fn key(number: u32) -> Key {
    Key::from_slice(&number.to_le_bytes())
}

fn snapshot(rig: &mut Rig) -> Epoch {
    let epoch = rig.put(oid(99), b"mark", b"a", b"x").unwrap();
    rig.ask(Verb::Cont(ContVerb::AddSnapshot(epoch))).unwrap();
    epoch
}

/// Number of the object, dkey and kind of each change, sorted.
fn plain(changes: Vec<Change>) -> Vec<(u64, Key, ChangeKind)> {
    let mut plain: Vec<_> = changes.into_iter().map(|c| (c.oid.lo, c.dkey, c.kind)).collect();
    plain.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    plain
}

#[test]
fn a_difference_names_what_changed_and_nothing_else() {
    for media in [Media::Mapped, Media::Block] {
        let mut rig = Rig::new(media, Durability::Process);
        for object in 1..=4 {
            for number in 0..50 {
                rig.put(oid(object), &key(number), b"a", b"old").unwrap();
            }
        }
        let from = snapshot(&mut rig);
        rig.ask(Verb::Checkpoint).unwrap();
        rig.put(oid(1), &key(7), b"a", b"new").unwrap();
        rig.put(oid(1), &key(70), b"a", b"new").unwrap();
        rig.punch(oid(2), PunchScope::Object, Cond::NONE).unwrap();
        rig.put(oid(2), &key(8), b"a", b"again").unwrap();
        rig.punch(oid(3), PunchScope::Dkey(key(9)), Cond::NONE).unwrap();
        let to = snapshot(&mut rig);
        rig.ask(Verb::Checkpoint).unwrap();
        // What is younger than both does not count.
        rig.put(oid(4), &key(1), b"a", b"late").unwrap();
        rig.punch(oid(1), PunchScope::Object, Cond::NONE).unwrap();

        let mut expected =
            vec![(oid(1).lo, key(7), ChangeKind::Modified), (oid(1).lo, key(70), ChangeKind::Added)];
        for number in 0..50 {
            let kind = if number == 8 { ChangeKind::Modified } else { ChangeKind::Removed };
            expected.push((oid(2).lo, key(number), kind));
        }
        expected.push((oid(3).lo, key(9), ChangeKind::Removed));
        expected.push((oid(99).lo, Key::from_slice(b"mark"), ChangeKind::Modified));
        expected.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        for items_max in [1, 3, 1000] {
            let (found, _) = changes(&mut rig, from, to, items_max);
            assert_eq!(plain(found), expected, "{media:?}, {items_max} a call");
        }
        assert_eq!(changes(&mut rig, to, to, 10).0, []);

        // Rolled back to `from`, there is no difference but the rest of it, without one new entry.
        let at = rig.put(oid(98), b"d", b"a", b"x").unwrap().next();
        rig.ask(Verb::Cont(ContVerb::Rollback { to: from, at })).unwrap();
        let back = snapshot(&mut rig);
        let mark = [(oid(99).lo, Key::from_slice(b"mark"), ChangeKind::Modified)];
        assert_eq!(plain(changes(&mut rig, from, back, 5).0), mark);
        assert_eq!(plain(changes(&mut rig, to, back, 5).0).len(), expected.len());
    }
}

#[test]
fn a_call_for_differences_passes_over_so_many_old_entries_and_no_more() {
    let mut rig = Rig::new(Media::Mapped, Durability::Process);
    for number in 0..70_000 {
        rig.put(oid(1), &key(number), b"a", b"old").unwrap();
    }
    let from = snapshot(&mut rig);
    rig.put(oid(1), &key(7), b"a", b"new").unwrap();
    rig.put(oid(1), &key(69_000), b"a", b"new").unwrap();
    let to = snapshot(&mut rig);
    // All of it in one run, which has entries of the time between the two.
    rig.aggregate();
    let (found, calls) = changes(&mut rig, from, to, 1000);
    assert_eq!(found.len(), 3);
    assert_eq!(calls, 2);
}

#[test]
fn a_call_for_differences_passes_over_so_many_removed_objects_and_no_more() {
    let mut rig = Rig::new(Media::Mapped, Durability::Process);
    rig.put(oid(1), b"d", b"a", b"old").unwrap();
    let from = snapshot(&mut rig);
    for number in 1000..71_000 {
        rig.put(oid(number), b"d", b"a", b"short").unwrap();
        rig.punch(oid(number), PunchScope::Object, Cond::NONE).unwrap();
    }
    let to = snapshot(&mut rig);
    rig.aggregate();
    let (found, calls) = changes(&mut rig, from, to, 1000);
    assert_eq!(plain(found), [(oid(99).lo, Key::from_slice(b"mark"), ChangeKind::Modified)]);
    assert!(calls > 1, "{calls}");
}
