//! Files by way of the daemon, asked for by who wants more than he may have.

use crate::access::OTHER_GID;
use crate::child::until;
use crate::files::{EACCES, EBADF, EPERM, Guest, ROOT, Shared, Told, long, longs, name, text, word, words};
use dolmen_dfs::{Dfs, Follow, MountOptions, New, OpenOptions, SetAttrs, XattrCond};
use dolmen_env::{Clock, RealClock};

const GET_ATTR: u32 = 3;
const OPEN_DIR: u32 = 27;
const UNLINK: u32 = 10;
const LINK: u32 = 13;
const RELEASE: u32 = 18;
const CREATE: u32 = 35;
const FALLOCATE: u32 = 43;
const SET_XATTR: u32 = 21;
const O_RDWR: u32 = 2;
const O_TRUNC: u32 = 0o1000;

/// A mount of whoever may reach the objects.
fn mounted(shared: &Shared) -> Dfs {
    let options = MountOptions { shared: true, acls: true, ..MountOptions::default() };
    Dfs::mount(&shared.cont, &options).unwrap()
}

fn in_tmp(guest: &Guest, name: &str) -> (u64, u64) {
    let tmp = guest.lookup(ROOT, "tmp").unwrap();
    (tmp, guest.lookup(tmp, name).unwrap())
}

#[test]
fn whatever_changes_contents_takes_set_user_id_whoever_has_set_it_when() {
    let Some(shared) = Shared::new() else { return };
    let dfs = mounted(&shared);
    let guest = shared.guest();
    let set = || {
        let mode = SetAttrs { mode: Some(0o6777), ..SetAttrs::KEEP };
        dfs.set_attrs("tmp/roots", &mode, Follow::Yes).unwrap();
    };
    let left = || dfs.stat("tmp/roots").unwrap().mode() & 0o7777;
    let (tmp, roots) = in_tmp(&guest, "roots");
    let handle = guest.open(roots, O_RDWR).unwrap();
    // Set after it was opened, by another mount.
    set();
    guest.write(roots, handle, b"bytes").unwrap();
    assert_eq!(left(), 0o777, "written to");
    set();
    let hole = [longs(&[handle, 0, 5]), words(&[3, 0])].concat();
    guest.ask(FALLOCATE, roots, &hole).unwrap();
    assert_eq!(left(), 0o777, "a hole was made in it");
    set();
    let own = [words(&[O_RDWR | O_TRUNC | 0o100, 0o100_644, 0, 0]), text("roots")].concat();
    guest.ask(CREATE, tmp, &own).unwrap();
    assert_eq!(left(), 0o777, "cut off by who asks to make it");
    set();
    assert_eq!(guest.write(roots, handle, b"").map(drop), Ok(()));
    assert_eq!(left(), 0o6777, "nothing was written");
}

#[test]
fn nobody_gives_a_file_of_another_a_name_who_may_not_read_and_write_it() {
    let Some(shared) = Shared::new() else { return };
    let dfs = mounted(&shared);
    let guest = shared.guest();
    let (tmp, roots) = in_tmp(&guest, "roots");
    let all = guest.lookup(ROOT, "all").unwrap();
    let link = |node: u64, name: &str| guest.ask(LINK, tmp, &[longs(&[node]), text(name)].concat()).map(drop);
    assert_eq!(link(all, "a"), Err(EPERM), "he may read it alone");
    assert_eq!(link(roots, "b"), Ok(()));
    dfs.set_attrs("tmp/roots", &SetAttrs { mode: Some(0o4666), ..SetAttrs::KEEP }, Follow::Yes).unwrap();
    assert_eq!(link(roots, "c"), Err(EPERM), "it lends the rights of its owner");
    guest.create(tmp, "own").unwrap();
    let own = guest.lookup(tmp, "own").unwrap();
    assert_eq!(link(own, "d"), Ok(()));
    assert_eq!(dfs.stat("all").unwrap().links, 1);
    assert_eq!(dfs.stat("tmp/roots").unwrap().links, 2);
}

#[test]
fn lists_decide_in_snapshots_as_they_do_in_files() {
    let Some(shared) = Shared::new() else { return };
    let dfs = mounted(&shared);
    dfs.open("listed", &OpenOptions { mode: 0o640, ..OpenOptions::CREATE })
        .unwrap()
        .write_at(0, b"x")
        .unwrap();
    dfs.set_attrs("listed", &SetAttrs { gid: Some(OTHER_GID), ..SetAttrs::KEEP }, Follow::Yes).unwrap();
    // The group has nothing, and somebody else all that the mask lets him have: the mode shows the mask.
    let mut list = vec![2, 0, 0, 0];
    for (tag, rights, id) in
        [(1_u16, 6_u16, u32::MAX), (2, 6, 7), (4, 0, u32::MAX), (16, 6, u32::MAX), (32, 0, u32::MAX)]
    {
        list.extend_from_slice(&tag.to_le_bytes());
        list.extend_from_slice(&rights.to_le_bytes());
        list.extend_from_slice(&id.to_le_bytes());
    }
    dfs.set_xattr("listed", "system.posix_acl_access", &list, XattrCond::Any, Follow::Yes).unwrap();
    shared.cont.create_snapshot(Some("then")).unwrap();
    let guest = shared.guest();
    let now = guest.lookup(ROOT, "listed").unwrap();
    assert_eq!(guest.open(now, 0), Err(EACCES));
    let snapshots = guest.lookup(ROOT, ".snapshots").unwrap();
    let then = guest.lookup(snapshots, "then").unwrap();
    let listed = guest.lookup(then, "listed").unwrap();
    assert_eq!(guest.open(listed, 0), Err(EACCES));
}

#[test]
fn who_is_kept_out_of_the_root_comes_to_no_snapshot_of_it() {
    let Some(shared) = Shared::new() else { return };
    let dfs = mounted(&shared);
    shared.cont.create_snapshot(Some("then")).unwrap();
    let guest = shared.guest();
    let snapshots = guest.lookup(ROOT, ".snapshots").unwrap();
    let list = || guest.ask(OPEN_DIR, snapshots, &words(&[0, 0])).map(drop);
    assert_eq!(list(), Ok(()));
    for (mode, may_list, may_pass) in
        [(0o754, true, false), (0o751, false, true), (0o750, false, false), (0o755, true, true)]
    {
        dfs.chmod("/", mode).unwrap();
        let may = |done: Result<(), i32>| {
            done.map_or_else(
                |errno| {
                    assert_eq!(errno, EACCES);
                    false
                },
                |()| true,
            )
        };
        assert_eq!(may(list()), may_list, "{mode:o}");
        assert_eq!(may(guest.lookup(snapshots, "then").map(drop)), may_pass, "{mode:o}");
        assert_eq!(may(guest.lookup(ROOT, ".snapshots").map(drop)), may_pass, "{mode:o}");
    }
}

#[test]
fn attributes_are_for_files_and_directories_of_who_sets_them() {
    let Some(shared) = Shared::new() else { return };
    let dfs = mounted(&shared);
    dfs.symlink("all", "tmp/link").unwrap();
    dfs.open_dir("tmp").unwrap().make("pipe", New::Pipe, 0o666).unwrap();
    let guest = shared.guest();
    let set = |node| guest.ask(SET_XATTR, node, &[words(&[1, 0]), text("user.a"), vec![b'v']].concat());
    let (tmp, link) = in_tmp(&guest, "link");
    assert_eq!(set(link), Err(EPERM), "everybody has all rights to a link");
    assert_eq!(set(in_tmp(&guest, "pipe").1), Err(EPERM));
    assert_eq!(set(tmp), Err(EPERM), "a sticky directory is its owner's");
    assert_eq!(set(in_tmp(&guest, "roots").1).map(drop), Ok(()));
}

#[test]
fn who_has_a_file_open_to_be_written_gets_no_lock_to_read() {
    let Some(shared) = Shared::new() else { return };
    let guest = shared.guest();
    let (_, roots) = in_tmp(&guest, "roots");
    let handle = guest.open(roots, 1).unwrap();
    assert_eq!(guest.lock(roots, handle, 0, false), Err(EBADF));
    assert_eq!(guest.lock(roots, handle, 1, false).map(drop), Ok(()));
}

#[test]
fn what_a_session_has_open_works_on_when_others_remove_it() {
    let Some(shared) = Shared::new() else { return };
    let dfs = mounted(&shared);
    let guest = shared.guest();
    let (_, roots) = in_tmp(&guest, "roots");
    let handle = guest.open(roots, O_RDWR).unwrap();
    guest.write(roots, handle, b"bytes").unwrap();
    dfs.unlink("tmp/roots").unwrap();
    assert_eq!(guest.read(roots, handle), Ok(b"bytes".to_vec()));
    guest.write(roots, handle, b"stone").unwrap();
    assert_eq!(guest.read(roots, handle), Ok(b"stone".to_vec()));
    let attrs = guest.ask(GET_ATTR, roots, &[0; 16]).unwrap();
    assert_eq!((long(&attrs, 16 + 8), word(&attrs, 16 + 64)), (5, 0), "length and names");
    guest.ask(RELEASE, roots, &longs(&[handle, 0, 0])).unwrap();
    until("nothing is left of it", || dfs.check(false).unwrap().orphans == 0);
}

#[test]
fn a_session_takes_no_locks_from_others() {
    let Some(shared) = Shared::new() else { return };
    let guest = shared.guest();
    let (_, roots) = in_tmp(&guest, "roots");
    let handle = guest.open(roots, O_RDWR).unwrap();
    // Of many owners, each of whom has not much: what they are held against is gone through one by one.
    let lock = |guest: &Guest, (node, handle): (u64, u64), at: u64| -> Told {
        let own = [longs(&[handle, at / 512, 2 * (at % 512), 2 * (at % 512)]), words(&[0, 1, 0, 0])].concat();
        guest.ask(32, node, &own)
    };
    let taken = (0..200_000).take_while(|at| lock(&guest, (roots, handle), *at).is_ok()).count();
    assert!(taken > 100_000, "{taken}");
    let root = Guest::of(shared.operator.pool.open_container(&name()).unwrap()).unwrap();
    let all = root.lookup(ROOT, "all").unwrap();
    let handle = root.open(all, O_RDWR).unwrap();
    for at in 0..1000 {
        assert_eq!(lock(&root, (all, handle), at).map(drop), Ok(()), "{at}");
    }
}

#[test]
fn numbers_at_all_edges_harm_no_session() {
    let Some(shared) = Shared::new() else { return };
    let guest = shared.guest();
    let (tmp, roots) = in_tmp(&guest, "roots");
    let handle = guest.open(roots, O_RDWR).unwrap();
    guest.write(roots, handle, b"bytes").unwrap();
    let dir = long(&guest.ask(27, tmp, &words(&[0, 0])).unwrap(), 0);
    let edges = [
        0,
        1,
        2,
        5,
        4095,
        4096,
        1 << 20,
        (1 << 20) - 1,
        1 << 31,
        1 << 32,
        u64::from(u32::MAX),
        1 << 40,
        1 << 52,
        1 << 60,
        1 << 62,
        (1 << 63) - 1,
        1 << 63,
        (1 << 63) + 1,
        u64::MAX - 1,
        u64::MAX,
    ];
    let lens = [0_u32, 1, 4096, 1 << 20, (1 << 20) + 1, 1 << 31, u32::MAX];
    // What is answered does not matter, but that it is.
    let try_it = |code: u32, node: u64, own: &[u8]| drop(guest.ask(code, node, own));
    for a in edges {
        for b in lens {
            try_it(15, roots, &[longs(&[handle, a]), words(&[b, 0]), longs(&[0]), words(&[0, 0])].concat());
            try_it(28, tmp, &[longs(&[dir, a]), words(&[b, 0]), longs(&[0]), words(&[0, 0])].concat());
            try_it(44, tmp, &[longs(&[dir, a]), words(&[b, 0]), longs(&[0]), words(&[0, 0])].concat());
            try_it(46, roots, &[longs(&[handle, a]), words(&[b, 0])].concat());
            try_it(46, roots, &[longs(&[handle, a]), words(&[3 + b % 2, 0])].concat());
        }
        for flags in [2, 0o2002] {
            let head = [longs(&[handle, a]), words(&[1, 0]), longs(&[0]), words(&[flags, 0])].concat();
            try_it(16, roots, &[&head[..], b"x"].concat());
        }
        for b in edges {
            for mode in [0, 1, 3, 0x10, 0x11, u32::MAX] {
                try_it(43, roots, &[longs(&[handle, a, b]), words(&[mode, 0])].concat());
            }
            for kind in 0..4 {
                for code in 31..34 {
                    try_it(
                        code,
                        roots,
                        &[longs(&[handle, 7, a, b]), words(&[kind, 1, kind & 1, 0])].concat(),
                    );
                }
            }
        }
        // Length, and times.
        let mut own = [words(&[8, 0]), longs(&[0, a]), vec![0; 64]].concat();
        own.resize(88, 0);
        try_it(4, roots, &own);
        let mut own =
            [words(&[0x30, 0]), longs(&[0, 0, 0, a, a, a]), words(&[a as u32, a as u32, a as u32, 0])]
                .concat();
        own.resize(88, 0);
        try_it(4, roots, &own);
        let mut own = [words(&[1, 0]), vec![0; 60], words(&[a as u32, 0, 0, 0])].concat();
        own.resize(88, 0);
        try_it(4, roots, &own);
    }
    assert!(guest.lookup(ROOT, "all").is_ok());
    assert!(shared.served.notes.lock().unwrap().iter().all(|note| !note.contains("panic")));
}

#[test]
fn a_session_has_so_many_directories_open_and_no_more() {
    const EMFILE: i32 = 24;
    let Some(shared) = Shared::new() else { return };
    let guest = shared.guest();
    let open = || guest.ask(OPEN_DIR, ROOT, &words(&[0, 0])).map(|told| long(&told, 0));
    let first = open().unwrap();
    assert!((1..1024).all(|_| open().is_ok()));
    assert_eq!(open(), Err(EMFILE));
    let file = guest.lookup(ROOT, "all").unwrap();
    assert!(guest.open(file, 0).is_ok(), "of files there is room");
    guest.ask(29, ROOT, &longs(&[first, 0, 0])).unwrap();
    assert!(open().is_ok());
}

#[test]
fn a_session_that_is_lost_with_much_open_holds_nobody_up() {
    let Some(shared) = Shared::new() else { return };
    let dfs = mounted(&shared);
    for _ in 0..10 {
        let guest = shared.guest();
        let tmp = guest.lookup(ROOT, "tmp").unwrap();
        // What has no name is freed when it is closed, which takes questions to the very daemon that has lost the connection.
        for number in 0..20 {
            let name = format!("gone{number}");
            let made = guest.create(tmp, &name).unwrap();
            guest.write(long(&made, 0), long(&made, 128), b"bytes").unwrap();
            guest.ask(UNLINK, tmp, &text(&name)).unwrap();
        }
        drop(guest);
        let began_ns = RealClock.monotonic_ns();
        assert!(dfs.stat("all").is_ok());
        assert!(shared.guest().lookup(ROOT, "all").is_ok());
        let took_ns = RealClock.monotonic_ns() - began_ns;
        assert!(took_ns < 10_000_000_000, "{took_ns} ns");
    }
    until("all is closed", || dfs.check(false).unwrap().orphans == 0);
}
