//! Changes of the service that are asked for again, after others have changed the same and the pool was opened anew.

use super::common::{Store, World, ask, by_label, epoch, get, label, make, put};
use dolmen_cluster::Pool;
use dolmen_codec::acl::{Acl, Entry};
use dolmen_codec::evictions::Evictions;
use dolmen_codec::pool::{ContName, OpenFor, PoolReply, PoolVerb, Whose};
use dolmen_codec::{Answer, Ask, Request, Transport};
use dolmen_types::limits::IODS_MAX;
use dolmen_types::{
    ContNo, Credentials, Epoch, Error, Head, Invalid, PropId, PropValue, Props, RequestId, TargetNo, Uuid,
};

const TARGETS: u16 = 3;
const UID: u32 = 1000;

/// What every case begins with: container `a` with a snapshot, values written after it and the attribute `k`, and `b`.
struct Stage {
    no: ContNo,
    snap: Epoch,
}

impl Stage {
    fn set(pool: &Pool<Store>) -> Self {
        let no = make(pool, 1, "a").unwrap().no;
        make(pool, 2, "b").unwrap();
        write(pool, no, b"old");
        let snap = epoch(ask(pool, PoolVerb::SnapCreate(no, Some("s".to_owned()))));
        write(pool, no, b"new");
        ask(pool, attr(Some(no), b"old")).unwrap();
        ask(pool, attr(None, b"old")).unwrap();
        Self { no, snap }
    }
}

fn write(pool: &Pool<Store>, no: ContNo, value: &[u8]) {
    for target in 0..TARGETS {
        put(pool, target, no, 1, value).unwrap();
    }
}

fn attr(whose: Option<ContNo>, value: &[u8]) -> PoolVerb<'static> {
    PoolVerb::SetAttrs(whose, vec![("k".to_owned(), value.to_vec())])
}

fn has_attr(pool: &Pool<Store>, whose: Option<ContNo>, value: &[u8]) -> bool {
    matches!(ask(pool, PoolVerb::Attr(whose, "k".to_owned())), Ok(PoolReply::Attr(found)) if found == value)
}

fn text(id: PropId, value: &str) -> Props {
    Props::from([(id, PropValue::Text(value.to_owned()))])
}

fn creation(uuid: u128, name: &str) -> PoolVerb<'static> {
    PoolVerb::ContCreate { uuid: Uuid::from_u128(uuid), label: Some(label(name)), props: Props::new() }
}

/// The UUID of the container of a label.
fn named(pool: &Pool<Store>, name: &str) -> Option<u128> {
    match ask(pool, PoolVerb::ContList).unwrap() {
        PoolReply::Conts(all) => {
            all.iter().find(|cont| cont.label == Some(label(name))).map(|c| c.uuid.as_u128())
        }
        other => panic!("{other:?}"),
    }
}

fn has_snapshot(pool: &Pool<Store>, no: ContNo, name: &str) -> bool {
    match ask(pool, PoolVerb::SnapList(no)).unwrap() {
        PoolReply::Snapshots(all) => all.iter().any(|snap| snap.name.as_deref() == Some(name)),
        other => panic!("{other:?}"),
    }
}

/// How often a user has lost handles on `b`.
fn evictions(pool: &Pool<Store>) -> u64 {
    let opened = ask(pool, PoolVerb::ContOpen(by_label("b"), OpenFor::Any));
    let Ok(PoolReply::Cont(handle)) = opened else { panic!("{opened:?}") };
    ask(pool, PoolVerb::ContClose(handle.no)).unwrap();
    Evictions::of(&handle.props).count(UID)
}

/// A change, what another client does after it, and whether that is as he left it.
struct Case {
    name: &'static str,
    change: fn(&Stage) -> PoolVerb<'static>,
    other: fn(&Pool<Store>, &Stage),
    is_intact: fn(&Pool<Store>, &Stage) -> bool,
}

/// A case of one change and one after it that takes it back or goes over it.
fn case(
    name: &'static str,
    change: fn(&Stage) -> PoolVerb<'static>,
    other: fn(&Pool<Store>, &Stage),
    is_intact: fn(&Pool<Store>, &Stage) -> bool,
) -> Case {
    Case { name, change, other, is_intact }
}

fn cases_of_containers() -> Vec<Case> {
    vec![
        case(
            "a rollback",
            |on| PoolVerb::Rollback(on.no, on.snap),
            |pool, on| write(pool, on.no, b"other"),
            |pool, on| (0..TARGETS).all(|target| get(pool, target, on.no, 1) == Ok(b"other".to_vec())),
        ),
        case(
            "a snapshot",
            |on| PoolVerb::SnapCreate(on.no, Some("t".to_owned())),
            |pool, on| {
                let Ok(PoolReply::Snapshots(all)) = ask(pool, PoolVerb::SnapList(on.no)) else {
                    panic!("none")
                };
                ask(pool, PoolVerb::SnapDestroy(on.no, all[1].epoch)).unwrap();
            },
            |pool, on| !has_snapshot(pool, on.no, "t"),
        ),
        case(
            "the end of a snapshot",
            |on| PoolVerb::SnapDestroy(on.no, on.snap),
            |pool, on| drop(ask(pool, PoolVerb::SnapCreate(on.no, Some("s".to_owned()))).unwrap()),
            |pool, on| has_snapshot(pool, on.no, "s"),
        ),
        case(
            "a container that is destroyed",
            |_| creation(3, "c"),
            |pool, _| drop(ask(pool, PoolVerb::ContDestroy(by_label("c"), true)).unwrap()),
            |pool, _| named(pool, "c").is_none(),
        ),
        case(
            "a container that is renamed",
            |_| creation(3, "c"),
            |pool, _| {
                let opened = ask(pool, PoolVerb::ContOpen(by_label("c"), OpenFor::Any));
                let Ok(PoolReply::Cont(made)) = opened else { panic!("{opened:?}") };
                ask(pool, PoolVerb::ContSetProps(made.no, text(PropId::CO_LABEL, "d"))).unwrap();
            },
            |pool, _| named(pool, "d") == Some(3) && named(pool, "c").is_none(),
        ),
        case(
            "the end of a container",
            |_| PoolVerb::ContDestroy(by_label("b"), true),
            |pool, _| drop(ask(pool, creation(3, "b")).unwrap()),
            |pool, _| named(pool, "b") == Some(3),
        ),
    ]
}

fn cases_of_records() -> Vec<Case> {
    vec![
        case(
            "an attribute",
            |on| attr(Some(on.no), b"mine"),
            |pool, on| drop(ask(pool, attr(Some(on.no), b"other")).unwrap()),
            |pool, on| has_attr(pool, Some(on.no), b"other"),
        ),
        case(
            "an attribute of the pool",
            |_| attr(None, b"mine"),
            |pool, _| drop(ask(pool, attr(None, b"other")).unwrap()),
            |pool, _| has_attr(pool, None, b"other"),
        ),
        case(
            "an attribute of a container that is destroyed",
            |on| attr(Some(on.no), b"mine"),
            |pool, _| drop(ask(pool, PoolVerb::ContDestroy(by_label("a"), true)).unwrap()),
            |pool, _| named(pool, "a").is_none(),
        ),
        case(
            "the end of an attribute",
            |on| PoolVerb::RemoveAttrs(Some(on.no), vec!["k".to_owned()]),
            |pool, on| drop(ask(pool, attr(Some(on.no), b"other")).unwrap()),
            |pool, on| has_attr(pool, Some(on.no), b"other"),
        ),
        case(
            "the end of an attribute of the pool",
            |_| PoolVerb::RemoveAttrs(None, vec!["k".to_owned()]),
            |pool, _| drop(ask(pool, attr(None, b"other")).unwrap()),
            |pool, _| has_attr(pool, None, b"other"),
        ),
        case(
            "the pool's owner",
            |_| PoolVerb::SetProps(text(PropId::PO_OWNER, "ann@")),
            |pool, _| drop(ask(pool, PoolVerb::SetProps(text(PropId::PO_OWNER, "ben@"))).unwrap()),
            |pool, _| {
                let owner = PropValue::Text("ben@".to_owned());
                matches!(ask(pool, PoolVerb::Props), Ok(PoolReply::Props(all)) if all[&PropId::PO_OWNER] == owner)
            },
        ),
        case(
            "a label",
            |on| PoolVerb::ContSetProps(on.no, text(PropId::CO_LABEL, "mine")),
            |pool, on| {
                ask(pool, PoolVerb::ContSetProps(on.no, text(PropId::CO_LABEL, "other"))).unwrap();
            },
            |pool, _| named(pool, "other") == Some(1),
        ),
        case(
            "an eviction",
            |on| PoolVerb::ContEvict(ContNo(on.no.0 + 1), Whose::All),
            |pool, on| {
                ask(pool, PoolVerb::ContEvict(ContNo(on.no.0 + 1), Whose::All)).unwrap();
            },
            |pool, _| evictions(pool) == 2,
        ),
        case(
            "object numbers",
            |on| PoolVerb::AllocOids(on.no, 7),
            |pool, on| drop(ask(pool, PoolVerb::AllocOids(on.no, 7)).unwrap()),
            |pool, on| matches!(ask(pool, PoolVerb::AllocOids(on.no, 1)), Ok(PoolReply::Oids(next)) if next >= 15),
        ),
    ]
}

fn all_cases() -> impl Iterator<Item = Case> {
    cases_of_containers().into_iter().chain(cases_of_records())
}

fn by(client: u128, sequence: u64, oldest: u64) -> Head {
    let cred = Credentials { uid: UID, gid: 0, project: 0 };
    Head { id: RequestId { client, sequence }, oldest, cred, ..Head::default() }
}

fn ask_by(pool: &Pool<Store>, head: Head, verb: PoolVerb<'_>) -> Result<String, Error> {
    match pool.call(Request { token: 1, head, ask: Ask::Pool(verb) }).result? {
        Answer::Pool(reply) => Ok(format!("{reply:?}")),
        Answer::Target(other) => panic!("{other:?}"),
    }
}

fn assert_sound(pool: &Pool<Store>, name: &str) {
    match ask(pool, PoolVerb::Check).unwrap() {
        PoolReply::Audits(audits) => {
            assert!(audits.iter().all(|a| a.findings.is_empty()), "{name}: {audits:?}")
        }
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_repetition_after_a_restart_has_the_first_answer_and_leaves_what_others_have_changed_since() {
    for Case { name, change, other, is_intact } in all_cases() {
        let world = World::new();
        let mut pool = world.create(TARGETS);
        let on = Stage::set(&pool);
        let head = by(77, 5, 5);
        let first = ask_by(&pool, head, change(&on)).unwrap();
        other(&pool, &on);
        for opened in 0..3 {
            assert_eq!(ask_by(&pool, head, change(&on)), Ok(first.clone()), "{name}, opened {opened} times");
            assert!(is_intact(&pool, &on), "{name}, opened {opened} times");
            pool = world.reopen(pool);
        }
        assert_sound(&pool, name);
    }
}

/// The change of a case, cut short after so many operations and then, repeated, after `second` more.
fn cut_short(case: &Case, (first, second): (u64, u64)) -> bool {
    let Case { name, change, other, is_intact } = case;
    let (world, head) = (World::new(), by(77, 5, 5));
    let pool = world.create(TARGETS);
    let on = Stage::set(&pool);
    world.director.fail_after(Some(first));
    let told = ask_by(&pool, head, change(&on));
    let pool = world.reopen(pool);
    world.director.fail_after(Some(second));
    let again = ask_by(&pool, head, change(&on));
    let pool = world.reopen(pool);
    let at = format!("{name}, cut after {first} and {second} operations");
    let last = ask_by(&pool, head, change(&on));
    assert!(last.is_ok(), "{at}: {last:?}");
    for earlier in [&told, &again] {
        assert!(earlier.is_err() || *earlier == last, "{at}: {earlier:?}, then {last:?}");
    }
    other(&pool, &on);
    let pool = world.reopen(pool);
    assert_eq!(ask_by(&pool, head, change(&on)), last, "{at}");
    assert!(is_intact(&pool, &on), "{at}");
    assert_sound(&pool, &at);
    told.is_ok()
}

#[test]
fn a_change_that_is_cut_short_anywhere_is_made_once_however_often_it_is_asked_for() {
    for case in all_cases() {
        let is_whole = |first| [0, 1, 2, 4, 8, 100].iter().all(|&second| cut_short(&case, (first, second)));
        assert!((0..60).any(is_whole), "{}: it never succeeds", case.name);
    }
}

#[test]
fn a_rollback_that_a_crash_has_cut_short_and_opening_completes_is_not_made_again() {
    let (world, head) = (World::new(), by(77, 5, 5));
    let pool = world.create(TARGETS);
    let on = Stage::set(&pool);
    // All but the last: that it is done is not on record.
    world.director.take_trace();
    ask_by(&pool, by(77, 4, 4), PoolVerb::Rollback(on.no, on.snap)).unwrap();
    let operations = world.director.take_trace().len() as u64;
    write(&pool, on.no, b"new");
    world.director.fail_after(Some(operations - 1));
    ask_by(&pool, head, PoolVerb::Rollback(on.no, on.snap)).unwrap_err();
    let pool = world.reopen(pool);
    assert_eq!(get(&pool, 0, on.no, 1), Ok(b"old".to_vec()), "opening has completed it");
    write(&pool, on.no, b"other");
    let first = ask_by(&pool, head, PoolVerb::Rollback(on.no, on.snap)).unwrap();
    let pool = world.reopen(pool);
    assert_eq!(ask_by(&pool, head, PoolVerb::Rollback(on.no, on.snap)), Ok(first));
    for target in 0..TARGETS {
        assert_eq!(get(&pool, target, on.no, 1), Ok(b"other".to_vec()));
    }
}

#[test]
fn a_rollback_that_has_begun_is_completed_before_who_asks_again_is_told() {
    for left in 1..100 {
        let (world, head) = (World::new(), by(77, 5, 5));
        let pool = world.create(TARGETS);
        let on = Stage::set(&pool);
        world.director.fail_after(Some(left));
        let first = ask_by(&pool, head, PoolVerb::Rollback(on.no, on.snap));
        world.director.fail_after(None);
        let again = ask_by(&pool, head, PoolVerb::Rollback(on.no, on.snap)).unwrap();
        for target in 0..TARGETS {
            assert_eq!(get(&pool, target, on.no, 1), Ok(b"old".to_vec()), "cut after {left} operations");
        }
        if let Ok(first) = first {
            assert_eq!(first, again);
            return;
        }
    }
    panic!("it never succeeds");
}

#[test]
fn an_answer_is_told_to_whom_it_was_given_and_to_nobody_else() {
    let world = World::new();
    let pool = world.create(2);
    let head = by(77, 5, 5);
    let made = ask_by(&pool, head, creation(1, "a")).unwrap();
    let mut other = head;
    other.cred.uid = UID + 1;
    let pool = world.reopen(pool);
    assert_eq!(ask_by(&pool, other, creation(1, "a")), Err(Error::Exists), "another user's request");
    assert_eq!(ask_by(&pool, by(78, 5, 5), creation(1, "a")), Err(Error::Exists), "another client's request");
    assert_eq!(ask_by(&pool, head, creation(1, "a")), Ok(made));
}

#[test]
fn as_many_attributes_as_a_request_may_have_are_set_and_removed_with_the_answer_on_record() {
    let world = World::new();
    let mut pool = world.create(1);
    let no = make(&pool, 1, "a").unwrap().no;
    let names: Vec<String> = (0..IODS_MAX).map(|number| format!("k{number}")).collect();
    let attrs = |value: &[u8]| names.iter().map(|name| (name.clone(), value.to_vec())).collect();
    for (whose, client) in [(Some(no), 77), (None, 78)] {
        let set = || PoolVerb::SetAttrs(whose, attrs(b"mine"));
        ask_by(&pool, by(client, 1, 1), set()).unwrap();
        ask(&pool, PoolVerb::SetAttrs(whose, attrs(b"other"))).unwrap();
        pool = world.reopen(pool);
        ask_by(&pool, by(client, 1, 1), set()).unwrap();
        let found = ask(&pool, PoolVerb::Attr(whose, names[IODS_MAX - 1].clone()));
        assert!(matches!(found, Ok(PoolReply::Attr(value)) if value == b"other"), "set again");
        let remove = || PoolVerb::RemoveAttrs(whose, names.clone());
        ask_by(&pool, by(client, 2, 2), remove()).unwrap();
        pool = world.reopen(pool);
        ask_by(&pool, by(client, 2, 2), remove()).unwrap();
        let more = (0..=IODS_MAX).map(|number| (number.to_string(), vec![1])).collect();
        let refused = ask_by(&pool, by(client, 3, 3), PoolVerb::SetAttrs(whose, more));
        assert_eq!(refused, Err(Invalid::Count.into()));
    }
}

#[test]
fn what_a_client_has_done_with_does_not_run_again_and_takes_no_room() {
    let world = World::new();
    let pool = world.create(1);
    let no = make(&pool, 1, "a").unwrap().no;
    world.director.take_trace();
    for sequence in 1..=500 {
        ask_by(&pool, by(77, sequence, sequence), attr(Some(no), b"mine")).unwrap();
    }
    // One update each, as without ids: the answer goes with the change.
    assert_eq!(world.director.take_trace(), vec![(TargetNo(0), "update"); 500]);
    ask(&pool, attr(Some(no), b"other")).unwrap();
    assert_eq!(ask_by(&pool, by(77, 499, 499), attr(Some(no), b"mine")), Err(Error::TimedOut));
    assert!(has_attr(&pool, Some(no), b"other"));
    let pool = world.reopen(pool);
    world.director.take_trace();
    let pool = world.reopen(pool);
    let fetches = world.director.take_trace().iter().filter(|(_, name)| *name == "fetch").count();
    assert!(fetches < 10, "500 answers are not 500 records: {fetches}");
    ask_by(&pool, by(77, 500, 500), attr(Some(no), b"mine")).unwrap();
    assert!(has_attr(&pool, Some(no), b"other"));
}

#[test]
fn answers_that_are_waited_for_are_kept_over_many_others() {
    let world = World::new();
    let pool = world.create(1);
    let made = ask_by(&pool, by(76, 1, 1), creation(1, "a")).unwrap();
    let no = match ask(&pool, PoolVerb::ContList) {
        Ok(PoolReply::Conts(all)) => all[0].no,
        other => panic!("{other:?}"),
    };
    let snap = ask_by(&pool, by(76, 2, 1), PoolVerb::SnapCreate(no, None)).unwrap();
    ask_by(&pool, by(77, 1, 1), attr(Some(no), b"mine")).unwrap();
    ask(&pool, attr(Some(no), b"other")).unwrap();
    for client in 0..4000 {
        ask_by(&pool, by(1000 + client, 1, 1), attr(None, b"k")).unwrap();
    }
    let pool = world.reopen(pool);
    ask_by(&pool, by(77, 1, 1), attr(Some(no), b"mine")).unwrap();
    assert!(has_attr(&pool, Some(no), b"other"));
    // Too many for all to be kept; who has made what is there is known all the same.
    for client in 4000..4200 {
        ask_by(&pool, by(1000 + client, 1, 1), attr(None, b"k")).unwrap();
    }
    let pool = world.reopen(pool);
    assert_eq!(ask_by(&pool, by(76, 1, 1), creation(1, "a")), Ok(made));
    assert_eq!(ask_by(&pool, by(76, 2, 1), PoolVerb::SnapCreate(no, None)), Ok(snap));
    ask_by(&pool, by(77, 1, 1), attr(Some(no), b"other")).unwrap();
    let uuid = ContName::Uuid(Uuid::from_u128(1));
    ask_by(&pool, by(77, 2, 1), PoolVerb::ContDestroy(uuid.clone(), true)).unwrap();
    let pool = world.reopen(pool);
    ask_by(&pool, by(77, 1, 1), attr(Some(no), b"mine")).unwrap();
    ask_by(&pool, by(77, 2, 1), PoolVerb::ContDestroy(uuid, true)).unwrap();
}

#[test]
fn what_one_user_asks_for_in_the_name_of_anothers_client_takes_nothing_from_him() {
    let world = World::new();
    let pool = world.create(1);
    let no = make(&pool, 1, "a").unwrap().no;
    ask_by(&pool, by(77, 5, 5), attr(Some(no), b"mine")).unwrap();
    let forged = |sequence| {
        let mut head = by(77, sequence, sequence);
        head.cred.uid = UID + 1;
        head
    };
    // Ahead of all that he will ever ask for, and just what he asks for next.
    ask_by(&pool, forged(u64::MAX), attr(Some(no), b"other")).unwrap();
    ask_by(&pool, forged(6), attr(Some(no), b"other")).unwrap_err();
    ask_by(&pool, by(77, 5, 5), attr(Some(no), b"mine")).unwrap();
    assert!(has_attr(&pool, Some(no), b"other"), "his answer was forgotten, and the change made again");
    ask_by(&pool, by(77, 6, 5), attr(Some(no), b"mine")).unwrap();
    assert!(has_attr(&pool, Some(no), b"mine"));
    // More than are kept of all, and each of another client.
    for client in 0..4200 {
        let mut head = by(1000 + client, 1, 1);
        head.cred.uid = UID + 1;
        ask_by(&pool, head, attr(None, b"k")).unwrap();
    }
    ask(&pool, attr(Some(no), b"other")).unwrap();
    let pool = world.reopen(pool);
    ask_by(&pool, by(77, 5, 5), attr(Some(no), b"mine")).unwrap();
    ask_by(&pool, by(77, 6, 5), attr(Some(no), b"mine")).unwrap();
    assert!(has_attr(&pool, Some(no), b"other"), "his answers are kept");
}

/// Records that opening reads.
fn read_at_opening(world: &World, pool: Pool<Store>) -> (Pool<Store>, usize) {
    world.director.take_trace();
    let pool = world.reopen(pool);
    let fetches = world.director.take_trace().iter().filter(|(_, name)| *name == "fetch").count();
    (pool, fetches)
}

#[test]
fn records_of_forgotten_answers_go_with_later_changes_and_opening_reads_few() {
    let world = World::new();
    let pool = world.create(1);
    let no = make(&pool, 1, "a").unwrap().no;
    // All waited for at once, then none of them.
    (1..=400).for_each(|sequence| drop(ask_by(&pool, by(77, sequence, 1), attr(Some(no), b"mine")).unwrap()));
    let (pool, fetches) = read_at_opening(&world, pool);
    assert!(fetches >= 400, "{fetches}");
    for sequence in 401..=460 {
        ask_by(&pool, by(77, sequence, sequence), attr(Some(no), b"mine")).unwrap();
    }
    let (pool, fetches) = read_at_opening(&world, pool);
    assert!(fetches < 20, "one of 460 is waited for: {fetches}");
    ask(&pool, attr(Some(no), b"other")).unwrap();
    ask_by(&pool, by(77, 460, 460), attr(Some(no), b"mine")).unwrap();
    assert!(has_attr(&pool, Some(no), b"other"));
    assert_sound(&pool, "after it");
}

#[test]
fn opening_reads_a_bounded_number_of_answers_however_many_containers_had_some() {
    let world = World::new();
    let pool = world.create(1);
    let conts: Vec<ContNo> =
        (1..=3).map(|number| make(&pool, number, &format!("c{number}")).unwrap().no).collect();
    let mut sequence = 0;
    for &no in &conts {
        for _ in 0..3000 {
            sequence += 1;
            ask_by(&pool, by(77, sequence, 1), PoolVerb::AllocOids(no, 1)).unwrap();
        }
    }
    // Nobody changes the first two any more.
    for _ in 0..100 {
        sequence += 1;
        ask_by(&pool, by(77, sequence, sequence), PoolVerb::AllocOids(conts[2], 1)).unwrap();
    }
    let (pool, fetches) = read_at_opening(&world, pool);
    assert!(fetches < 4200, "of 9000: {fetches}");
    assert_sound(&pool, "after it");
}

/// A list that is as long as may be, nearly.
fn long_list() -> Props {
    let entry = |number: u32| Entry::parse(&format!("A::a-user-of-a-long-name-{number}@:rw")).unwrap();
    let list = Acl::new((0..1000).map(entry)).unwrap().encode();
    assert!((30_000..65_536).contains(&list.len()), "{}", list.len());
    Props::from([(PropId::CO_ACL, PropValue::Bytes(list))])
}

#[test]
fn a_container_of_a_long_list_is_destroyed_on_a_target_without_room_and_its_answers_are_known() {
    let world = World::new();
    let pool = world.create(1);
    let creation =
        || PoolVerb::ContCreate { uuid: Uuid::from_u128(1), label: Some(label("a")), props: long_list() };
    let made = ask_by(&pool, by(77, 1, 1), creation()).unwrap();
    let no = match ask(&pool, PoolVerb::ContOpen(by_label("a"), OpenFor::Any)) {
        Ok(PoolReply::Cont(handle)) => handle.no,
        other => panic!("{other:?}"),
    };
    assert_eq!(ask_by(&pool, by(77, 1, 1), creation()), Ok(made), "with its list");
    let evict = || PoolVerb::ContEvict(no, Whose::All);
    (2..=70).for_each(|sequence| drop(ask_by(&pool, by(77, sequence, 1), evict()).unwrap()));
    let large = vec![7; 1 << 20];
    // A model has room for all of it.
    let full = (0..70).find(|&dkey| put(&pool, 0, no, dkey, &large).is_err());
    let small =
        (0..).take_while(|&dkey| full.is_some() && put(&pool, 0, no, 1000 + dkey, &large[..9000]).is_ok());
    let _filled = small.count();
    let destroy = || PoolVerb::ContDestroy(by_label("a"), true);
    ask_by(&pool, by(77, 71, 1), destroy()).unwrap();
    let pool = world.reopen(pool);
    assert_eq!(named(&pool, "a"), None);
    ask_by(&pool, by(77, 70, 1), evict()).unwrap();
    ask_by(&pool, by(77, 71, 1), destroy()).unwrap();
}

#[test]
fn answers_for_which_there_is_no_room_keep_no_container_from_being_destroyed() {
    let needed_bytes = 1 << 20;
    let target = TargetNo(0);
    for error in [Error::NoSpace { target, needed_bytes }, Error::RecTooBig { needed_bytes }] {
        let world = World::new();
        let pool = world.create(TARGETS);
        Stage::set(&pool);
        let head = by(77, 5, 5);
        world.director.refuse_answers(Some(error));
        ask_by(&pool, head, PoolVerb::ContDestroy(by_label("a"), true)).unwrap();
        world.director.refuse_answers(None);
        let pool = world.reopen(pool);
        assert_eq!(named(&pool, "a"), None);
        assert_eq!(ask_by(&pool, head, PoolVerb::ContDestroy(by_label("a"), true)), Err(Error::NotFound));
        ask_by(&pool, by(77, 6, 6), creation(1, "a")).unwrap();
        assert_sound(&pool, "after it");
    }
}
