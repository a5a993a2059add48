use super::*;

fn item(name: &str) -> Item {
    in_dkey("d", name)
}

fn in_dkey(dkey: &str, name: &str) -> Item {
    let oid = Oid { hi: 0, lo: 1 };
    Item { oid, dkey: Key::from_slice(dkey.as_bytes()), akey: Key::from_slice(name.as_bytes()) }
}

fn saw(name: &str, id: u64) -> Read {
    Read::Value(item(name), (id > 0).then_some(id))
}

fn put(name: &str, id: u64) -> Write {
    Write::Put(item(name), id)
}

fn keys(names: &[&str]) -> BTreeSet<Key> {
    names.iter().map(|name| Key::from_slice(name.as_bytes())).collect()
}

fn akeys(names: &[&str]) -> Read {
    Read::Akeys(item("").oid, item("").dkey, keys(names))
}

/// All begin before any ends, so that only what they read and wrote orders them.
fn tx(epoch: u64, reads: Vec<Read>, writes: Vec<Write>) -> Committed {
    Committed { epoch: Epoch(epoch), begin_ns: 0, end_ns: u64::MAX, reads, writes }
}

#[track_caller]
fn assert_cycle(history: &[Committed]) {
    assert!(matches!(check_graph(history), Err(Anomaly::Cycle(_))), "{:?}", check_graph(history));
    assert!(check_replay(history).is_err());
}

#[test]
fn serial_histories_are_accepted() {
    assert_eq!(check(&[]), Ok(()));
    let history = [
        tx(1, vec![saw("x", 0), akeys(&[])], vec![put("x", 1), put("y", 2)]),
        tx(2, vec![saw("x", 1)], vec![put("x", 3)]),
        tx(3, vec![saw("x", 3), saw("y", 2), akeys(&["x", "y"])], vec![Write::Remove(item("y"))]),
        tx(4, vec![saw("y", 0), akeys(&["x"]), Read::Exists(item("y"), false)], vec![put("y", 4)]),
        tx(5, vec![Read::Dkeys(item("").oid, keys(&["d"]))], vec![Write::RemoveObject(item("").oid)]),
        tx(6, vec![Read::Dkeys(item("").oid, keys(&[])), saw("x", 0)], vec![]),
    ];
    assert_eq!(check(&history), Ok(()));
}

#[test]
fn order_of_the_list_does_not_count() {
    let mut history = vec![
        tx(3, vec![saw("x", 3), saw("y", 0)], vec![put("y", 9)]),
        tx(1, vec![saw("x", 0)], vec![put("x", 1)]),
        tx(2, vec![saw("x", 1)], vec![put("x", 3)]),
    ];
    assert_eq!(check(&history), Ok(()));
    history.rotate_left(1);
    assert_eq!(check(&history), Ok(()));
}

#[test]
fn lost_update_is_rejected() {
    assert_cycle(&[
        tx(1, vec![], vec![put("x", 1)]),
        tx(2, vec![saw("x", 1)], vec![put("x", 2)]),
        tx(3, vec![saw("x", 1)], vec![put("x", 3)]),
    ]);
}

#[test]
fn write_skew_is_rejected() {
    assert_cycle(&[
        tx(1, vec![], vec![put("x", 1), put("y", 2)]),
        tx(2, vec![saw("x", 1), saw("y", 2)], vec![put("x", 3)]),
        tx(3, vec![saw("x", 1), saw("y", 2)], vec![put("y", 4)]),
    ]);
}

#[test]
fn write_skew_of_things_missing_is_rejected() {
    assert_cycle(&[
        tx(2, vec![Read::Exists(item("y"), false)], vec![put("x", 3)]),
        tx(3, vec![Read::Exists(item("x"), false)], vec![put("y", 4)]),
    ]);
}

#[test]
fn phantom_is_rejected() {
    assert_cycle(&[
        tx(1, vec![], vec![put("x", 1)]),
        tx(2, vec![akeys(&["x"])], vec![Write::Put(in_dkey("sum", "of x"), 2)]),
        tx(3, vec![Read::Value(in_dkey("sum", "of x"), None)], vec![put("y", 3)]),
        tx(4, vec![Read::Value(in_dkey("sum", "of x"), Some(2)), akeys(&["x"])], vec![]),
        tx(5, vec![saw("y", 3), Read::Value(in_dkey("sum", "of x"), None)], vec![]),
    ]);
}

#[test]
fn phantoms_of_two_inserters_are_rejected() {
    assert_cycle(&[tx(2, vec![akeys(&[])], vec![put("x", 1)]), tx(3, vec![akeys(&[])], vec![put("y", 2)])]);
}

#[test]
fn phantom_dkeys_are_rejected() {
    let dkeys = || Read::Dkeys(item("").oid, keys(&[]));
    assert_cycle(&[
        tx(2, vec![dkeys()], vec![Write::Put(in_dkey("one", "a"), 1)]),
        tx(3, vec![dkeys()], vec![Write::Put(in_dkey("two", "a"), 2)]),
    ]);
}

#[test]
fn long_fork_is_rejected() {
    assert_cycle(&[
        tx(1, vec![], vec![put("x", 1)]),
        tx(2, vec![], vec![put("y", 2)]),
        tx(3, vec![saw("x", 1), saw("y", 0)], vec![]),
        tx(4, vec![saw("x", 0), saw("y", 2)], vec![]),
    ]);
}

#[test]
fn fractured_read_is_rejected() {
    assert_cycle(&[
        tx(1, vec![], vec![put("x", 1), put("y", 2)]),
        tx(2, vec![saw("x", 1), saw("y", 0)], vec![]),
    ]);
}

#[test]
fn punch_that_was_half_seen_is_rejected() {
    assert_cycle(&[
        tx(1, vec![], vec![put("x", 1), put("y", 2)]),
        tx(2, vec![], vec![Write::RemoveDkey(item("").oid, item("").dkey)]),
        tx(3, vec![saw("x", 0), saw("y", 2)], vec![]),
    ]);
}

#[test]
fn read_of_an_aborted_write_is_rejected() {
    let history = [tx(1, vec![saw("x", 7)], vec![])];
    assert_eq!(check_graph(&history), Err(Anomaly::Unwritten { reader: 0, write: 7 }));
    assert_eq!(check_replay(&history), Err(Anomaly::Replay { reader: 0, read: 0 }));
}

#[test]
fn read_of_an_intermediate_write_is_rejected() {
    let history = [tx(1, vec![], vec![put("x", 1), put("x", 2)]), tx(2, vec![saw("x", 1)], vec![])];
    assert_eq!(check_graph(&history), Err(Anomaly::Intermediate { reader: 1, write: 1 }));
    assert!(check_replay(&history).is_err());
}

#[test]
fn circular_flow_of_information_is_rejected() {
    assert_cycle(&[tx(1, vec![saw("y", 2)], vec![put("x", 1)]), tx(2, vec![saw("x", 1)], vec![put("y", 2)])]);
}

#[test]
fn stale_read_after_the_end_is_rejected() {
    let mut history = [tx(1, vec![], vec![put("x", 1)]), tx(2, vec![saw("x", 0)], vec![])];
    (history[0].begin_ns, history[0].end_ns) = (0, 10);
    assert!(check_graph(&history).is_ok(), "concurrent, it may come first");
    (history[1].begin_ns, history[1].end_ns) = (20, 30);
    assert_cycle(&history);
}

#[test]
fn same_id_twice_is_ambiguous() {
    let history = [tx(1, vec![], vec![put("x", 1)]), tx(2, vec![], vec![put("y", 1)])];
    assert_eq!(check_graph(&history), Err(Anomaly::Ambiguous { tx: 1 }));
}

#[test]
fn same_epoch_twice_is_ambiguous_only_for_one_item() {
    let history = [tx(1, vec![], vec![put("x", 1)]), tx(1, vec![], vec![put("y", 2)])];
    assert_eq!(check(&history), Ok(()));
    let history = [tx(1, vec![], vec![put("x", 1)]), tx(1, vec![], vec![put("x", 2)])];
    assert_eq!(check(&history), Err(Anomaly::Ambiguous { tx: 1 }));
}

#[test]
fn states_that_come_again_are_told_apart_by_epochs() {
    let history = [
        tx(1, vec![Read::Exists(item("x"), false)], vec![put("x", 1)]),
        tx(2, vec![Read::Exists(item("x"), true)], vec![Write::Remove(item("x"))]),
        tx(3, vec![Read::Exists(item("x"), false), akeys(&[])], vec![put("x", 2)]),
        tx(4, vec![Read::Exists(item("x"), true)], vec![put("x", 3)]),
        tx(5, vec![akeys(&["x"]), saw("x", 3)], vec![]),
    ];
    assert_eq!(check(&history), Ok(()));
}

#[test]
fn an_object_that_is_not_listed_has_nothing() {
    let objects = |there: bool| Read::Objects(there.then(|| item("").oid).into_iter().collect());
    let serial = [
        tx(1, vec![objects(false)], vec![put("x", 1)]),
        tx(2, vec![objects(true)], vec![Write::RemoveObject(item("").oid)]),
        tx(3, vec![objects(false)], vec![]),
    ];
    assert_eq!(check(&serial), Ok(()));
    // Each has listed before the other wrote.
    let skew =
        [tx(1, vec![objects(false)], vec![put("x", 1)]), tx(2, vec![objects(false)], vec![put("y", 2)])];
    assert!(check_replay(&skew).is_err());
    assert_eq!(
        check_replay(&[tx(1, vec![objects(true)], vec![])]),
        Err(Anomaly::Replay { reader: 0, read: 0 })
    );
}
