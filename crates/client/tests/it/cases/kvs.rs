//! Flat key-values.

use super::common::open;
use super::objects::small_page;
use dolmen_client::{Anchor, At, Error, Invalid, IoBuf, Kv, ObjectClass, ObjectType, PutCond};

#[test]
fn keys_are_put_read_listed_and_removed_under_conditions() {
    let (_, _, cont) = open(3);
    let oid = cont.alloc_oid(ObjectType::KvHashed, ObjectClass::UNKNOWN).unwrap();
    let kv = Kv::open(&cont, oid).unwrap();
    let mut buf = IoBuf::default();
    assert_eq!(kv.get(At::Latest, b"k", &mut buf), Ok(None));
    assert_eq!(kv.put(At::Latest, b"k", b"v", PutCond::Update), Err(Error::NotFound));
    kv.put(At::Latest, b"k", b"v", PutCond::Insert).unwrap();
    assert_eq!(kv.put(At::Latest, b"k", b"w", PutCond::Insert), Err(Error::Exists));
    kv.put(At::Latest, b"k", &[5; 9000], PutCond::Update).unwrap();
    assert_eq!(kv.get(At::Latest, b"k", &mut buf), Ok(Some(9000)));
    assert_eq!(buf[..], [5; 9000]);
    assert_eq!(kv.size(At::Latest, b"k"), Ok(Some(9000)));
    let mut small = IoBuf::zeroed(10);
    let bounded = kv.get_bounded(At::Latest, b"k", true, 10, &mut small);
    assert_eq!(bounded, Err(Error::RecTooBig { needed_bytes: 9000 }));
    assert_eq!(kv.get_bounded(At::Latest, b"none", true, 10, &mut small), Err(Error::NotFound));
    assert_eq!(kv.get_bounded(At::Latest, b"none", false, 10, &mut small), Ok(0));
    assert_eq!(kv.put(At::Latest, b"k", b"", PutCond::None), Err(Invalid::Payload.into()));
    for n in 0..30_u8 {
        kv.put(At::Latest, &[n, n], &[n], PutCond::None).unwrap();
    }
    let (mut count, mut anchor) = (0, Anchor::default());
    while !anchor.is_eof() {
        count += kv.list(At::Latest, &mut anchor, small_page()).unwrap().len();
    }
    assert_eq!(count, 31);
    kv.remove(At::Latest, b"k", true).unwrap();
    assert_eq!(kv.remove(At::Latest, b"k", true), Err(Error::NotFound));
    assert_eq!(kv.get_existing(At::Latest, b"k", &mut buf), Err(Error::NotFound));
    kv.destroy(At::Latest).unwrap();
    assert_eq!(kv.list(At::Latest, &mut Anchor::default(), small_page()).unwrap().len(), 0);
    let other = cont.alloc_oid(ObjectType::MultiHashed, ObjectClass::S1).unwrap();
    assert!(Kv::open(&cont, other).is_err());
}

#[test]
fn a_transaction_moves_a_key_as_one() {
    let (_, _, cont) = open(3);
    let oid = cont.alloc_oid(ObjectType::KvLexical, ObjectClass::UNKNOWN).unwrap();
    let kv = Kv::open(&cont, oid).unwrap();
    kv.put(At::Latest, b"old", b"v", PutCond::None).unwrap();
    let mut buf = IoBuf::default();
    cont.transact(|tx| {
        kv.get_existing(At::Tx(tx), b"old", &mut buf)?;
        kv.remove(At::Tx(tx), b"old", true)?;
        kv.put(At::Tx(tx), b"new", &buf, PutCond::Insert)?;
        assert_eq!(kv.remove(At::Tx(tx), b"old", true), Err(Error::NotFound));
        Ok::<(), Error>(())
    })
    .unwrap();
    assert_eq!(kv.get(At::Latest, b"old", &mut buf), Ok(None));
    assert_eq!(kv.get(At::Latest, b"new", &mut buf), Ok(Some(1)));
}
