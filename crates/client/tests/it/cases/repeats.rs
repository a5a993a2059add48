//! Repeated requests: stale maps, undecided transactions, ids, deadlines.

use super::common::{START_NS, new_container, open, options, serve};
use super::objects::object;
use crate::watched::Watched;
use dolmen_client::{
    At, Credentials, Epoch, Error, EventQueue, IoBuf, ObjectType, Options, Pool, Wait, Way, side_by_side,
};
use dolmen_env::Rng;
use dolmen_types::{TxId, uuid_of_random};
use std::sync::Arc;

#[test]
fn a_stale_map_is_fetched_anew_and_the_request_repeated() {
    let (served, pool, cont) = open(2);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    served.set_map_version(9);
    object.put(At::Latest, b"d", b"a", b"v").unwrap();
    let mut buf = IoBuf::default();
    assert_eq!(object.get(At::Latest, b"d", b"a", &mut buf), Ok(Some(1)));
    assert_eq!(pool.query().unwrap().map.version, 9);
    let heads = served.heads();
    let writes: Vec<_> = heads.iter().filter(|h| h.id.sequence != 0).map(|h| h.id).collect();
    // Create, open, an id range, and the update twice under one id.
    assert_eq!(writes[writes.len() - 1], writes[writes.len() - 2]);
    assert_eq!(heads.last().unwrap().map_version, 9);
}

#[test]
fn a_round_asks_for_a_new_map_once_and_goes_on_with_it() {
    const COUNT: u8 = 40;
    let (served, _, cont) = open(2);
    let count = usize::from(COUNT);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    for n in 0..COUNT {
        object.put(At::Latest, &[n], b"a", &[1]).unwrap();
    }
    let read_all = || {
        let before = served.heads().len();
        let reads = (0..COUNT).map(async |n| {
            let (dkey, mut buf) = ([n], IoBuf::default());
            object.get_by(Way::Later, At::Latest, &dkey, b"a", &mut buf).await
        });
        (cont.together(side_by_side(reads)), served.heads().split_off(before))
    };
    served.set_map_version(9);
    let (values, heads) = read_all();
    assert_eq!(values, vec![Ok(Some(1)); count]);
    let versions: Vec<u32> = heads.iter().map(|head| head.map_version).collect();
    assert_eq!(versions, [vec![1; count + 1], vec![9; count]].concat());
    // Without an answer to that nobody goes on.
    served.set_map_version(10);
    served.lose_answers(1);
    let (values, heads) = read_all();
    assert_eq!((values, heads.len()), (vec![Err(Error::TimedOut); count], count + 1));
}

#[test]
fn a_map_that_stays_stale_is_an_error_after_a_while() {
    let (served, _, cont) = open(2);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    served.fail_next((0..20).map(|_| Error::StaleMap { version: 1 }));
    assert_eq!(object.put(At::Latest, b"d", b"a", b"v"), Err(Error::StaleMap { version: 1 }));
}

#[test]
fn an_undecided_transaction_is_waited_for() {
    let (served, _, cont) = open(1);
    let object = object(&cont, ObjectType::MultiHashed, "S1");
    let tx = TxId { client: 1, begin: Epoch(2) };
    served.fail_next((0..10).map(|_| Error::InDoubt { tx }));
    assert!(object.put(At::Latest, b"d", b"a", b"v").is_ok());
    served.fail_next((0..1000).map(|_| Error::InDoubt { tx }));
    assert_eq!(object.put(At::Latest, b"d", b"a", b"v"), Err(Error::InDoubt { tx }));
}

#[test]
fn a_fetch_gives_its_buffer_back_when_it_fails() {
    let (served, _, cont) = open(1);
    let object = object(&cont, ObjectType::MultiHashed, "S1");
    let mut buf = IoBuf::copy_of(b"mine");
    served.fail_next([Error::Busy]);
    let read = object.read(At::Latest, b"d", b"a", 1, dolmen_client::Recx::new(0, 4), &mut buf);
    assert_eq!((read, &buf[..]), (Err(Error::Busy), &b"mine"[..]));
}

#[test]
fn every_request_carries_who_asks_and_until_when() {
    let served = serve(1);
    let cred = Credentials { uid: 5, gid: 6, project: 7 };
    let options = Options { cred, job: 77, tenant: 8, timeout_ns: 1_000_000_000, ..options(&served) };
    let transport: Arc<Watched> = Arc::clone(&served);
    let pool = Pool::connect_with(transport, options).unwrap();
    let cont = new_container(&pool);
    object(&cont, ObjectType::MultiHashed, "S1").put(At::Latest, b"d", b"a", b"v").unwrap();
    let heads = served.heads();
    assert!(heads.len() > 3);
    for head in heads {
        assert_eq!((head.cred, head.job, head.tenant), (cred, 77, 8));
        assert!(head.deadline_ns > START_NS + 900_000_000);
    }
}

#[test]
fn the_id_of_a_client_and_uuids_follow_from_nothing_that_is_told() {
    let mut drawn = Vec::new();
    for _ in 0..2 {
        let served = serve(1);
        let transport: Arc<Watched> = Arc::clone(&served);
        // All that is the same of two clients, and the state of the generator that one sees at work.
        let options =
            Options { secrets: Options::new(Credentials::default()).unwrap().secrets, ..options(&served) };
        let pool = Pool::connect_with(transport, options).unwrap();
        let uuids = [(); 2].map(|()| new_container(&pool).uuid().as_u128());
        drawn.extend(uuids.into_iter().chain([served.heads()[0].id.client]));
    }
    let mut rng = Rng::from_seed(7);
    drawn.extend((0..8).map(|_| rng.next_u128()));
    drawn.extend((0..8).map(|_| uuid_of_random(rng.next_u128()).as_u128()));
    let count = drawn.len();
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len(), count);
}

#[test]
fn mutations_have_ids_of_their_own() {
    let (served, _, cont) = open(1);
    let object = object(&cont, ObjectType::MultiHashed, "S1");
    for n in 0..50_u8 {
        object.put(At::Latest, &[1, n], b"a", b"v").unwrap();
    }
    let mut ids: Vec<_> = served.heads().iter().map(|h| h.id).collect();
    ids.retain(|id| id.sequence != 0);
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
    assert!(count >= 50);
}

#[test]
fn a_change_by_the_service_is_said_to_be_under_way_until_it_is_answered_and_holds_up_no_target() {
    let (served, pool, cont) = open(1);
    let object = object(&cont, ObjectType::MultiHashed, "S1");
    let queue = EventQueue::new(&pool).unwrap();
    let mut event = queue.event().unwrap();
    let last = || *served.heads().last().unwrap();
    let set = |value: &[u8]| {
        cont.set_attrs(&[("k".to_owned(), value.to_vec())]).unwrap();
        last()
    };
    cont.create_snapshot_on(&mut event, Some("s")).unwrap();
    let snapshot = last();
    assert_eq!(snapshot.oldest, snapshot.id.sequence);
    assert_eq!(set(b"1").oldest, snapshot.id.sequence, "it may be sent again");
    object.put(At::Latest, b"d", b"a", b"v").unwrap();
    let put = last();
    assert_eq!(put.oldest, put.id.sequence, "targets have nothing to do with it");
    let mut done = Vec::new();
    while queue.running() > 0 {
        queue.poll(Wait::Forever, 1, &mut done).unwrap();
    }
    event.take_result().unwrap().unwrap();
    let after = set(b"2");
    assert_eq!(after.oldest, after.id.sequence);
}
