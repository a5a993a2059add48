use super::*;
use crate::verb::{Payload, Punch, Update, UpdateIod};
use dolmen_types::{Cond, Epoch, Key, ObjectClass, ObjectType, Oid, Recx, RequestId};
use smallvec::smallvec;

const fn bytes(bytes: u64) -> Charge {
    Charge { bytes, files: 0 }
}

const fn files(files: u64) -> Charge {
    Charge { bytes: 0, files }
}

fn of(uid: u32, charge: Charge) -> ByUser {
    let mut all = ByUser::default();
    all.add(uid, charge);
    all
}

fn limits(bytes: u64, files: u64) -> Quota {
    Quota { limits: Limits { bytes, files }, users: BTreeMap::new() }
}

#[test]
fn contents_count_bytes_and_records_of_names_count_files() {
    let of = |dkey: &str, akey: &str, index, value_bytes| {
        charge_of(dkey.as_bytes(), akey.as_bytes(), index, value_bytes)
    };
    assert_eq!(of("d", "a", 0, 5000), bytes(5000));
    assert_eq!(of("d", "x:user.note", 0, 30), bytes(30));
    assert_eq!(of("d", "DFS_INODE", 0, 88), files(1));
    assert_eq!(of("d", "DFS_INODE", 16, 8), Charge::NONE, "a part of one that is there");
    assert_eq!(of("DLM_COMPANION", "DFS_INODE", 0, 88), Charge::NONE, "names have records of their own");
    assert_eq!(of("d", "DLM_ATIME", 0, 12), Charge::NONE);
    assert_eq!(of("d", "DLM_ATIME", 0, 1025), bytes(1025), "no record of a name is as long");
    assert_eq!(of("d", "DFS_INODE", 0, 1025), Charge { bytes: 1025, files: 1 });
    assert_eq!(of("d", "DFS_INODE", 0, 0), Charge::NONE, "a hole, or a removal");
}

#[test]
fn what_does_not_fit_is_refused_and_what_does_is_not() {
    let account = Account::default();
    let none = Charge::NONE;
    let reserve = |adds, replaced| account.reserve(None, &of(1, adds), &of(1, replaced));
    account.count(1, Charge { bytes: 60, files: 2 });
    account.limit(limits(100, 3));
    assert_eq!(reserve(bytes(41), none), Err(Error::QuotaLimit));
    assert_eq!(reserve(bytes(40), none), Ok(()));
    assert_eq!(reserve(bytes(1), none), Err(Error::QuotaLimit));
    assert_eq!(reserve(files(1), none), Ok(()), "each by its own limit");
    assert_eq!(reserve(files(1), none), Err(Error::QuotaLimit));
    assert_eq!(reserve(Charge::NONE, none), Ok(()));
    assert_eq!(reserve(bytes(11), bytes(10)), Err(Error::QuotaLimit));
    assert_eq!(reserve(bytes(10), bytes(10)), Ok(()), "as much as it replaces");
    account.release(1, bytes(10));
    assert!(account.report().is_tight());
    account.limit(limits(1000, 4));
    assert!(!account.report().is_tight(), "an eighth is left");
    assert_eq!(account.report().used, Charge { bytes: 100, files: 3 });
    account.limit(limits(50, 1));
    assert_eq!(reserve(bytes(10), bytes(20)), Ok(()), "over the limit, too");
    account.limit(Quota::default());
    assert_eq!(reserve(Charge { bytes: 1 << 40, files: 9 }, none), Ok(()));
}

#[test]
fn a_user_has_his_limits_beside_those_of_all() {
    let account = Account::default();
    let none = ByUser::default();
    let reserve = |uid, adds, replaced: &ByUser| account.reserve(None, &of(uid, bytes(adds)), replaced);
    let mut quota = limits(100, 0);
    assert!(quota.set(Some(7), Limits { bytes: 30, files: 0 }));
    account.limit(quota);
    assert_eq!(reserve(7, 31, &none), Err(Error::QuotaLimit));
    assert_eq!(reserve(7, 30, &none), Ok(()));
    assert_eq!(reserve(8, 71, &none), Err(Error::QuotaLimit), "together");
    assert_eq!(reserve(8, 70, &none), Ok(()));
    assert_eq!(reserve(7, 5, &of(8, bytes(5))), Err(Error::QuotaLimit), "it is not his that goes");
    let line =
        |uid, used, limit| UserUse { uid, used: bytes(used), limits: Limits { bytes: limit, files: 0 } };
    assert_eq!(account.report().users, [line(7, 30, 30), line(8, 70, 0)]);
}

#[test]
fn what_is_for_several_users_is_within_the_limits_of_each_or_refused() {
    let account = Account::default();
    let mut quota = limits(100, 0);
    assert!(
        quota.set(Some(7), Limits { bytes: 30, files: 0 })
            && quota.set(Some(8), Limits { bytes: 50, files: 0 })
    );
    account.limit(quota);
    let both = |of_seven, of_eight| {
        let mut all = of(7, bytes(of_seven));
        all.add(8, bytes(of_eight));
        all
    };
    let reserve = |adds: &ByUser, replaced: &ByUser| account.reserve(None, adds, replaced);
    let none = ByUser::default();
    assert_eq!(reserve(&both(31, 50), &none), Err(Error::QuotaLimit), "of the first");
    assert_eq!(reserve(&both(30, 51), &none), Err(Error::QuotaLimit), "of the other");
    assert_eq!(account.report().used, Charge::NONE, "nothing of it is reserved");
    assert_eq!(reserve(&both(30, 50), &none), Ok(()));
    assert_eq!(reserve(&both(10, 10), &both(10, 9)), Err(Error::QuotaLimit));
    assert_eq!(reserve(&both(10, 10), &both(10, 10)), Ok(()));
    let mut names = of(7, files(2));
    names.add(8, files(3));
    names.less_files(4);
    assert_eq!((names.of(7), names.of(8), names.all()), (Charge::NONE, files(1), files(1)));
}

#[test]
fn names_that_move_are_not_held_against_the_limit() {
    let account = Account::default();
    let tx = |client| TxId { client, begin: Epoch(5) };
    account.limit(limits(0, 3));
    account.count(1, files(3));
    account.begin_moves(tx(1), 1);
    let reserve = |client| account.reserve(Some(tx(client)), &of(1, files(1)), &ByUser::default());
    assert_eq!(reserve(2), Err(Error::QuotaLimit), "another one's");
    assert_eq!(reserve(1), Ok(()));
    account.end_moves(tx(1));
    account.release(1, files(1));
    assert_eq!(reserve(1), Err(Error::QuotaLimit));
}

#[test]
fn as_many_names_move_as_are_added_and_removed() {
    let oid = |kind| Oid::new(kind, ObjectClass::S1, 0, 1);
    let dir = oid(ObjectType::MultiHashed);
    let put = |akey: &[u8]| {
        let data = Payload::Owned(dolmen_types::IoBuf::zeroed(88));
        let value = NewValue::Array { record_bytes: 1, extents: smallvec![Recx::new(0, 88)], data };
        let iods = smallvec![UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value }];
        Mutation::Update(Update {
            oid: dir,
            dkey: Key::from_slice(b"new"),
            cond: Cond::NONE,
            iods,
            charged: None,
        })
    };
    let punch = |oid, scope| Mutation::Punch(Punch { oid, scope, cond: Cond::NONE });
    let dkey = |name: &[u8]| PunchScope::Dkey(Key::from_slice(name));
    let moves = |mutations: &[Mutation<'_>]| moves_of(mutations.iter());
    assert_eq!(moves(&[put(INODE_AKEY)]), 0);
    assert_eq!(moves(&[put(INODE_AKEY), punch(dir, dkey(b"old"))]), 1);
    assert_eq!(moves(&[put(INODE_AKEY), put(INODE_AKEY), punch(dir, dkey(b"old"))]), 1);
    assert_eq!(moves(&[put(b"other"), punch(dir, dkey(b"old"))]), 0);
    assert_eq!(moves(&[put(INODE_AKEY), punch(dir, PunchScope::Object)]), 0);
    assert_eq!(moves(&[put(INODE_AKEY), punch(dir, dkey(COMPANION_DKEY))]), 0);
    let file = oid(ObjectType::ArrayByte);
    assert_eq!(moves(&[put(INODE_AKEY), punch(file, dkey(&[1; 8]))]), 0, "a chunk is no name");
}

#[test]
fn limits_have_their_bytes() {
    let mut quota = limits(0x0102, 3);
    assert!(quota.set(Some(9), Limits { bytes: 4, files: 0 }));
    let golden = [&[2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0][..], &[9, 0, 0, 0, 4], &[0; 15]].concat();
    assert_eq!(quota.encode(), golden);
    assert_eq!(Quota::decode(&golden), Some(quota.clone()));
    assert_eq!(Quota::decode(&golden[..golden.len() - 1]), None);
    let twice = [&golden[..], &golden[16..]].concat();
    assert_eq!(Quota::decode(&twice), None, "each user once, in order");
    assert_eq!(Quota::decode(&[&golden[..16], &[9, 0, 0, 0], &[0; 16]].concat()), None, "no limits");
    assert!(quota.set(Some(9), Limits::default()) && quota.users.is_empty());
}

#[test]
fn as_many_users_have_limits_as_may() {
    let mut quota = Quota::default();
    let some = Limits { bytes: 1, files: 0 };
    assert!((0..u32::try_from(USERS_MAX).unwrap()).all(|uid| quota.set(Some(uid), some)));
    assert!(!quota.set(Some(u32::MAX), some));
    assert!(quota.set(Some(0), Limits::default()) && quota.set(Some(u32::MAX), some));
    assert_eq!(Quota::decode(&quota.encode()), Some(quota));
}

#[test]
fn charges_are_those_of_whoever_has_any() {
    let mut charges = Charges::default();
    charges.add(4, bytes(10));
    charges.add(2, bytes(5));
    charges.add(4, files(1));
    charges.add(3, Charge::NONE);
    assert_eq!(charges.list(), [(2, bytes(5)), (4, Charge { bytes: 10, files: 1 })]);
    assert!(charges.covers(4, bytes(10)) && !charges.covers(4, bytes(11)) && !charges.covers(9, bytes(1)));
    charges.subtract(2, bytes(5));
    charges.subtract(4, bytes(10));
    assert_eq!(charges.list(), [(4, files(1))]);
    assert_eq!(Charges::of_list(vec![(4, files(1))], 9), Some(charges));
    for wrong in [vec![(4, files(1)), (4, files(1))], vec![(4, Charge::NONE)], vec![(4, files(10))]] {
        assert_eq!(Charges::of_list(wrong, 9), None);
    }
}

fn id(sequence: u64) -> RequestId {
    RequestId { client: 1, sequence }
}

/// What one user gives another.
fn given(from: u32, to: u32, charge: Charge) -> Given {
    let mut given = Given::default();
    given.add(from, to, charge);
    given
}

#[test]
fn who_has_not_been_told_a_share_takes_nothing_that_is_given_and_tells_it_beside_what_is_used() {
    let (account, none) = (Account::default(), ByUser::default());
    account.count(1, bytes(100));
    account.freeze(7);
    let gift = given(1, 2, bytes(60));
    let give = || account.reserve_given(None, &none, &none, &gift);
    assert_eq!(give(), Err(Error::QuotaLimit), "he may have limits");
    account.share(7, 1, &set(100, &[]));
    assert_eq!(give(), Ok(()));
    // What has been told before is not known to hold after it was given back.
    assert_eq!(account.share(7, 2, &ShareAsk::Recall).held_by(2), bytes(60));
    assert_eq!(give(), Err(Error::QuotaLimit));
    let told = account.share(7, 3, &set(100, &[]));
    assert_eq!((told.used_by_all(), told.held_by(1), told.held_by(2)), (bytes(100), bytes(100), bytes(60)));
    account.hand_over(&gift.to, &gift);
    let told = account.share(7, 4, &set(100, &[]));
    assert_eq!((told.used_by_all(), told.held_by(1), told.held_by(2)), (bytes(100), bytes(40), bytes(60)));
}

fn set(all: u64, told: &[(RequestId, bool)]) -> ShareAsk {
    let bounds = Bounds { all: Charge { bytes: all, files: u64::MAX }, users: BTreeMap::new() };
    ShareAsk::Set { bounds, told: told.to_vec() }
}

#[test]
fn an_account_with_a_share_takes_what_it_was_told_last_and_nothing_before() {
    let account = Account::default();
    let put = |adds, sequence| {
        let (adds, none) = (of(1, bytes(adds)), ByUser::default());
        let result = account.reserve(None, &adds, &none);
        if result.is_err() {
            account.note_short(id(sequence), None, &adds, &none);
        }
        result
    };
    account.limit(limits(1 << 40, 0));
    put(100, 0).unwrap();
    account.freeze(7);
    assert!(account.is_short(), "it is to be told");
    assert_eq!(put(1, 1), Err(Error::QuotaLimit));
    let told = account.share(0, 0, &ShareAsk::Look(None));
    assert_eq!((told.life, told.wishes.len(), told.wishes[0].all), (7, 1, bytes(1)));
    // Another life of it, and what was said before.
    account.share(6, 1, &set(1000, &[(id(1), true)]));
    assert_eq!((put(1, 1), account.verdict(id(1))), (Err(Error::QuotaLimit), Verdict::Waits));
    account.share(7, 5, &set(110, &[(id(1), true)]));
    account.share(7, 4, &set(1000, &[]));
    assert_eq!((account.verdict(id(1)), account.is_short()), (Verdict::Room, false));
    put(10, 1).unwrap();
    assert_eq!(put(1, 2), Err(Error::QuotaLimit));
    account.share(7, 6, &set(110, &[(id(2), false)]));
    assert_eq!((account.verdict(id(2)), account.verdict(id(2))), (Verdict::Full, Verdict::Room), "told once");
    // What is freed after it was given back is not taken again before something is set.
    account.share(7, 7, &set(200, &[]));
    let told = account.share(7, 8, &ShareAsk::Recall);
    assert_eq!((told.used_by_all().bytes, told.bounds.all), (110, Charge { bytes: 0, files: u64::MAX }));
    account.release(1, bytes(50));
    assert_eq!(put(1, 3), Err(Error::QuotaLimit));
    assert_eq!(account.reserve(None, &of(1, bytes(5)), &of(1, bytes(5))), Ok(()), "as much as it replaces");
    account.share(7, 7, &set(200, &[]));
    assert_eq!(put(1, 3), Err(Error::QuotaLimit), "that was said before");
    account.unfreeze();
    assert_eq!((put(1000, 4), account.verdict(id(3))), (Ok(()), Verdict::Room));
}
