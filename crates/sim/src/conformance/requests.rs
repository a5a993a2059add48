//! Repeated requests, deadlines, containers, usage, restarts.

use super::Case;
use super::harness::{At, Harness, oid, punch, single, update, want_records, want_single};
use dolmen_codec::Op;
use dolmen_codec::verb::{ContVerb, Mutation, Prepare, PunchScope, ReadAt, Reply, Verb};
use dolmen_types::{Cond, ContNo, Error, Head, Invalid, Key, Oid};
use smallvec::smallvec;

pub(super) const CASES: &[(&str, Case)] = &[
    ("repeated_update_returns_the_first_result", repeated_update_returns_the_first_result),
    ("repeats_are_known_after_a_restart", repeats_are_known_after_a_restart),
    ("sequence_zero_is_never_a_repeat", sequence_zero_is_never_a_repeat),
    ("failed_request_may_be_tried_again", failed_request_may_be_tried_again),
    ("repeated_transaction_commits_once", repeated_transaction_commits_once),
    ("clients_do_not_share_sequences", clients_do_not_share_sequences),
    ("users_do_not_share_clients", users_do_not_share_clients),
    ("another_request_under_the_same_id_is_refused", another_request_under_the_same_id_is_refused),
    ("request_before_the_oldest_does_nothing", request_before_the_oldest_does_nothing),
    ("late_first_request_runs", late_first_request_runs),
    ("passed_deadline_does_nothing", passed_deadline_does_nothing),
    ("containers_are_separate", containers_are_separate),
    ("container_create_and_destroy_are_idempotent", container_create_and_destroy_are_idempotent),
    ("destroyed_containers_stay_destroyed", destroyed_containers_stay_destroyed),
    ("usage_counts_what_is_stored", usage_counts_what_is_stored),
    ("acknowledged_writes_survive", acknowledged_writes_survive),
    ("many_operations_in_one_batch", many_operations_in_one_batch),
    ("fetch_returns_its_buffer_when_it_fails", fetch_returns_its_buffer_when_it_fails),
    ("parts_beyond_the_buffer_are_refused", parts_beyond_the_buffer_are_refused),
    ("checkpoint_and_flush_change_nothing", checkpoint_and_flush_change_nothing),
    ("audits_are_clean", audits_are_clean),
];

const A: At<'static> = At(Oid { hi: 0x0001_0001_0000_0000, lo: 8 }, b"dkey", b"akey");

fn put(at: At<'_>, bytes: &[u8]) -> Mutation<'static> {
    update(at.0, at.1, Cond::NONE, vec![single(at.2, bytes)])
}

/// S12: a mutation sent again has the first epoch, and is not done again.
fn repeated_update_returns_the_first_result(h: &mut Harness<'_>) {
    let (update_head, punch_head) = (h.request(1), h.request(2));
    let first = h.mutate_as(update_head, put(A, b"first")).expect("an update");
    let second = h.put(A, b"second");
    assert_eq!(h.mutate_as(update_head, put(A, b"first")), Ok(first));
    assert_eq!(h.single(A).as_deref(), Some(&b"second"[..]));
    let removal = || punch(A.0, PunchScope::Object, Cond::PUNCH);
    let removed = h.mutate_as(punch_head, removal()).expect("it exists");
    assert_eq!(h.mutate_as(punch_head, removal()), Ok(removed));
    h.put(A, b"third");
    assert_eq!(h.mutate_as(punch_head, removal()), Ok(removed));
    assert_eq!(h.single(A).as_deref(), Some(&b"third"[..]));
    assert!(second > first);
}

/// S12: also after a restart and a crash.
fn repeats_are_known_after_a_restart(h: &mut Harness<'_>) {
    let insert = || update(A.0, A.1, Cond::DKEY_INSERT, vec![single(A.2, b"x")]);
    let head = h.request(1);
    let first = h.mutate_as(head, insert()).expect("nothing is there");
    for sequence in 2..40 {
        let head = h.request(sequence);
        h.mutate_as(head, put(At(A.0, b"other", b"a"), b"x")).expect("an update");
    }
    for round in 0..4 {
        match round {
            0 => h.crash(),
            1 => h.restart(),
            2 => h.done(Verb::Checkpoint),
            _ => h.crash(),
        }
        assert_eq!(h.mutate_as(head, insert()), Ok(first), "round {round}");
    }
}

/// S12: sequence 0 asks for no retention.
fn sequence_zero_is_never_a_repeat(h: &mut Harness<'_>) {
    let head = h.request(0);
    let first = h.mutate_as(head, put(A, b"first")).expect("an update");
    let second = h.mutate_as(head, put(A, b"second")).expect("an update");
    assert!(second > first);
    assert_eq!(h.single(A).as_deref(), Some(&b"second"[..]));
}

/// S12: a request that failed was not executed; sent again it may succeed.
fn failed_request_may_be_tried_again(h: &mut Harness<'_>) {
    let change = || update(A.0, A.1, Cond::DKEY_UPDATE, vec![single(A.2, b"changed")]);
    let head = h.request(7);
    assert_eq!(h.mutate_as(head, change()), Err(Error::NotFound));
    h.put(A, b"there");
    let epoch = h.mutate_as(head, change()).expect("the dkey exists");
    assert_eq!(h.mutate_as(head, change()), Ok(epoch));
}

/// S12: a one-target transaction sent again is committed once.
fn repeated_transaction_commits_once(h: &mut Harness<'_>) {
    let (tx, head, own) = (h.begin(), h.request(3), h.target());
    let insert = || update(A.0, A.1, Cond::DKEY_INSERT, vec![single(A.2, b"x")]);
    let prepare = || Prepare {
        tx: tx.0,
        epoch: tx.1,
        leader: own,
        participants: smallvec![own],
        mutations: vec![insert()],
    };
    h.prepare_as(head, prepare()).expect("no conflict");
    h.prepare_as(head, prepare()).expect("a repeat");
    h.crash();
    h.prepare_as(head, prepare()).expect("a repeat");
    h.put(A, b"y");
    h.prepare_as(head, prepare()).expect("a repeat");
    assert_eq!(h.single(A).as_deref(), Some(&b"y"[..]));
}

/// S12: a request that its client has done with is refused, also after a restart.
fn request_before_the_oldest_does_nothing(h: &mut Harness<'_>) {
    let says = |mut head: Head, oldest| {
        head.oldest = oldest;
        head
    };
    let first = h.mutate_as(says(h.request(5), 5), put(A, b"first")).expect("an update");
    assert_eq!(h.mutate_as(says(h.request(4), 1), put(A, b"late")), Err(Error::TimedOut));
    assert_eq!(h.mutate_as(says(h.request(5), 5), put(A, b"first")), Ok(first));
    h.done(Verb::Checkpoint);
    h.crash();
    assert_eq!(h.mutate_as(says(h.request(4), 1), put(A, b"late")), Err(Error::TimedOut));
    assert_eq!(h.single(A).as_deref(), Some(&b"first"[..]));
}

/// S12: a first request runs although newer ones of its client have.
fn late_first_request_runs(h: &mut Harness<'_>) {
    let says = |mut head: Head, oldest| {
        head.oldest = oldest;
        head
    };
    for sequence in [2, 3, 4097] {
        h.mutate_as(says(h.request(sequence), 1), put(A, b"newer")).expect("an update");
    }
    h.mutate_as(says(h.request(1), 1), put(A, b"late")).expect("it never ran");
    assert_eq!(h.single(A).as_deref(), Some(&b"late"[..]));
}

/// S12: the same sequence number of another client is another request.
fn clients_do_not_share_sequences(h: &mut Harness<'_>) {
    let one = h.request(1);
    let mut two = one;
    two.id.client += 1;
    let first = h.mutate_as(one, put(A, b"one")).expect("an update");
    let second = h.mutate_as(two, put(A, b"two")).expect("an update");
    assert!(second > first);
    assert_eq!(h.single(A).as_deref(), Some(&b"two"[..]));
}

/// S12: nor does another user's of the same id, whatever he says of it.
fn users_do_not_share_clients(h: &mut Harness<'_>) {
    let mine = |h: &Harness<'_>, sequence| Head { oldest: 1, ..h.request(sequence) };
    let others = |h: &Harness<'_>, sequence, oldest| {
        let mut head = Head { oldest, ..h.request(sequence) };
        head.cred.uid += 1;
        head
    };
    let elsewhere = At(A.0, b"another dkey", b"akey");
    let first = h.mutate_as(mine(h, 1), put(A, b"one")).expect("an update");
    h.mutate_as(others(h, 1, 1), put(elsewhere, b"his")).expect("his own first request");
    h.mutate_as(others(h, 2, 1), put(elsewhere, b"his second")).expect("before this one's");
    let last = h.mutate_as(others(h, 1 << 62, 1 << 62), put(elsewhere, b"his last")).expect("far ahead");
    for round in 0..3 {
        assert_eq!(h.mutate_as(mine(h, 1), put(A, b"one")), Ok(first), "round {round}");
        let again = h.mutate_as(others(h, 1 << 62, 1 << 62), put(elsewhere, b"his last"));
        assert_eq!(again, Ok(last));
        if round == 0 { h.crash() } else { h.restart() }
    }
    h.mutate_as(mine(h, 2), put(A, b"two")).expect("an update");
    assert_eq!(h.single(A).as_deref(), Some(&b"two"[..]));
    assert_eq!(h.single(elsewhere).as_deref(), Some(&b"his last"[..]));
}

/// S12: something else under an id that was used is refused, and changes nothing.
fn another_request_under_the_same_id_is_refused(h: &mut Harness<'_>) {
    let refused = Err(Invalid::Argument.into());
    let head = Head { oldest: 1, ..h.request(1) };
    let large = vec![7; 50_000];
    let first = h.mutate_as(head, put(A, &large)).expect("an update");
    let punch_head = Head { oldest: 1, ..h.request(2) };
    let other_dkey = At(A.0, b"other", A.2);
    let other_akey = At(A.0, A.1, b"other");
    let mut changed = large.clone();
    changed[49_999] = 8;
    h.create(ContNo(2));
    for round in 0..4 {
        assert_eq!(h.mutate_as(head, put(A, &changed)), refused, "another value, round {round}");
        assert_eq!(h.mutate_as(head, put(A, &large[1..])), refused);
        assert_eq!(h.mutate_as(head, put(other_dkey, &large)), refused);
        assert_eq!(h.mutate_as(head, put(other_akey, &large)), refused);
        assert_eq!(h.mutate_as(head, put(At(oid(77), A.1, A.2), &large)), refused);
        assert_eq!(h.mutate_as(head, punch(A.0, PunchScope::Object, Cond::NONE)), refused);
        h.set_cont(ContNo(2));
        assert_eq!(h.mutate_as(head, put(A, &large)), refused, "another container");
        assert_eq!(h.single(A), None);
        h.set_cont(ContNo(1));
        assert_eq!(h.mutate_as(head, put(A, &large)), Ok(first));
        assert_eq!(h.single(A).as_deref(), Some(&large[..]));
        match round {
            0 => h.crash(),
            1 => h.restart(),
            _ => h.done(Verb::Checkpoint),
        }
    }
    let dkey = || PunchScope::Dkey(Key::from_slice(A.1));
    let removed = h.mutate_as(punch_head, punch(A.0, dkey(), Cond::NONE)).expect("a punch");
    h.crash();
    assert_eq!(h.mutate_as(punch_head, punch(A.0, PunchScope::Object, Cond::NONE)), refused);
    assert_eq!(h.mutate_as(punch_head, punch(A.0, dkey(), Cond::NONE)), Ok(removed));
}

/// S13: nothing is done after the deadline; before it all is.
fn passed_deadline_does_nothing(h: &mut Harness<'_>) {
    let passed = Head { deadline_ns: h.now_ns() - 1_000_000, ..Head::default() };
    let ahead = Head { deadline_ns: h.now_ns() + 1_000_000_000, ..Head::default() };
    assert_eq!(h.mutate_as(passed, put(A, b"late")), Err(Error::TimedOut));
    assert_eq!(h.single(A), None);
    h.mutate_as(ahead, put(A, b"in time")).expect("before its deadline");
    let (tx, own) = (h.begin(), h.target());
    let mutations = vec![put(A, b"late")];
    let prepare = Prepare { tx: tx.0, epoch: tx.1, leader: own, participants: smallvec![own], mutations };
    assert_eq!(h.prepare_as(passed, prepare), Err(Error::TimedOut));
    assert_eq!(h.single(A).as_deref(), Some(&b"in time"[..]));
}

/// Containers share nothing: data, snapshots, floors.
fn containers_are_separate(h: &mut Harness<'_>) {
    h.create(ContNo(2));
    h.put(A, b"one");
    h.set_cont(ContNo(2));
    assert_eq!(h.single(A), None);
    h.put(A, b"two");
    let snapshot = h.snapshot();
    h.punch_object(A.0);
    h.roll_back(snapshot);
    assert_eq!(h.single(A).as_deref(), Some(&b"two"[..]));
    h.punch_object(A.0);
    h.set_cont(ContNo(1));
    assert_eq!(h.single(A).as_deref(), Some(&b"one"[..]));
    assert_eq!(h.objects(10, ReadAt::Latest), [A.0]);
}

/// Creating what exists and destroying what does not is harmless.
fn container_create_and_destroy_are_idempotent(h: &mut Harness<'_>) {
    h.put(A, b"x");
    h.create(ContNo(1));
    assert_eq!(h.single(A).as_deref(), Some(&b"x"[..]));
    h.create(ContNo(5));
    for _ in 0..2 {
        h.set_cont(ContNo(5));
        h.done(Verb::Cont(ContVerb::Destroy));
    }
}

/// A destroyed container stays destroyed over restarts and background work.
fn destroyed_containers_stay_destroyed(h: &mut Harness<'_>) {
    h.create(ContNo(6));
    h.set_cont(ContNo(6));
    for number in 0..50_u64 {
        h.put(At(oid(number), b"d", b"a"), &[7; 5000]);
    }
    h.done(Verb::Cont(ContVerb::Destroy));
    for round in 0..3 {
        assert_eq!(
            h.try_single(At(oid(1), b"d", b"a"), ReadAt::Latest),
            Err(Error::NoContainer),
            "round {round}"
        );
        h.store().step();
        if round == 0 { h.crash() } else { h.restart() }
    }
    h.set_cont(ContNo(1));
    h.put(A, b"others work");
}

/// Usage counts the bytes of every stored version, hidden ones included.
fn usage_counts_what_is_stored(h: &mut Harness<'_>) {
    assert_eq!((h.usage().versions, h.usage().value_bytes), (0, 0));
    h.put(A, &[1; 100]);
    h.put(A, &[1; 30]);
    h.write(At(A.0, A.1, b"v"), 5, &[1; 7]);
    let usage = h.usage();
    assert_eq!((usage.versions, usage.value_bytes), (3, 137));
    h.restart();
    let usage = h.usage();
    assert_eq!((usage.versions, usage.value_bytes), (3, 137));
}

/// What was acknowledged is there after a restart and after a crash: values of all sizes, punches, containers.
fn acknowledged_writes_survive(h: &mut Harness<'_>) {
    let sizes = [1_usize, 100, 4096, 5000, 50_000];
    for round in 0..4_u8 {
        for (number, size) in (0_u8..).zip(sizes) {
            h.put(At(oid(1), &[number + 1], &[round + 1]), &vec![round + number + 1; size]);
            h.write(At(oid(2), &[number + 1], b"v"), u64::from(round) * 60_000, &vec![round + 1; size]);
        }
        h.punch_dkey(oid(1), &[round + 1]);
        match round {
            0 => h.crash(),
            1 => h.restart(),
            2 => h.done(Verb::Checkpoint),
            _ => h.crash(),
        }
    }
    for (number, size) in (0_u8..).zip(sizes) {
        for round in 0..4_u8 {
            let kept = number >= 4 || round > number;
            let value = h.single(At(oid(1), &[number + 1], &[round + 1]));
            assert_eq!(value, kept.then(|| vec![round + number + 1; size]), "dkey {number}, akey {round}");
            let text = h.text(At(oid(2), &[number + 1], b"v"), u64::from(round) * 60_000, size);
            assert!(text.bytes().all(|byte| byte == round + 1));
        }
    }
}

/// Operations submitted together all complete, each with its token; those under way do not wait for a poll.
fn many_operations_in_one_batch(h: &mut Harness<'_>) {
    let place = |number: u64| At(oid(number % 5), b"d", b"a");
    let mut ops: Vec<Op<'_>> = (0..200_u64)
        .map(|token| {
            let Mutation::Update(update) = put(place(token), &token.to_le_bytes()) else {
                unreachable!("an update")
            };
            Op { token, head: Head::default(), cont: ContNo(1), verb: Verb::Update(update) }
        })
        .collect();
    h.store().submit(&mut ops);
    assert!(ops.is_empty());
    let mut done = Vec::new();
    while done.len() < 200 {
        let before = done.len();
        h.store().poll(true, &mut done);
        assert!(done.len() > before, "poll does not wait for what is under way");
    }
    let mut epochs: Vec<_> = done
        .iter()
        .map(|completion| match completion.result {
            Ok(Reply::Written(epoch)) => (epoch, completion.token),
            ref other => panic!("expected an epoch, got {other:?}"),
        })
        .collect();
    epochs.sort_unstable();
    epochs.dedup_by_key(|item| item.0);
    assert_eq!(epochs.len(), 200, "each has an epoch of its own");
    for object in 0..5 {
        let newest = epochs.iter().rfind(|item| item.1 % 5 == object).expect("each object was written");
        assert_eq!(h.single(place(object)).as_deref(), Some(&newest.1.to_le_bytes()[..]));
    }
    let mut none = Vec::new();
    h.store().poll(true, &mut none);
    assert!(none.is_empty(), "poll does not wait when nothing is under way");
}

/// A fetch gives its buffer back whatever happens to it.
fn fetch_returns_its_buffer_when_it_fails(h: &mut Harness<'_>) {
    let failing = [(oid(1), &b""[..]), (Oid { hi: 200 << 56, lo: 0 }, &b"d"[..])];
    for (oid, dkey) in failing {
        let (result, buf) = h.fetch((oid, dkey), Cond::NONE, ReadAt::Latest, Vec::new(), 5000);
        assert!(result.is_err());
        assert_eq!(&buf[..4], b"....");
    }
    h.create(ContNo(77));
    h.set_cont(ContNo(77));
    h.done(Verb::Cont(ContVerb::Destroy));
    let (result, _) =
        h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, vec![super::harness::want_size(A.2)], 5000);
    assert_eq!(result, Err(Error::NoContainer));
}

/// A fetch asks for no more than its buffer holds, whatever the lengths of its parts add up to.
fn parts_beyond_the_buffer_are_refused(h: &mut Harness<'_>) {
    h.put(A, b"0123");
    let parts =
        [vec![6, 5], vec![4, usize::MAX - 1], vec![usize::MAX, 4], vec![usize::MAX, 1], vec![usize::MAX]];
    for parts in parts {
        let iods = parts.iter().map(|&room_bytes| want_single(A.2, room_bytes)).collect();
        let (result, buf) = h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, iods, 10);
        assert_eq!(result, Err(Invalid::Payload.into()), "{parts:?}");
        assert_eq!(buf.len(), 10);
    }
    let records = vec![want_single(A.2, 10), want_records(A.2, 1 << 20, &[(0, 1 << 44)])];
    let (result, _) = h.fetch((A.0, A.1), Cond::NONE, ReadAt::Latest, records, 10);
    assert_eq!(result, Err(Invalid::Payload.into()));
    assert_eq!(h.single(A).as_deref(), Some(&b"0123"[..]));
}

/// Flush, checkpoint and background steps are not seen in any answer.
fn checkpoint_and_flush_change_nothing(h: &mut Harness<'_>) {
    for round in 0..3_u8 {
        for number in 0..30_u8 {
            h.put(At(oid(1), &[number % 4 + 1], &[number + 1]), &[round; 20]);
            h.write(At(oid(1), b"v", b"v"), u64::from(number) * 3, &[b'a' + round; 5]);
        }
        let before = (h.text(At(oid(1), b"v", b"v"), 0, 100), h.single(At(oid(1), &[1], &[1])));
        match round {
            0 => h.done(Verb::Flush),
            1 => h.done(Verb::Checkpoint),
            _ => {
                h.store().step();
            }
        }
        assert_eq!((h.text(At(oid(1), b"v", b"v"), 0, 100), h.single(At(oid(1), &[1], &[1]))), before);
        assert_eq!(h.akeys(oid(1), &[2], ReadAt::Latest).len(), 8);
    }
}

/// Check and scrub find nothing wrong in a store that nothing has happened to.
fn audits_are_clean(h: &mut Harness<'_>) {
    for number in 0..20_u64 {
        h.put(At(oid(number % 3), b"d", &(number + 1).to_le_bytes()), &[5; 6000]);
        h.write(At(oid(number % 3), b"v", b"v"), number * 7, b"0123456789");
    }
    h.punch_dkey(oid(1), b"d");
    let tx = h.begin();
    h.prepare(tx, vec![put(A, b"undecided")]).expect("no conflict");
    for round in 0..3 {
        for verb in [Verb::Check, Verb::Scrub] {
            match h.ask(verb) {
                Ok(Reply::Audited(audit)) => assert_eq!(audit.findings, [], "round {round}"),
                other => panic!("expected an audit, got {other:?}"),
            }
        }
        if round == 0 { h.done(Verb::Checkpoint) } else { h.crash() }
    }
}
