//! Containers: handles, properties, attributes, snapshots, views, walks.

use super::common::{new_container, open};
use super::objects::object;
use dolmen_client::{
    At, ChangeKind, Cond, ContName, Container, Epoch, Error, IoBuf, Label, ObjectClass, ObjectType, Oid,
    Pool, PropId, PropValue, Props,
};
use std::collections::BTreeSet;

fn objects(cont: &Container, at: Option<Epoch>) -> Vec<Oid> {
    let mut walk = cont.objects(at);
    let mut all = Vec::new();
    loop {
        let page = walk.next_page().unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

/// Handles that others have on a container.
fn handles(pool: &Pool, name: &ContName) -> u32 {
    pool.open_container(name).unwrap().query().unwrap().handles - 1
}

#[test]
fn a_handle_is_given_back_by_closing_or_by_its_last_clone() {
    let (_, pool, cont) = open(1);
    let name = ContName::Uuid(cont.uuid());
    let clone = cont.clone();
    drop(cont);
    assert_eq!(handles(&pool, &name), 1);
    assert_eq!(pool.destroy_container(&name, false), Err(Error::Busy));
    drop(clone);
    assert_eq!(handles(&pool, &name), 0);
    let again = pool.open_container(&name).unwrap();
    let clone = again.clone();
    again.close().unwrap();
    assert_eq!(handles(&pool, &name), 0);
    drop(clone);
    assert_eq!(handles(&pool, &name), 0);
    pool.destroy_container(&name, false).unwrap();
    assert_eq!(pool.open_container(&name).err(), Some(Error::NotFound));
}

#[test]
fn labels_properties_and_attributes() {
    let (_, pool, _cont) = open(1);
    let label = Label::new("era5").unwrap();
    let props = Props::from([(PropId::CO_LAYOUT_TYPE, PropValue::Number(1))]);
    pool.create_container(Some(label.clone()), props).unwrap();
    assert_eq!(pool.create_container(Some(label.clone()), Props::new()).err(), Some(Error::Exists));
    let cont = pool.open_container(&ContName::Label(label.clone())).unwrap();
    assert_eq!(cont.opened_props()[&PropId::CO_LAYOUT_TYPE], PropValue::Number(1));
    assert_eq!(cont.label(), Some(&label));
    let added = Props::from([(PropId::CO_OWNER, PropValue::Text("me@".to_owned()))]);
    cont.set_props(&added).unwrap();
    assert_eq!(cont.props(&[PropId::CO_OWNER]).unwrap(), added);
    assert!(cont.props(&[]).unwrap().len() >= 2);
    cont.set_attrs(&[("b".to_owned(), vec![1]), ("a".to_owned(), vec![2])]).unwrap();
    pool.set_attrs(&[("p".to_owned(), vec![3])]).unwrap();
    assert_eq!(
        (cont.attr("a"), pool.attr("p"), pool.attr("a")),
        (Ok(vec![2]), Ok(vec![3]), Err(Error::NotFound))
    );
    assert_eq!(cont.attr_names().unwrap(), ["a", "b"]);
    cont.remove_attrs(&["a".to_owned()]).unwrap();
    assert_eq!(cont.attr_names().unwrap(), ["b"]);
    pool.remove_attrs(&["p".to_owned()]).unwrap();
    assert!(pool.attr_names().unwrap().is_empty());
    assert_eq!(pool.containers().unwrap().len(), 2);
}

#[test]
fn a_redundancy_factor_that_nothing_provides_is_refused() {
    let (_, pool, _cont) = open(4);
    let props = Props::from([(PropId::CO_REDUN_FAC, PropValue::Number(1))]);
    // Here or, by a service that takes it, at the first object id.
    let Ok(handle) = pool.create_container(None, props) else { return };
    let cont = pool.open_container(&ContName::Uuid(handle.uuid)).unwrap();
    assert!(cont.alloc_oid(ObjectType::Array, ObjectClass::UNKNOWN).is_err());
    assert!(cont.alloc_oid(ObjectType::Array, ObjectClass::S1).is_err());
}

#[test]
fn audits_of_a_healthy_pool_are_clean() {
    let (_, pool, cont) = open(2);
    object(&cont, ObjectType::MultiHashed, "SX").put(At::Latest, b"d", b"a", b"v").unwrap();
    pool.checkpoint().unwrap();
    for audits in [pool.check().unwrap(), pool.scrub().unwrap()] {
        assert_eq!(audits.len(), 2);
        assert!(audits.iter().all(|audit| audit.findings.is_empty()), "{audits:?}");
    }
}

#[test]
fn a_view_shows_a_snapshot_and_cannot_be_written() {
    let (_, _, cont) = open(2);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    object.put(At::Latest, b"d", b"a", b"old").unwrap();
    let epoch = cont.create_snapshot(Some("first")).unwrap();
    object.put(At::Latest, b"d", b"a", b"newer").unwrap();
    let view = cont.at(epoch);
    let seen = view.object(object.oid()).unwrap();
    let mut buf = IoBuf::default();
    assert_eq!(seen.get(At::Latest, b"d", b"a", &mut buf), Ok(Some(3)));
    assert_eq!(object.get(At::Latest, b"d", b"a", &mut buf), Ok(Some(5)));
    assert_eq!(object.get(At::Snapshot(epoch), b"d", b"a", &mut buf), Ok(Some(3)));
    assert_eq!(seen.put(At::Latest, b"d", b"a", b"v"), Err(Error::NoPermission));
    assert_eq!(object.put(At::Snapshot(epoch), b"d", b"a", b"v"), Err(Error::NoPermission));
    assert_eq!(seen.punch(At::Latest, Cond::NONE), Err(Error::NoPermission));
    assert_eq!(view.begin().err(), Some(Error::NoPermission));
    let listed = cont.snapshots().unwrap();
    assert_eq!((listed.len(), listed[0].epoch, listed[0].name.as_deref()), (1, epoch, Some("first")));
    cont.rollback(epoch).unwrap();
    assert_eq!(object.get(At::Latest, b"d", b"a", &mut buf), Ok(Some(3)));
    assert_eq!(cont.rollback(Epoch(epoch.0 + 1)), Err(Error::NotFound));
    cont.destroy_snapshot(epoch).unwrap();
    assert!(cont.snapshots().unwrap().is_empty());
}

#[test]
fn objects_are_walked_once_however_many_targets_they_lie_on() {
    let (_, pool, cont) = open(4);
    let mut oids = BTreeSet::new();
    for class in ["S1", "S2", "SX", "S8"] {
        for _ in 0..10 {
            let object = object(&cont, ObjectType::MultiHashed, class);
            for n in 0..12_u8 {
                object.put(At::Latest, &[n, 3], b"a", b"v").unwrap();
            }
            oids.insert(object.oid());
        }
    }
    // One that lies on a part of its targets only.
    let partly = object(&cont, ObjectType::MultiHashed, "SX");
    partly.put(At::Latest, b"alone", b"a", b"v").unwrap();
    oids.insert(partly.oid());
    let all = objects(&cont, None);
    assert_eq!(all.len(), oids.len());
    assert_eq!(all.iter().copied().collect::<BTreeSet<_>>(), oids);
    let epoch = cont.create_snapshot(None).unwrap();
    partly.punch(At::Latest, Cond::PUNCH).unwrap();
    assert_eq!(objects(&cont, None).len(), oids.len() - 1);
    assert_eq!(objects(&cont, Some(epoch)).len(), oids.len());
    assert_eq!(objects(&cont.at(epoch), None).len(), oids.len());
    assert!(objects(&new_container(&pool), None).is_empty());
}

#[test]
fn the_difference_of_two_snapshots_names_what_changed() {
    let (_, _, cont) = open(3);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    for name in ["kept", "changed", "removed"] {
        object.put(At::Latest, name.as_bytes(), b"a", b"v").unwrap();
    }
    let from = cont.create_snapshot(None).unwrap();
    object.put(At::Latest, b"changed", b"a", b"w").unwrap();
    object.put(At::Latest, b"added", b"a", b"w").unwrap();
    object.punch_dkey(At::Latest, b"removed", Cond::PUNCH).unwrap();
    let to = cont.create_snapshot(None).unwrap();
    let mut walk = cont.diff(from, to);
    let mut changes = Vec::new();
    loop {
        let page = walk.next_page().unwrap();
        if page.is_empty() {
            break;
        }
        changes.extend(page.into_iter().map(|c| (c.dkey.to_vec(), c.kind)));
    }
    changes.sort();
    let expected = [
        (b"added".to_vec(), ChangeKind::Added),
        (b"changed".to_vec(), ChangeKind::Modified),
        (b"removed".to_vec(), ChangeKind::Removed),
    ];
    assert_eq!(changes, expected);
}

#[test]
fn aggregation_frees_what_nobody_can_see() {
    let (_, _, cont) = open(2);
    let object = object(&cont, ObjectType::MultiHashed, "SX");
    for n in 0..5_u8 {
        object.put(At::Latest, b"d", b"a", &[n + 1]).unwrap();
    }
    let early = object.put(At::Latest, b"d", b"a", &[6]).unwrap();
    object.put(At::Latest, b"d", b"a", &[5]).unwrap();
    let epoch = cont.create_snapshot(None).unwrap();
    cont.aggregate(epoch).unwrap();
    assert!(matches!(object.size(At::Snapshot(early), b"d", b"a"), Err(Error::EpochGone { .. })));
    let mut buf = IoBuf::default();
    assert_eq!(object.get(At::Latest, b"d", b"a", &mut buf), Ok(Some(1)));
    assert_eq!(buf[..], [5]);
}
