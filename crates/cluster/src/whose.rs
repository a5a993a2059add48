//! Which transaction a commit is: made of who asks, and of what he asks for.
//!
//! A client draws the number of a transaction, and whoever knows it can say it, too. Targets know a transaction by another
//! one, that of its user, its client, its epochs and everything that it changes. So what a target keeps of a transaction
//! answers, ends and hinders no other: another user's under the same number is another one, and so is something else that
//! the same client asks for. The number is in logs and manifests: how it is made is part of their format.
//!
//! Invariants: what is sent again has the same number, on whatever way it comes; users differ in what is hashed, so that
//! nobody finds a number of another's (SHA-256, of which 128 bits are kept).

use dolmen_codec::pool::TxCommit;
use dolmen_codec::verb::{Mutation, NewValue, Payload, Punch, PunchScope, Update};
use dolmen_types::limits::CSUM_CHUNK_BYTES;
use dolmen_types::{Credentials, Recx, TxId, crc32c};
use ring::digest::{Context, SHA256};

/// What a commit is known by to the targets. How its parts are ordered does not matter.
pub(crate) fn number_of(commit: &TxCommit<'_>, cred: Credentials) -> TxId {
    // Where it has only read says nothing of what it does.
    let TxCommit { cont, tx, epoch, parts, read: _ } = commit;
    let mut hash = Hash(Context::new(&SHA256));
    hash.number(u64::from(cred.uid));
    hash.bytes(&tx.client.to_le_bytes());
    for number in [tx.begin.0, epoch.0, u64::from(cont.0)] {
        hash.number(number);
    }
    let mut order: Vec<_> = parts.iter().collect();
    order.sort_by_key(|part| part.0);
    for (target, mutations) in order {
        hash.number(u64::from(target.0));
        hash.number(mutations.len() as u64);
        mutations.iter().for_each(|mutation| hash.mutation(mutation));
    }
    let digest = hash.0.finish();
    let (number, _) = digest.as_ref().split_first_chunk().expect("SHA-256 has 32 bytes");
    TxId { client: u128::from_le_bytes(*number), begin: tx.begin }
}

/// Takes fields of a known width, and bytes behind their length: no two sequences of fields are the same bytes.
struct Hash(Context);

impl Hash {
    fn number(&mut self, number: u64) {
        self.0.update(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    fn mutation(&mut self, mutation: &Mutation<'_>) {
        match mutation {
            Mutation::Update(update) => self.update(update),
            Mutation::Punch(punch) => self.punch(punch),
        }
    }

    fn update(&mut self, update: &Update<'_>) {
        // Whom it is charged to says nothing of whose it is, and may be heard or not when it is sent again.
        let Update { oid, dkey, cond, iods, charged: _ } = update;
        self.number(1);
        self.bytes(&oid.to_bytes());
        self.bytes(dkey);
        self.number(cond.0);
        self.number(iods.len() as u64);
        for iod in iods {
            self.bytes(&iod.akey);
            self.number(iod.cond.0);
            self.value(&iod.value);
        }
    }

    fn punch(&mut self, punch: &Punch) {
        let Punch { oid, scope, cond } = punch;
        self.number(2);
        self.bytes(&oid.to_bytes());
        self.number(cond.0);
        match scope {
            PunchScope::Object => self.number(0),
            PunchScope::Dkey(dkey) => {
                self.number(1);
                self.bytes(dkey);
            }
            PunchScope::Akeys(dkey, akeys) => {
                self.number(2);
                self.bytes(dkey);
                self.number(akeys.len() as u64);
                akeys.iter().for_each(|akey| self.bytes(akey));
            }
        }
    }

    fn value(&mut self, value: &NewValue<'_>) {
        match value {
            NewValue::Single(payload) => {
                self.number(1);
                self.payload(payload);
            }
            NewValue::NoSingle => self.number(2),
            NewValue::Array { record_bytes, extents, data } => {
                self.number(3);
                self.number(*record_bytes);
                self.extents(extents);
                self.payload(data);
            }
            NewValue::Hole { extents } => {
                self.number(4);
                self.extents(extents);
            }
        }
    }

    fn extents(&mut self, extents: &[Recx]) {
        self.number(extents.len() as u64);
        for extent in extents {
            self.number(extent.index);
            self.number(extent.count);
        }
    }

    /// A value stands for itself by its checksums, which are at hand if it came over a connection: who makes two values with
    /// the same ones deceives himself alone.
    fn payload(&mut self, payload: &Payload<'_>) {
        let bytes = payload.bytes();
        self.number(bytes.len() as u64);
        match payload.sums(0..bytes.len()) {
            Some(sums) => sums.iter().for_each(|&sum| self.sum(sum)),
            None => bytes.chunks(CSUM_CHUNK_BYTES).for_each(|chunk| self.sum(crc32c(chunk))),
        }
    }

    fn sum(&mut self, sum: u32) {
        self.0.update(&sum.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_codec::verb::{Incoming, UpdateIod};
    use dolmen_types::{Cond, ContNo, Epoch, IoBuf, Key, Oid, TargetNo};
    use smallvec::{SmallVec, smallvec};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    const USER: Credentials = Credentials { uid: 7, gid: 8, project: 9 };

    fn update<'a>(dkey: &[u8], akey: &[u8], value: NewValue<'a>) -> Mutation<'a> {
        let iods = smallvec![UpdateIod { akey: Key::from_slice(akey), cond: Cond::NONE, value }];
        Mutation::Update(Update {
            oid: Oid { hi: 1, lo: 2 },
            dkey: Key::from_slice(dkey),
            cond: Cond::NONE,
            iods,
            charged: None,
        })
    }

    fn single(value: &[u8]) -> NewValue<'_> {
        NewValue::Single(Payload::Ref(value))
    }

    fn array(extents: SmallVec<[Recx; 1]>, data: &[u8]) -> NewValue<'_> {
        NewValue::Array { record_bytes: 1, extents, data: Payload::Ref(data) }
    }

    fn punch(scope: PunchScope) -> Mutation<'static> {
        Mutation::Punch(Punch { oid: Oid { hi: 1, lo: 2 }, scope, cond: Cond::NONE })
    }

    fn asked<'a>(parts: Vec<(u16, Vec<Mutation<'a>>)>) -> TxCommit<'a> {
        let parts = parts.into_iter().map(|(target, mutations)| (TargetNo(target), mutations)).collect();
        TxCommit {
            cont: ContNo(3),
            tx: TxId { client: 4, begin: Epoch(5) },
            epoch: Epoch(6),
            parts,
            read: SmallVec::new(),
        }
    }

    #[test]
    fn numbers_are_these_for_ever() {
        let extents = smallvec![Recx { index: 8, count: 3 }, Recx { index: 20, count: 1 }];
        let update = update(b"dkey", b"akey", array(extents, b"four"));
        let punch = punch(PunchScope::Akeys(Key::from_slice(b"d"), smallvec![Key::from_slice(b"a")]));
        let number = number_of(&asked(vec![(1, vec![update]), (0, vec![punch])]), USER);
        assert_eq!(number.begin, Epoch(5));
        assert_eq!(number.client, 0x0b8a_4cbc_229f_2648_3ae5_71e8_5c84_2217);
    }

    #[test]
    fn what_is_sent_again_has_the_same_number_on_whatever_way() {
        let value: Vec<u8> = (0..=250).cycle().take(CSUM_CHUNK_BYTES + 1000).collect();
        let of =
            |payload| number_of(&asked(vec![(1, vec![update(b"d", b"a", NewValue::Single(payload))])]), USER);
        let first = of(Payload::Ref(&value));
        assert_eq!(of(Payload::Owned(IoBuf::copy_of(&value))), first);
        for sums in [SmallVec::new(), value.chunks(CSUM_CHUNK_BYTES).map(crc32c).collect()] {
            let buf = Arc::new(Incoming { bytes: IoBuf::copy_of(&value), sums });
            assert_eq!(of(Payload::Shared { buf, start: 0, len: value.len() }), first);
        }
        let part = |target| (target, vec![update(b"d", b"a", single(b"v"))]);
        let orders = [vec![part(0), part(1)], vec![part(1), part(0)]];
        let [one, other] = orders.map(|parts| number_of(&asked(parts), USER));
        assert_eq!(one, other);
        let others_group = Credentials { gid: 1, project: 2, ..USER };
        assert_eq!(number_of(&asked(vec![part(1), part(0)]), others_group), one, "a client is one of a user");
    }

    #[test]
    fn who_asks_and_all_that_is_asked_for_are_in_the_number() {
        let key = Key::from_slice;
        let one = |index, count| smallvec![Recx { index, count }];
        let all = [
            update(b"d", b"a", single(b"v")),
            update(b"d", b"a", single(b"w")),
            update(b"d", b"av", single(b"v")),
            update(b"da", b"v", single(b"v")),
            update(b"d", b"a", NewValue::NoSingle),
            update(b"d", b"a", array(one(0, 2), b"vv")),
            update(b"d", b"a", array(one(1, 2), b"vv")),
            update(b"d", b"a", NewValue::Hole { extents: one(0, 2) }),
            update(b"d", b"a", NewValue::Hole { extents: smallvec![] }),
            punch(PunchScope::Object),
            punch(PunchScope::Dkey(key(b"d"))),
            punch(PunchScope::Akeys(key(b"d"), smallvec![key(b"a")])),
            punch(PunchScope::Akeys(key(b"d"), smallvec![key(b"a"), key(b"b")])),
        ];
        let (mut numbers, mut count) = (BTreeSet::new(), 0);
        let mut another = |commit: &TxCommit<'_>, cred| {
            numbers.insert(number_of(commit, cred));
            count += 1;
            assert_eq!(numbers.len(), count, "the number of {cred:?} is that of another: {commit:?}");
        };
        for mutation in &all {
            another(&asked(vec![(0, vec![mutation.clone()])]), USER);
            another(&asked(vec![(0, vec![mutation.clone(), mutation.clone()])]), USER);
            another(&asked(vec![(0, vec![mutation.clone()]), (1, vec![mutation.clone()])]), USER);
        }
        let usual = || asked(vec![(0, vec![all[0].clone()])]);
        another(&usual(), Credentials { uid: 6, ..USER });
        another(&usual(), Credentials { uid: u32::MAX, ..USER });
        another(&TxCommit { cont: ContNo(4), ..usual() }, USER);
        another(&TxCommit { epoch: Epoch(7), ..usual() }, USER);
        another(&TxCommit { tx: TxId { client: 5, begin: Epoch(5) }, ..usual() }, USER);
        another(&TxCommit { tx: TxId { client: 4, begin: Epoch(6) }, ..usual() }, USER);
    }
}
