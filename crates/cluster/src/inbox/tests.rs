use super::*;

const TARGET: TargetNo = TargetNo(0);

fn answer() -> Finished<'static> {
    let completion = Completion { token: 1, result: Ok(dolmen_codec::verb::Reply::Done), buf: None };
    Finished { completion, again: None }
}

/// A queue with so many operations under way, as a destination.
fn queue(under_way: u32) -> (Arc<Outbox>, Dest) {
    let outbox = Arc::new(Outbox::new(1));
    (0..under_way).for_each(|_| outbox.begin(TARGET));
    (Arc::clone(&outbox), Dest::Queue(outbox))
}

#[test]
fn threads_at_one_queue_are_waiters_of_their_own() {
    let shared = Shared::default();
    let (_outbox, dest) = queue(2);
    let first = shared.add_waiter(dest.clone());
    let second = shared.add_waiter(dest.clone());
    assert!(shared.remove_waiter(first));
    assert!(!shared.remove_waiter(first), "it is listed once");
    assert_eq!(shared.waiter_count(), 1);
    shared.hand_over();
    assert_eq!(dest.calls(), 1, "the other one is called");
    assert!(!shared.remove_waiter(second), "who was called is not listed any more");
}

#[test]
fn who_takes_the_answers_of_a_queue_calls_the_others() {
    let shared = Shared::default();
    let (outbox, dest) = queue(1);
    let calls = dest.calls();
    let waiter = shared.add_waiter(dest.clone());
    assert!(dest.awaits(TARGET));
    dest.clone().deliver(TARGET, answer());
    shared.hand_over();
    assert_eq!((shared.waiter_count(), dest.calls()), (0, calls), "the answer has woken it");
    let mut taken = Vec::new();
    outbox.take(&mut taken);
    assert_eq!(taken.len(), 1);
    assert_ne!(dest.calls(), calls, "the answer is gone before it has looked");
    assert!(!dest.awaits(TARGET));
    assert!(!shared.remove_waiter(waiter));
}

#[test]
fn the_first_without_an_answer_is_called() {
    let shared = Shared::default();
    let (_outbox, answered) = queue(1);
    let dests: Vec<_> = (0..3).map(|_| Dest::Ticket(Arc::default())).collect();
    shared.add_waiter(answered.clone());
    let ids: Vec<_> = dests.iter().map(|dest| shared.add_waiter(dest.clone())).collect();
    answered.deliver(TARGET, answer());
    assert!(shared.remove_waiter(ids[0]));
    shared.hand_over();
    assert_eq!(dests.iter().map(Dest::calls).collect::<Vec<_>>(), [0, 1, 0]);
    assert_eq!(shared.waiter_count(), 1);
}
