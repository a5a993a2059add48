//! Systems whose engines are of two releases: one speaks the version of the wire before with all who come to it.

use crate::altered::{Alterer, of_the_version_before, who_hides};
use crate::common::pool;
use crate::parted::{ANNA, all_are, being, open_sockets, read, written};
use crate::ranks::{Engines, spread_object};
use dolmen_client::{At, Container, Whose};
use dolmen_codec::pool::ContName;
use dolmen_codec::wire::{FEATURE_GIFTS, PoolAccess, PoolName, SystemVerb, Version};
use dolmen_dfs::{Dfs, Follow, FormatOptions, MountOptions, OpenOptions};
use dolmen_env::{Address, user_id};
use dolmen_net::client::{Door, Link, LinkOptions};
use dolmen_types::{Epoch, Error, Head, Label, Props};
use std::path::Path;

/// Two engines, some of the release before, with a pool: the first has its service, the other a part.
fn engines(old: &[u32]) -> (Engines, Vec<Alterer>) {
    engines_behind(old, &of_the_version_before)
}

/// The same with something else in the place of some.
fn engines_behind(old: &[u32], put: &dyn Fn(&Path) -> Alterer) -> (Engines, Vec<Alterer>) {
    let engines = Engines::start(2);
    let mut alterers = Vec::new();
    for rank in [0, 1] {
        if old.contains(&rank) {
            let Address::Unix(socket) = engines.address(rank) else { panic!("it is a socket") };
            alterers.push(put(&socket));
        }
        // What the other has connected to before is left behind.
        if !old.contains(&(1 - rank)) || rank == 0 {
            engines.kill(1 - rank);
            engines.start_again(1 - rank);
        }
    }
    engines.create(true);
    (engines, alterers)
}

#[test]
fn engines_and_clients_of_two_versions_have_a_pool_together() {
    for old in [&[0][..], &[1], &[0, 1]] {
        let (engines, alterers) = engines(old);
        let admin = pool(&engines.link(0), "p");
        assert!(old.contains(&0) == (engines.link(0).welcome().unwrap().version == Version::One));
        let label = Label::new("c").unwrap();
        let made = admin.create_container(Some(label.clone()), Props::default()).unwrap();
        let cont = admin.open_container(&ContName::Uuid(made.uuid)).unwrap();
        let object = spread_object(&cont);
        assert!(all_are(&written(&object), &Ok(())), "{old:?}");
        cont.transact(|tx| {
            (0..16_u8).try_for_each(|dkey| object.put(At::Tx(tx), &[dkey], b"a", b"value").map(drop))
        })
        .unwrap();
        assert!(all_are(&read(&object), &Ok(Some(5))), "{old:?}");
        let theirs = pool(&engines.link(1), "p");
        let other = theirs.open_container(&ContName::Label(label)).unwrap();
        assert!(all_are(&read(&other.object(object.oid()).unwrap()), &Ok(Some(5))), "{old:?}");
        // No engine is told what it does not know, by which connections would end under what others have under way.
        let count = || alterers.iter().map(Alterer::connections).collect::<Vec<usize>>();
        let before = count();
        cont.evict_others(Whose::All).unwrap();
        assert_eq!(other.query().map(drop), Err(Error::NoHandle), "{old:?}");
        assert!(all_are(&written(&object), &Ok(())), "{old:?}");
        cont.create_snapshot(None).unwrap();
        let again = theirs.open_container(&ContName::Uuid(made.uuid)).unwrap();
        assert!(all_are(&written(&again.object(object.oid()).unwrap()), &Ok(())), "{old:?}");
        again.close().unwrap();
        cont.close().unwrap();
        assert_eq!(admin.destroy_container(&ContName::Uuid(made.uuid), true), Ok(()), "{old:?}");
        assert!(admin.create_container(None, Props::default()).is_ok(), "{old:?}");
        assert_eq!(count(), before, "{old:?}");
        engines.assert_sound();
    }
}

#[test]
fn a_part_whose_service_is_of_the_version_before_lets_in_whom_it_asks_nothing_about() {
    assert_eq!(user_id(), 0, "only root can be others");
    let (engines, _alterers) = engines(&[0]);
    open_sockets(&engines, 2);
    let uuid = pool(&engines.link(0), "p").query().unwrap().map.pool;
    let connect = || SystemVerb::PoolConnect { name: PoolName::Uuid(uuid), access: PoolAccess::ReadWrite };
    let open = |link: &Link| Door::open(link, &Head::default(), connect()).map(drop);
    let link = || Link::connect(&engines.address(1), &LinkOptions::default()).unwrap();
    assert_eq!(open(&link()), Ok(()));
    let anna = being(ANNA, link);
    assert_eq!(open(&anna), Err(Error::Unreachable { rank: 0 }), "nobody tells the part what lists say");
    engines.assert_sound();
}

/// Bytes and files of a user.
pub(crate) fn charge_of(cont: &Container, uid: u32) -> (u64, u64) {
    cont.aggregate(Epoch::ZERO).unwrap();
    let users = cont.quota().unwrap().users;
    users.iter().find(|user| user.uid == uid).map_or((0, 0), |user| (user.used.bytes, user.used.files))
}

#[test]
fn contents_are_given_where_all_engines_know_that_and_stay_where_they_are_else() {
    let (first, second) = (4_200_007, 4_200_008);
    for old in [&[][..], &[0], &[1], &[0, 1]] {
        let (engines, alterers) = engines_behind(old, &|socket| who_hides(socket, FEATURE_GIFTS));
        let admin = pool(&engines.link(0), "p");
        let label = Label::new("files").unwrap();
        admin.create_container(Some(label.clone()), Dfs::container_props()).unwrap();
        let cont = admin.open_container(&ContName::Label(label)).unwrap();
        Dfs::format(&cont, &FormatOptions::default()).unwrap();
        let fs = Dfs::mount(&cont, &MountOptions::default()).unwrap();
        let file = fs.open("/file", &OpenOptions::CREATE).unwrap();
        fs.chown("/file", Some(first), None, Follow::No).unwrap();
        for chunk in 0..8_u64 {
            file.write_at(chunk << 20, &[7; 1000]).unwrap();
        }
        assert_eq!(charge_of(&cont, first), (8000, 1), "{old:?}");
        // As when the connections have ended since.
        alterers.iter().for_each(Alterer::end_all);
        fs.chown("/file", Some(second), None, Follow::No).unwrap();
        let stat = fs.stat("/file").unwrap();
        assert_eq!((stat.uid, stat.size_bytes), (second, (7 << 20) + 1000), "{old:?}");
        let expected = if old.is_empty() { [(0, 0), (8000, 1)] } else { [(8000, 0), (0, 1)] };
        assert_eq!([charge_of(&cont, first), charge_of(&cont, second)], expected, "{old:?}");
        file.close().unwrap();
        engines.assert_sound();
    }
}
