//! The same store in pools that a daemon serves: over shared memory, a socket, and TCP.

use crate::made::{How, Type, file};
use crate::read::{numbers, values_of};
use crate::store_append::cluster;
use crate::store_world::{all_ints, header};
use dolmen_client::{ContName, Container, Pool, Props};
use dolmen_codec::wire::{PoolAccess, PoolName, PoolSpec, SystemReply, SystemVerb};
use dolmen_daemon::{Daemon, Settings};
use dolmen_env::Address;
use dolmen_net::client::{Link, LinkOptions, Remote};
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::format::schema::ColumnKind;
use dolmen_rntuple::store::{CreateOptions, Store, StoreOptions, When};
use dolmen_rntuple::{Entries, Memory, Ntuple};
use dolmen_types::{Credentials, Head, Label};
use std::path::PathBuf;
use std::sync::Arc;

/// Over TCP a client is who he says.
const CRED: Credentials = Credentials { uid: 0, gid: 20, project: 30 };

/// Which address of the daemon, and bytes of the rings of a link: shared memory, a socket alone, TCP.
const WAYS: [(usize, usize); 3] = [(0, 1 << 18), (0, 0), (1, 0)];

/// A directory that is removed with the value.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // Ignored: a directory for what is thrown away.
        _ = std::fs::remove_dir_all(&self.0);
    }
}

fn link(daemon: &Daemon, (address, ring_bytes): (usize, usize)) -> Link {
    let options = LinkOptions { ring_bytes, ..LinkOptions::default() };
    Link::connect(&daemon.addresses()[address], &options).unwrap()
}

fn make_pool(link: &Link, label: &str) {
    let spec = PoolSpec {
        label: Some(Label::new(label).unwrap()),
        targets: Some(2),
        capacity_bytes: Some(1 << 30),
        volatile: true,
        ..PoolSpec::default()
    };
    let reply = link.ask_system(&Head::default(), &SystemVerb::PoolCreate(spec)).unwrap();
    assert!(matches!(reply, SystemReply::Created(_)), "{reply:?}");
}

fn container(link: &Link, is_first: bool) -> Container {
    let head = Head { cred: CRED, ..Head::default() };
    let name = PoolName::Label(Label::new("pool").unwrap());
    let remote = Remote::open(link, &head, name, PoolAccess::ReadWrite).unwrap();
    let pool = Pool::connect(Arc::new(remote), CRED).unwrap();
    let label = Label::new("events").unwrap();
    if is_first {
        pool.create_container(Some(label.clone()), Props::new()).unwrap();
    }
    pool.open_container(&ContName::Label(label)).unwrap()
}

#[test]
fn several_connections_of_each_kind_import_append_and_read() {
    let scratch = Scratch(std::env::temp_dir().join(format!("dolmen-rntuple-served-{}", std::process::id())));
    std::fs::create_dir(&scratch.0).unwrap();
    let mut settings = Settings::new(scratch.0.clone());
    settings.addresses.push(Address::Tcp("127.0.0.1:0".parse().unwrap()));
    let daemon = Daemon::start(&settings, |note: &str| eprintln!("daemon: {note}")).unwrap();
    make_pool(&link(&daemon, WAYS[0]), "pool");
    let containers: Vec<_> =
        WAYS.into_iter().enumerate().map(|(at, way)| container(&link(&daemon, way), at == 0)).collect();
    let stores: Vec<_> = containers.iter().map(|cont| Store::new(cont, &StoreOptions::default())).collect();

    let how = How {
        compression: Compression::Zstd(1),
        elements_of_a_page: 100,
        entries_of_a_cluster: 200,
        clusters_of_a_group: 2,
        has_checksums: true,
    };
    let of = Type::List(ColumnKind::SplitIndex64, Box::new(Type::Number(ColumnKind::SplitInt64)));
    let values = values_of(&of, 500, &mut numbers(2));
    let (bytes, anchor) = file(&of, &values, how);
    let ntuple = Ntuple::open(Memory::new(bytes.into()), &anchor).unwrap();
    let all = Entries { first: 0, end: 500 };
    let wanted = ntuple.read(&[0], all).unwrap();
    let options = CreateOptions { group_bytes: Some(1000), ..CreateOptions::default() };
    for (at, store) in stores.iter().enumerate() {
        store.import(&format!("by_{at}"), &ntuple, &options).unwrap();
    }
    for store in &stores {
        for at in 0..stores.len() {
            let stored = store.open(&format!("by_{at}"), When::Now).unwrap();
            assert_eq!(stored.read(&[0], all).unwrap(), wanted);
        }
    }

    let fields = [("a", ColumnKind::SplitInt32), ("b", ColumnKind::Int32)];
    stores[0].create(&header("events", &fields), &CreateOptions::default()).unwrap();
    dolmen_env::scope(|scope| {
        for (writer, store) in (0..).zip(&stores) {
            scope.spawn(move || {
                let stored = store.ntuple("events").unwrap();
                let mut appender = stored.append().unwrap();
                for commit in 0..5 {
                    appender.push(&cluster(&stored, writer * 1000 + commit * 5)).unwrap();
                    appender.commit().unwrap();
                }
            });
        }
    });
    for store in &stores {
        let found = all_ints(&store.open("events", When::Now).unwrap(), "a");
        for writer in 0..3 {
            let of_writer: Vec<_> = found.iter().copied().filter(|at| at / 1000 == writer).collect();
            assert_eq!(of_writer, (writer * 1000..writer * 1000 + 25).collect::<Vec<_>>());
        }
        assert!(store.ntuple("events").unwrap().scrub(When::Now, |_| ()).unwrap().bad.is_empty());
    }
    for (at, store) in stores.iter().enumerate() {
        store.destroy(&format!("by_{at}")).unwrap();
    }
    let names: Vec<_> = stores[2].list().unwrap().into_iter().map(|listed| listed.name).collect();
    assert_eq!(names, ["events".into()]);
}
