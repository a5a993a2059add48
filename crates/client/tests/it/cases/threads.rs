//! Several threads, one client each or one for all.

use super::common::{open, options};
use super::objects::object;
use dolmen_client::{
    At, Cond, ContName, Error, EventQueue, IoBuf, Key, NewValue, Object, ObjectType, Payload, Pool,
    UpdateIod, Wait,
};
use dolmen_env::{Rng, Secrets, scope};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const ACCOUNTS: u64 = 6;
const EACH: u64 = 100;

fn balance(object: &Object, at: At<'_>, account: u64) -> Result<u64, Error> {
    let mut buf = IoBuf::default();
    let len = object.get(at, &account.to_le_bytes(), b"n", &mut buf)?;
    Ok(len.map_or(0, |len| u64::from_le_bytes(buf[..len].try_into().unwrap())))
}

fn set(object: &Object, at: At<'_>, account: u64, sum: u64) -> Result<(), Error> {
    object.put(at, &account.to_le_bytes(), b"n", &sum.to_le_bytes()).map(|_| ())
}

/// Transfers between accounts on several targets, while others add all of them up: no sum is ever wrong.
#[test]
fn money_is_neither_made_nor_lost() {
    let (served, pool, cont) = open(3);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    cont.transact(|tx| (0..ACCOUNTS).try_for_each(|account| set(&object, At::Tx(tx), account, EACH)))
        .unwrap();
    let name = ContName::Uuid(cont.uuid());
    scope(|threads| {
        for number in 0..4 {
            let (served, name, oid) = (Arc::clone(&served), name.clone(), object.oid());
            threads.spawn(move || {
                let mut rng = Rng::from_seed(number);
                let mut own = options(&served);
                own.rng = rng.fork();
                own.secrets = Secrets::Repeatable(own.rng.clone());
                let cont = Pool::connect_with(served, own).unwrap().open_container(&name).unwrap();
                let object = cont.object(oid).unwrap();
                for _ in 0..25 {
                    let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
                    let done = cont.transact(|tx| {
                        let at = At::Tx(tx);
                        let sum: u64 =
                            (0..ACCOUNTS).map(|a| balance(&object, at, a)).sum::<Result<u64, Error>>()?;
                        assert_eq!(sum, ACCOUNTS * EACH);
                        let left = balance(&object, at, from)?;
                        set(&object, at, from, left - left.min(3))?;
                        let right = balance(&object, at, to)?;
                        set(&object, at, to, right + left.min(3))
                    });
                    // Under four threads that all touch everything, giving up is allowed; half a transfer is not.
                    assert!(
                        matches!(done, Ok(()) | Err(Error::TxRestart { .. } | Error::InDoubt { .. })),
                        "{done:?}"
                    );
                }
            });
        }
    });
    let sum: u64 = (0..ACCOUNTS).map(|account| balance(&object, At::Latest, account).unwrap()).sum();
    assert_eq!(sum, ACCOUNTS * EACH);
    drop(pool);
}

#[test]
fn handles_and_queues_are_shared_by_threads() {
    let (_, pool, cont) = open(2);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    let queue = EventQueue::new(&pool).unwrap();
    let completed = AtomicU32::new(0);
    scope(|threads| {
        for number in 0..3_u8 {
            let (object, queue, completed) = (object.clone(), queue.clone(), &completed);
            threads.spawn(move || {
                let mut events: Vec<_> = (0..20).map(|_| queue.event().unwrap()).collect();
                for (n, event) in events.iter_mut().enumerate() {
                    let dkey = [number, u8::try_from(n).unwrap()];
                    let value = NewValue::Single(Payload::Owned(IoBuf::copy_of(&dkey)));
                    let iod = UpdateIod { akey: Key::from_slice(b"a"), cond: Cond::NONE, value };
                    object.update_on(event, At::Latest, &dkey, Cond::NONE, vec![iod]).unwrap();
                }
                // Whoever polls gets whatever is finished; each waits for its own in the end.
                let mut ids = Vec::new();
                queue.poll(Wait::No, 5, &mut ids).unwrap();
                for event in &mut events {
                    assert!(event.wait().is_ok());
                    completed.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(completed.load(Ordering::Relaxed), 60);
    let mut buf = IoBuf::default();
    for number in 0..3_u8 {
        for n in 0..20_u8 {
            assert_eq!(object.get(At::Latest, &[number, n], b"a", &mut buf), Ok(Some(2)));
        }
    }
}
