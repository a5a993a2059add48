//! The service: containers and all that belongs to them.

use super::common::{Store, World, ask, by_label, epoch, get, get_at, label, make, make_with, put};
use dolmen_cluster::Pool;
use dolmen_codec::evictions::Evictions;
use dolmen_codec::pool::{ContInfo, ContName, OpenFor, PoolReply, PoolVerb, Snapshot, Whose};
use dolmen_codec::verb::{ContVerb, ReadAt, Verb};
use dolmen_codec::{Answer, Ask, Request, Transport};
use dolmen_env::scope;
use dolmen_types::{
    ContNo, Credentials, Epoch, Error, Head, Invalid, PropId, PropValue, Props, RequestId, TargetNo, Uuid,
};

fn info(pool: &Pool<Store>, no: ContNo) -> ContInfo {
    match ask(pool, PoolVerb::ContQuery(no)) {
        Ok(PoolReply::ContInfo(info)) => *info,
        other => panic!("{other:?}"),
    }
}

fn snapshots(pool: &Pool<Store>, no: ContNo) -> Vec<Snapshot> {
    match ask(pool, PoolVerb::SnapList(no)) {
        Ok(PoolReply::Snapshots(list)) => list,
        other => panic!("{other:?}"),
    }
}

fn labels(pool: &Pool<Store>) -> Vec<String> {
    match ask(pool, PoolVerb::ContList) {
        Ok(PoolReply::Conts(list)) => list.iter().map(|c| c.label.as_ref().unwrap().to_string()).collect(),
        other => panic!("{other:?}"),
    }
}

fn oids(pool: &Pool<Store>, no: ContNo, count: u64) -> Result<u64, Error> {
    match ask(pool, PoolVerb::AllocOids(no, count))? {
        PoolReply::Oids(first) => Ok(first),
        other => panic!("{other:?}"),
    }
}

/// When a container was opened and changed last.
fn times(pool: &Pool<Store>, no: ContNo) -> (Epoch, Epoch) {
    let props = info(pool, no).cont.props;
    let time = |id| match props.get(&id) {
        Some(PropValue::Number(epoch)) => Epoch(*epoch),
        other => panic!("{other:?}"),
    };
    (time(PropId::CO_OPENED), time(PropId::CO_CHANGED))
}

#[test]
fn a_container_tells_when_it_was_opened_and_when_it_was_changed_or_closed_last() {
    let world = World::new();
    let pool = world.create(2);
    let no = make(&pool, 1, "a").unwrap().no;
    let (opened, made) = times(&pool, no);
    assert_eq!(opened, Epoch::ZERO);
    assert!(made > Epoch::ZERO);
    ask(&pool, PoolVerb::ContOpen(by_label("a"), OpenFor::Any)).unwrap();
    let (opened, changed) = times(&pool, no);
    assert!(opened > made && changed == made);
    // Looking changes nothing, nor does taking object numbers.
    ask(&pool, PoolVerb::ContProps(no, Vec::new())).unwrap();
    oids(&pool, no, 10).unwrap();
    assert_eq!(times(&pool, no), (opened, made));
    ask(&pool, PoolVerb::ContClose(no)).unwrap();
    let (_, mut last) = times(&pool, no);
    assert!(last > opened);
    let snapshot = std::cell::Cell::new(Epoch::ZERO);
    let changes: [&dyn Fn(); 6] = [
        &|| {
            _ = ask(
                &pool,
                PoolVerb::ContSetProps(
                    no,
                    Props::from([(PropId::CO_LABEL, PropValue::Text("b".to_owned()))]),
                ),
            )
            .unwrap()
        },
        &|| _ = ask(&pool, PoolVerb::SetAttrs(Some(no), vec![("k".to_owned(), vec![1])])).unwrap(),
        &|| _ = ask(&pool, PoolVerb::RemoveAttrs(Some(no), vec!["k".to_owned()])).unwrap(),
        &|| snapshot.set(epoch(ask(&pool, PoolVerb::SnapCreate(no, None)))),
        &|| _ = ask(&pool, PoolVerb::Rollback(no, snapshot.get())).unwrap(),
        &|| _ = ask(&pool, PoolVerb::SnapDestroy(no, snapshot.get())).unwrap(),
    ];
    for change in changes {
        change();
        let (still, changed) = times(&pool, no);
        assert!(still == opened && changed > last);
        last = changed;
    }
    // What is refused changes nothing.
    assert!(ask(&pool, PoolVerb::RemoveAttrs(Some(no), vec!["k".to_owned()])).is_err());
    assert_eq!(times(&pool, no), (opened, last));
    // Both are on record with the change; one that was opened since is not.
    ask(&pool, PoolVerb::ContOpen(by_label("b"), OpenFor::Any)).unwrap();
    assert!(times(&pool, no).0 > last);
    let pool = world.reopen(pool);
    assert_eq!(times(&pool, no), (opened, last));
    // They are told in a list, too, and with no open container.
    let Ok(PoolReply::Conts(list)) = ask(&pool, PoolVerb::ContList) else { panic!("a list") };
    assert_eq!(list[0].props.get(&PropId::CO_CHANGED), Some(&PropValue::Number(last.0)));
    let Ok(PoolReply::Cont(handle)) = ask(&pool, PoolVerb::ContOpen(by_label("b"), OpenFor::Any)) else {
        panic!("open")
    };
    assert!(!handle.props.contains_key(&PropId::CO_CHANGED));
}

#[test]
fn labels_and_uuids_are_unique_and_free_again_after_destroying() {
    let world = World::new();
    let pool = world.create(2);
    let first = make(&pool, 1, "a").unwrap();
    assert_eq!(make(&pool, 1, "b").unwrap_err(), Error::Exists);
    assert_eq!(make(&pool, 2, "a").unwrap_err(), Error::Exists);
    let second = make(&pool, 2, "b").unwrap();
    assert_ne!(first.hash_key, second.hash_key);
    assert_eq!(labels(&pool), ["a", "b"]);

    let opened = ask(&pool, PoolVerb::ContOpen(ContName::Uuid(Uuid::from_u128(1)), OpenFor::Any)).unwrap();
    assert!(matches!(opened, PoolReply::Cont(handle) if handle == first));
    assert_eq!(info(&pool, first.no).handles, 1);
    assert_eq!(ask(&pool, PoolVerb::ContDestroy(by_label("a"), false)).unwrap_err(), Error::Busy);
    ask(&pool, PoolVerb::ContClose(first.no)).unwrap();
    assert_eq!(ask(&pool, PoolVerb::ContClose(first.no)).unwrap_err(), Invalid::Argument.into());
    ask(&pool, PoolVerb::ContDestroy(by_label("a"), false)).unwrap();
    assert_eq!(labels(&pool), ["b"]);
    assert_eq!(ask(&pool, PoolVerb::ContOpen(by_label("a"), OpenFor::Any)).unwrap_err(), Error::NotFound);
    assert_eq!(put(&pool, 0, first.no, 1, b"x"), Err(Error::NoContainer));

    ask(&pool, PoolVerb::ContOpen(by_label("b"), OpenFor::Any)).unwrap();
    ask(&pool, PoolVerb::ContDestroy(by_label("b"), true)).unwrap();
    ask(&pool, PoolVerb::ContClose(second.no)).unwrap();
    let again = make(&pool, 1, "a").unwrap();
    assert!(again.no > second.no, "numbers are not used twice");
}

/// Whether it can be opened now, for each of these.
fn can_open<const N: usize>(pool: &Pool<Store>, label: &str, all: [OpenFor; N]) -> [bool; N] {
    all.map(|wanted| match ask(pool, PoolVerb::ContOpen(by_label(label), wanted)) {
        Ok(PoolReply::Cont(cont)) => {
            ask(pool, PoolVerb::ContClose(cont.no)).unwrap();
            true
        }
        Err(Error::Busy) => false,
        other => panic!("{other:?}"),
    })
}

#[test]
fn who_has_a_container_alone_shares_it_only_with_whom_he_lets_join() {
    use OpenFor::{Alone, Any, Change, Evicting, Joining};
    let all = [Any, Change, Alone(8), Joining(8), Joining(7), Evicting];
    let pool = World::new().create(2);
    let cont = make(&pool, 1, "a").unwrap().no;
    make(&pool, 2, "other").unwrap();
    let open = |wanted| drop(ask(&pool, PoolVerb::ContOpen(by_label("a"), wanted)).unwrap());
    let close = || drop(ask(&pool, PoolVerb::ContClose(cont)).unwrap());
    // By nobody, and by others who are not alone.
    let free = [true, true, true, false, false, true];
    assert_eq!(can_open(&pool, "a", all), free, "with whom nobody has it alone, nobody joins");
    open(Any);
    assert_eq!(can_open(&pool, "a", all), [true, true, false, false, false, true]);
    close();
    // By one alone, and by one who knows his word and outlives him.
    let by_seven = [false, false, false, false, true, true];
    open(Alone(7));
    assert_eq!(can_open(&pool, "a", all), by_seven);
    assert_eq!(can_open(&pool, "other", all), free);
    open(Joining(7));
    close();
    assert_eq!(can_open(&pool, "a", all), by_seven);
    close();
    assert_eq!(can_open(&pool, "a", all), free, "an old word lets nobody in, beside others or alone");
    // The same is opened again with its word; one without a word is shared with nobody.
    open(Alone(7));
    open(Alone(7));
    assert_eq!(can_open(&pool, "a", all), by_seven);
    close();
    close();
    open(Alone(0));
    assert_eq!(can_open(&pool, "a", [Alone(0), Joining(0), Any, Evicting]), [false, false, false, true]);
    close();
    // Who evicts has nothing to himself.
    open(Evicting);
    assert_eq!(can_open(&pool, "a", all), [true, true, false, false, false, true]);
    close();
    assert_eq!(info(&pool, cont).handles, 0);
    open(Alone(7));
    ask(&pool, PoolVerb::ContDestroy(by_label("a"), true)).unwrap();
    make(&pool, 3, "a").unwrap();
    assert_eq!(can_open(&pool, "a", all), free);
}

#[test]
fn properties_are_kept_renamed_and_refused() {
    let world = World::new();
    let pool = world.create(2);
    let props = Props::from([
        (PropId::CO_LAYOUT_TYPE, PropValue::Number(1)),
        (PropId::CO_DURABILITY, PropValue::Number(1)),
        (PropId::CO_ROOTS, PropValue::Bytes(vec![7; 64])),
    ]);
    let cont = make_with(&pool, 1, "a", props).unwrap();
    assert_eq!(cont.props[&PropId::CO_LAYOUT_TYPE], PropValue::Number(1));
    assert_eq!(cont.props[&PropId::CO_LABEL], PropValue::Text("a".to_owned()));
    assert_eq!(cont.props[&PropId::CO_OWNER], PropValue::Text("0@".to_owned()));
    make(&pool, 2, "taken").unwrap();

    let rename = |to: &str| Props::from([(PropId::CO_LABEL, PropValue::Text(to.to_owned()))]);
    assert_eq!(ask(&pool, PoolVerb::ContSetProps(cont.no, rename("taken"))).unwrap_err(), Error::Exists);
    assert_eq!(
        ask(&pool, PoolVerb::ContSetProps(cont.no, rename("a b"))).unwrap_err(),
        Invalid::Label.into()
    );
    ask(&pool, PoolVerb::ContSetProps(cont.no, rename("b"))).unwrap();
    let fixed = Props::from([(PropId::CO_DURABILITY, PropValue::Number(0))]);
    let refused = ask(&pool, PoolVerb::ContSetProps(cont.no, fixed)).unwrap_err();
    assert_eq!(refused, Invalid::Property.into());
    assert_eq!(ask(&pool, PoolVerb::ContOpen(by_label("a"), OpenFor::Any)).unwrap_err(), Error::NotFound);
    ask(&pool, PoolVerb::ContOpen(by_label("b"), OpenFor::Any)).unwrap();

    let some = ask(&pool, PoolVerb::ContProps(cont.no, vec![PropId::CO_ROOTS, PropId::CO_CSUM])).unwrap();
    let expected = Props::from([
        (PropId::CO_ROOTS, PropValue::Bytes(vec![7; 64])),
        (PropId::CO_CSUM, PropValue::Number(0)),
    ]);
    assert!(matches!(some, PoolReply::Props(props) if props == expected));
    let unknown = ask(&pool, PoolVerb::ContProps(cont.no, vec![PropId(99)])).unwrap_err();
    assert_eq!(unknown, Invalid::Property.into());

    let by_prop = PoolVerb::ContCreate { uuid: Uuid::from_u128(3), label: None, props: rename("c") };
    assert!(matches!(ask(&pool, by_prop), Ok(PoolReply::Cont(cont)) if cont.label == Some(label("c"))));
    let nil = PoolVerb::ContCreate { uuid: Uuid::nil(), label: None, props: Props::new() };
    assert_eq!(ask(&pool, nil).unwrap_err(), Invalid::Argument.into());
}

#[test]
fn attributes_of_pool_and_container_are_apart() {
    let world = World::new();
    let pool = world.create(2);
    let no = make(&pool, 1, "a").unwrap().no;
    let set = |whose, name: &str, value: &[u8]| {
        ask(&pool, PoolVerb::SetAttrs(whose, vec![(name.to_owned(), value.to_vec())]))
    };
    let read = |pool: &Pool<Store>, whose, name: &str| match ask(pool, PoolVerb::Attr(whose, name.to_owned()))
    {
        Ok(PoolReply::Attr(value)) => Ok(value),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error),
    };
    set(Some(no), "k", b"container").unwrap();
    set(Some(no), "empty", b"").unwrap();
    set(None, "k", b"pool").unwrap();
    let large = vec![5; 100_000];
    set(None, "large", &large).unwrap();
    assert_eq!(read(&pool, Some(no), "k").unwrap(), b"container");
    assert_eq!(read(&pool, Some(no), "empty").unwrap(), b"");
    assert_eq!(read(&pool, None, "k").unwrap(), b"pool");
    assert_eq!(read(&pool, None, "none").unwrap_err(), Error::NotFound);
    assert_eq!(set(None, "", b"x").unwrap_err(), Invalid::Name.into());
    assert_eq!(set(None, &"n".repeat(512), b"x").unwrap_err(), Invalid::Name.into());
    assert_eq!(set(Some(ContNo(9)), "k", b"x").unwrap_err(), Error::NoContainer);

    let pool = world.reopen(pool);
    let names = ask(&pool, PoolVerb::AttrNames(Some(no))).unwrap();
    assert!(matches!(names, PoolReply::AttrNames(names) if names == ["empty", "k"]));
    assert_eq!(read(&pool, None, "large").unwrap(), large);
    ask(&pool, PoolVerb::RemoveAttrs(None, vec!["k".to_owned()])).unwrap();
    let gone = ask(&pool, PoolVerb::RemoveAttrs(None, vec!["k".to_owned()])).unwrap_err();
    assert_eq!(gone, Error::NotFound);
    let pool = world.reopen(pool);
    assert_eq!(read(&pool, None, "k").unwrap_err(), Error::NotFound);
    assert_eq!(read(&pool, Some(no), "k").unwrap(), b"container");
}

#[test]
fn a_snapshot_shows_one_moment_on_all_targets() {
    let world = World::new();
    let pool = world.create(3);
    let no = make(&pool, 1, "a").unwrap().no;
    for target in 0..3 {
        put(&pool, target, no, 1, b"old").unwrap();
    }
    let snap = epoch(ask(&pool, PoolVerb::SnapCreate(no, Some("daily".to_owned()))));
    for target in 0..3 {
        assert!(put(&pool, target, no, 1, b"new").unwrap() > snap);
    }
    ask(&pool, PoolVerb::Aggregate(no, Epoch::ZERO)).unwrap();
    for target in 0..3 {
        assert_eq!(get_at(&pool, target, no, 1, ReadAt::Epoch(snap)).unwrap(), b"old");
        assert_eq!(get(&pool, target, no, 1).unwrap(), b"new");
    }
    let taken = ask(&pool, PoolVerb::SnapCreate(no, Some("daily".to_owned()))).unwrap_err();
    assert_eq!(taken, Error::Exists);
    let unnamed = epoch(ask(&pool, PoolVerb::SnapCreate(no, None)));
    let pool = world.reopen(pool);
    let expected =
        [Snapshot { epoch: snap, name: Some("daily".to_owned()) }, Snapshot { epoch: unnamed, name: None }];
    assert_eq!(snapshots(&pool, no), expected);
    let about = info(&pool, no);
    assert_eq!((about.snapshots, about.last_snapshot), (2, unnamed));
    assert!(about.usage.versions >= 6, "{about:?}");
    ask(&pool, PoolVerb::SnapDestroy(no, snap)).unwrap();
    assert_eq!(ask(&pool, PoolVerb::SnapDestroy(no, snap)).unwrap_err(), Error::NotFound);
    assert_eq!(snapshots(&pool, no).len(), 1);
}

#[test]
fn what_is_written_after_an_answer_is_not_older_than_that_at_whatever_target() {
    // Its clock stands still: each target would count on by itself.
    let world = World::new();
    let mut pool = world.create(3);
    let no = make(&pool, 1, "a").unwrap().no;
    let mut last = Epoch::ZERO;
    for _ in 0..2 {
        for target in [0, 1, 2, 0, 0, 0, 1, 2, 1, 1, 0, 2] {
            let written = put(&pool, target, no, 1, b"it").unwrap();
            assert!(written >= last, "at target {target}");
            last = written;
        }
        // Where it is opened again, all go on at a ceiling far ahead.
        pool = world.reopen(pool);
    }
}

#[test]
fn a_rollback_returns_all_targets_to_a_snapshot() {
    let world = World::new();
    let pool = world.create(3);
    let no = make(&pool, 1, "a").unwrap().no;
    for target in 0..3 {
        put(&pool, target, no, 1, b"old").unwrap();
    }
    let snap = epoch(ask(&pool, PoolVerb::SnapCreate(no, None)));
    for target in 0..3 {
        put(&pool, target, no, 1, b"new").unwrap();
        put(&pool, target, no, 2, b"added").unwrap();
    }
    let unknown = ask(&pool, PoolVerb::Rollback(no, Epoch(5))).unwrap_err();
    assert_eq!(unknown, Error::NotFound);
    let at = epoch(ask(&pool, PoolVerb::Rollback(no, snap)));
    let pool = world.reopen(pool);
    for target in 0..3 {
        assert_eq!(get(&pool, target, no, 1).unwrap(), b"old");
        assert_eq!(get(&pool, target, no, 2).unwrap(), b"");
        assert!(put(&pool, target, no, 2, b"after").unwrap() > at);
        assert_eq!(get(&pool, target, no, 2).unwrap(), b"after");
    }
}

#[test]
fn a_snapshot_is_made_although_a_target_frees_what_the_first_epochs_show() {
    let world = World::new();
    let pool = world.create(2);
    let no = make(&pool, 1, "a").unwrap().no;
    for target in 0..2 {
        put(&pool, target, no, 1, b"old").unwrap();
    }
    world.director.free_before_snapshots(1, 3);
    let snap = epoch(ask(&pool, PoolVerb::SnapCreate(no, None)));
    for target in 0..2 {
        put(&pool, target, no, 1, b"new").unwrap();
    }
    ask(&pool, PoolVerb::Aggregate(no, Epoch::ZERO)).unwrap();
    let pool = world.reopen(pool);
    assert_eq!(snapshots(&pool, no), [Snapshot { epoch: snap, name: None }]);
    for target in 0..2 {
        assert_eq!(get_at(&pool, target, no, 1, ReadAt::Epoch(snap)).unwrap(), b"old");
    }
}

#[test]
fn a_snapshot_that_no_target_can_keep_leaves_nothing_behind() {
    let world = World::new();
    let pool = world.create(2);
    let no = make(&pool, 1, "a").unwrap().no;
    put(&pool, 0, no, 1, b"old").unwrap();
    world.director.free_before_snapshots(1, 1000);
    let refused = ask(&pool, PoolVerb::SnapCreate(no, Some("s".to_owned()))).unwrap_err();
    assert!(matches!(refused, Error::EpochGone { .. }), "{refused:?}");
    assert_eq!(snapshots(&pool, no), []);
    world.director.free_before_snapshots(1, 0);
    put(&pool, 0, no, 1, b"new").unwrap();
    ask(&pool, PoolVerb::Aggregate(no, Epoch::ZERO)).unwrap();
    let gone = get_at(&pool, 0, no, 1, ReadAt::Epoch(world.director.late_epoch()));
    assert!(matches!(gone, Err(Error::EpochGone { .. })), "who could keep it does so no more: {gone:?}");
    let pool = world.reopen(pool);
    assert_eq!(snapshots(&pool, no), []);
    epoch(ask(&pool, PoolVerb::SnapCreate(no, Some("s".to_owned()))));
    assert_eq!(get(&pool, 0, no, 1).unwrap(), b"new");
}

#[test]
fn a_container_whose_rollback_has_begun_is_closed_until_every_target_has_done_its_part() {
    let world = World::new();
    let pool = world.create(2);
    let no = make(&pool, 1, "a").unwrap().no;
    let other = make(&pool, 2, "b").unwrap().no;
    for target in 0..2 {
        put(&pool, target, no, 1, b"old").unwrap();
    }
    let snap = epoch(ask(&pool, PoolVerb::SnapCreate(no, None)));
    for target in 0..2 {
        put(&pool, target, no, 1, b"new").unwrap();
        put(&pool, target, other, 1, b"other").unwrap();
    }
    world.director.take_trace();
    epoch(ask(&pool, PoolVerb::Rollback(no, snap)));
    let operations = world.director.take_trace().len() as u64;
    // The last two: the rollback of the second target, and the record that all have done theirs.
    for target in 0..2 {
        put(&pool, target, no, 1, b"new").unwrap();
    }
    world.director.fail_after(Some(operations - 2));
    ask(&pool, PoolVerb::Rollback(no, snap)).unwrap_err();
    world.director.fail_after(None);
    assert_eq!(get(&pool, 0, no, 1).unwrap(), b"old");
    let waits = get(&pool, 1, no, 1);
    assert!(matches!(waits, Err(Error::InDoubt { .. })), "{waits:?}");
    assert_eq!(get(&pool, 1, other, 1).unwrap(), b"other");
    let later = world.reopen(pool);
    for target in 0..2 {
        assert_eq!(get(&later, target, no, 1).unwrap(), b"old");
    }
}

#[test]
fn object_numbers_are_never_given_twice() {
    let world = World::new();
    let pool = world.create(1);
    let no = make(&pool, 1, "a").unwrap().no;
    assert_eq!(oids(&pool, no, 10), Ok(1));
    assert_eq!(oids(&pool, no, 1), Ok(11));
    assert_eq!(oids(&pool, no, 1 << 20), Ok(12));
    assert_eq!(oids(&pool, no, 0), Err(Invalid::Count.into()));
    assert_eq!(oids(&pool, no, u64::MAX), Err(Invalid::Count.into()));
    let pool = world.reopen(pool);
    let first = oids(&pool, no, 1).unwrap();
    assert!(first >= 12 + (1 << 20), "{first}");
    assert_eq!(oids(&pool, no, 1), Ok(first + 1));
}

#[test]
fn reopened_state_is_exact() {
    let world = World::new();
    let pool = world.create(2);
    let a = make(&pool, 1, "a").unwrap();
    make_with(&pool, 2, "b", Props::from([(PropId::CO_LAYOUT_TYPE, PropValue::Number(1))])).unwrap();
    make(&pool, 3, "gone").unwrap();
    ask(&pool, PoolVerb::ContDestroy(by_label("gone"), false)).unwrap();
    ask(&pool, PoolVerb::SnapCreate(a.no, Some("s".to_owned()))).unwrap();
    ask(&pool, PoolVerb::SetAttrs(Some(a.no), vec![("k".to_owned(), b"v".to_vec())])).unwrap();
    let listed = |pool: &Pool<Store>| match ask(pool, PoolVerb::ContList) {
        Ok(PoolReply::Conts(list)) => list,
        other => panic!("{other:?}"),
    };
    let (before, snaps) = (listed(&pool), snapshots(&pool, a.no));
    let pool = world.reopen(pool);
    assert_eq!(listed(&pool), before);
    assert_eq!(snapshots(&pool, a.no), snaps);
    assert_eq!(info(&pool, a.no).handles, 0, "handles end with the process that held them");
    let fourth = make(&pool, 4, "d").unwrap();
    assert!(before.iter().all(|cont| cont.no < fourth.no));
}

#[test]
fn evictions_are_counted_by_user_and_stay_on_record() {
    let world = World::new();
    let pool = world.create(2);
    let no = make(&pool, 1, "a").unwrap().no;
    let opened = |pool: &Pool<Store>| match ask(pool, PoolVerb::ContOpen(by_label("a"), OpenFor::Any)) {
        Ok(PoolReply::Cont(handle)) => Evictions::of(&handle.props),
        other => panic!("{other:?}"),
    };
    assert_eq!(opened(&pool), Evictions::default());
    let evict = |pool: &Pool<Store>, uid, whose| {
        let head = Head { cred: Credentials { uid, gid: 0, project: 0 }, ..Head::default() };
        let verb = PoolVerb::ContEvict(no, whose);
        match pool.call(Request { token: 1, head, ask: Ask::Pool(verb) }).result {
            Ok(Answer::Pool(PoolReply::Cont(handle))) => Evictions::of(&handle.props),
            other => panic!("{other:?}"),
        }
    };
    evict(&pool, 7, Whose::Own);
    let told = evict(&pool, 7, Whose::All);
    assert_eq!((told.count(7), told.count(8)), (2, 1));
    assert_eq!(opened(&pool), told);
    // It is nothing that a client reads or sets.
    let all = ask(&pool, PoolVerb::ContProps(no, Vec::new()));
    assert!(matches!(all, Ok(PoolReply::Props(props)) if !props.contains_key(&PropId::CO_EVICTIONS)));
    let reset = Props::from([(PropId::CO_EVICTIONS, PropValue::Bytes(vec![0; 8]))]);
    let refused = ask(&pool, PoolVerb::ContSetProps(no, reset));
    assert_eq!(refused.unwrap_err(), Error::Invalid(Invalid::Property));
    assert_eq!(opened(&world.reopen(pool)), told);
    let pool = world.create(1);
    assert_eq!(ask(&pool, PoolVerb::ContEvict(no, Whose::All)).unwrap_err(), Error::NoContainer);
}

#[test]
fn the_clock_never_goes_back() {
    let world = World::new();
    let pool = world.create(2);
    let no = make(&pool, 1, "a").unwrap().no;
    world.clock.advance(3_600_000_000_000);
    put(&pool, 0, no, 1, b"x").unwrap();
    let written = put(&pool, 1, no, 1, b"x").unwrap();
    let begun = epoch(ask(&pool, PoolVerb::TxBegin));
    assert!(begun > written);
    world.clock.step_to(1_767_225_600_000_000_000);
    let pool = world.reopen(pool);
    let again = epoch(ask(&pool, PoolVerb::TxBegin));
    assert!(again > begun && again > written);
    let snap = epoch(ask(&pool, PoolVerb::SnapCreate(no, None)));
    assert!(put(&pool, 1, no, 1, b"later").unwrap() > snap);
    assert_eq!(get_at(&pool, 1, no, 1, ReadAt::Epoch(snap)).unwrap(), b"x");
}

#[test]
fn the_whole_pool_can_be_asked() {
    let world = World::new();
    let pool = world.create(3);
    let no = make(&pool, 1, "a").unwrap().no;
    put(&pool, 2, no, 1, b"x").unwrap();
    match ask(&pool, PoolVerb::Query).unwrap() {
        PoolReply::Pool(info) => assert_eq!((info.space.len(), info.cont_count), (3, 1)),
        other => panic!("{other:?}"),
    }
    match ask(&pool, PoolVerb::Check).unwrap() {
        PoolReply::Audits(audits) => {
            assert_eq!(audits.len(), 3);
            assert!(audits.iter().all(|audit| audit.findings.is_empty()), "{audits:?}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(info(&pool, no).usage.versions, 1);
    let late = Head { deadline_ns: 1, ..Head::default() };
    let request = Request { token: 1, head: late, ask: Ask::Pool(PoolVerb::Query) };
    assert!(matches!(pool.call(request).result, Err(Error::TimedOut)));
}

#[test]
fn clients_do_not_reach_behind_the_service() {
    let world = World::new();
    let pool = world.create(1);
    let no = make(&pool, 1, "a").unwrap().no;
    assert_eq!(put(&pool, 0, ContNo::SYSTEM, 1, b"x"), Err(Error::NoPermission));
    assert_eq!(get(&pool, 0, ContNo::SYSTEM, 1), Err(Error::NoPermission));
    let behind = Ask::Target(TargetNo(0), no, Verb::Cont(ContVerb::Destroy));
    let answer = pool.call(Request { token: 1, head: Head::default(), ask: behind });
    assert!(matches!(answer.result, Err(Error::NoPermission)));
    put(&pool, 0, no, 1, b"x").unwrap();
}

#[test]
fn of_two_containers_made_at_once_with_one_label_exactly_one_is() {
    let world = World::new();
    let pool = world.create(2);
    for round in 0..50_u128 {
        let name = format!("c{round}");
        let made: Vec<_> = scope(|scope| {
            let making: Vec<_> = (0..4)
                .map(|thread| {
                    let (pool, name) = (&pool, &name);
                    scope.spawn(move || make(pool, 1 + round * 4 + thread, name))
                })
                .collect();
            making.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(made.iter().filter(|result| result.is_ok()).count(), 1, "{made:?}");
        assert!(made.iter().all(|result| matches!(result, Ok(_) | Err(Error::Exists))), "{made:?}");
    }
}

/// Asks under an id of a client.
fn ask_as(pool: &Pool<Store>, sequence: u64, verb: PoolVerb<'_>) -> Result<PoolReply, Error> {
    let head = Head { id: RequestId { client: 77, sequence }, ..Head::default() };
    match pool.call(Request { token: 1, head, ask: Ask::Pool(verb) }).result? {
        Answer::Pool(reply) => Ok(reply),
        Answer::Target(other) => panic!("{other:?}"),
    }
}

fn creation(uuid: u128, text: &str) -> PoolVerb<'static> {
    PoolVerb::ContCreate { uuid: Uuid::from_u128(uuid), label: Some(label(text)), props: Props::new() }
}

#[test]
fn a_change_that_is_asked_for_again_is_made_once_and_answered_as_the_first_time() {
    let world = World::new();
    let pool = world.create(2);
    let made = ask_as(&pool, 1, creation(1, "a")).unwrap();
    let again = ask_as(&pool, 1, creation(1, "a")).unwrap();
    let (PoolReply::Cont(made), PoolReply::Cont(again)) = (made, again) else { panic!("other answers") };
    assert_eq!(made, again);
    assert_eq!(ask_as(&pool, 2, creation(1, "a")).unwrap_err(), Error::Exists, "another request");
    let no = made.no;

    let first = epoch(ask_as(&pool, 3, PoolVerb::SnapCreate(no, Some("daily".to_owned()))));
    assert_eq!(epoch(ask_as(&pool, 3, PoolVerb::SnapCreate(no, Some("daily".to_owned())))), first);
    let other = ask_as(&pool, 4, PoolVerb::SnapCreate(no, Some("daily".to_owned())));
    assert_eq!(other.unwrap_err(), Error::Exists);
    assert_eq!(snapshots(&pool, no).len(), 1);

    let range = |sequence| match ask_as(&pool, sequence, PoolVerb::AllocOids(no, 10)) {
        Ok(PoolReply::Oids(first)) => first,
        other => panic!("{other:?}"),
    };
    assert_eq!(range(5), range(5));
    assert_ne!(range(5), range(6));

    let change = |sequence| match sequence {
        7 => PoolVerb::SetAttrs(Some(no), vec![("k".to_owned(), b"v".to_vec())]),
        8 => PoolVerb::RemoveAttrs(Some(no), vec!["k".to_owned()]),
        9 => PoolVerb::SnapDestroy(no, first),
        _ => PoolVerb::ContDestroy(by_label("a"), true),
    };
    for sequence in 7..=10 {
        for turn in 0..2 {
            let answer = ask_as(&pool, sequence, change(sequence));
            assert!(matches!(answer, Ok(PoolReply::Done)), "{sequence}, {turn}: {answer:?}");
        }
    }
    assert_eq!(ask_as(&pool, 11, PoolVerb::ContDestroy(by_label("a"), true)).unwrap_err(), Error::NotFound);
}

#[test]
fn who_has_made_a_container_or_a_snapshot_is_known_after_a_restart() {
    let world = World::new();
    let pool = world.create(2);
    let Ok(PoolReply::Cont(made)) = ask_as(&pool, 1, creation(1, "a")) else { panic!("another answer") };
    let named = || PoolVerb::SnapCreate(made.no, Some("daily".to_owned()));
    let first = epoch(ask_as(&pool, 2, named()));
    let unnamed = epoch(ask_as(&pool, 3, PoolVerb::SnapCreate(made.no, None)));
    let pool = world.reopen(pool);
    assert!(matches!(ask_as(&pool, 1, creation(1, "a")), Ok(PoolReply::Cont(again)) if again == made));
    assert_eq!(epoch(ask_as(&pool, 2, named())), first);
    assert_eq!(epoch(ask_as(&pool, 3, PoolVerb::SnapCreate(made.no, None))), unnamed);
    assert_eq!(ask_as(&pool, 4, creation(1, "a")).unwrap_err(), Error::Exists);
    assert_eq!(ask_as(&pool, 5, named()).unwrap_err(), Error::Exists);
    assert_eq!(snapshots(&pool, made.no).len(), 2);
    ask_as(&pool, 6, PoolVerb::SnapDestroy(made.no, first)).unwrap();
    let pool = world.reopen(pool);
    assert_eq!(epoch(ask_as(&pool, 2, named())), first, "what is gone was made");
    assert_eq!(snapshots(&pool, made.no).len(), 1);
}
