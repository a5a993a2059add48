//! Two mounts that change one container.

use super::common::{World, cat, put};
use dolmen_dfs::{Error, OpenOptions, RenameMode};

#[test]
fn a_mount_sees_what_another_one_changes() {
    let world = World::new(2);
    let (one, two) = (world.mount_shared(), world.mount_shared());
    one.mkdir("/a", 0o755).unwrap();
    put(&one, "/a/f", b"1").close().unwrap();
    assert_eq!(cat(&two, "/a/f"), b"1");
    two.rename("/a", &two, "/b", RenameMode::Replace).unwrap();
    assert_eq!(one.stat("/a/f").unwrap_err(), Error::NotFound);
    assert_eq!(cat(&one, "/b/f"), b"1");
    assert_eq!(one.open("/b/f", &OpenOptions::CREATE_NEW).unwrap_err(), Error::Exists);
    two.unlink("/b/f").unwrap();
    assert_eq!(one.stat("/b/f").unwrap_err(), Error::NotFound);
}

#[test]
fn nothing_is_added_to_a_directory_that_another_mount_removed() {
    let world = World::new(2);
    let (one, two) = (world.mount_shared(), world.mount_shared());
    one.mkdir("/d", 0o755).unwrap();
    let dir = one.open_dir("/d").unwrap();
    two.rmdir("/d").unwrap();
    let objects = world.object_count();
    assert_eq!(dir.mkdir("x", 0o755).unwrap_err(), Error::Stale);
    assert_eq!(dir.open("x", &OpenOptions::CREATE).unwrap_err(), Error::Stale);
    assert_eq!(one.mkdir("/d/x", 0o755).unwrap_err(), Error::NotFound);
    assert_eq!(world.object_count(), objects);
}

#[test]
fn two_mounts_cannot_make_a_circle_of_directories() {
    let world = World::new(2);
    let (one, two) = (world.mount_shared(), world.mount_shared());
    one.mkdir("/a", 0o755).unwrap();
    one.mkdir("/b", 0o755).unwrap();
    assert_eq!(one.rename("/a", &two, "/c", RenameMode::Replace).unwrap_err(), Error::CrossMount);
    let (in_a, in_b) = (one.open_dir("/a").unwrap(), two.open_dir("/b").unwrap());
    one.rename("/a", &one, "/b/a", RenameMode::Replace).unwrap();
    let circle = two.rename("/b", &two, "/a/b", RenameMode::Replace);
    assert_eq!(circle.unwrap_err(), Error::NotFound);
    let circle = one.rename("/b", &in_a, "b", RenameMode::Replace);
    assert_eq!(circle.unwrap_err(), Error::Invalid(dolmen_dfs::What::Cycle));
    assert!(in_b.stat("a").is_ok());
}

#[test]
fn appends_of_two_mounts_do_not_overwrite_each_other() {
    let world = World::new(2);
    let (one, two) = (world.mount_shared(), world.mount_shared());
    let (a, b) =
        (one.open("/log", &OpenOptions::APPEND).unwrap(), two.open("/log", &OpenOptions::APPEND).unwrap());
    let mut ends = Vec::new();
    for n in 0..20_u8 {
        ends.push(if n % 2 == 0 { &a } else { &b }.append(&[n; 10]).unwrap());
    }
    assert_eq!(ends, (0..20).map(|n| n * 10).collect::<Vec<u64>>());
    assert!(
        cat(&one, "/log").chunks(10).enumerate().all(|(n, part)| part.iter().all(|&b| usize::from(b) == n))
    );
}

#[test]
fn a_file_that_another_mount_removed_is_stale_and_is_not_brought_back() {
    let world = World::new(2);
    let (one, two) = (world.mount_shared(), world.mount_shared());
    one.mkdir("/keeps-the-root-there", 0o755).unwrap();
    let objects = world.object_count();
    let file = put(&one, "/f", b"data");
    let replaced = put(&one, "/g", b"old");
    two.unlink("/f").unwrap();
    put(&two, "/h", b"new").close().unwrap();
    two.rename("/h", &two, "/g", RenameMode::Replace).unwrap();
    for file in [&file, &replaced] {
        assert_eq!(file.read_at(0, &mut [0; 10]).unwrap_err(), Error::Stale);
        assert_eq!(file.write_at(0, b"more").unwrap_err(), Error::Stale);
        assert_eq!(file.append(b"more").unwrap_err(), Error::Stale);
        assert_eq!(file.set_len(9).unwrap_err(), Error::Stale);
        assert_eq!(file.set_len(0).unwrap_err(), Error::Stale);
        assert_eq!(file.punch_hole(0, 9).unwrap_err(), Error::Stale);
        assert_eq!(file.stat().unwrap_err(), Error::Stale);
    }
    drop((file, replaced));
    assert_eq!(cat(&one, "/g"), b"new");
    assert_eq!(world.object_count(), objects + 1, "/g");
    assert!(one.check(false).unwrap().is_clean());
}

#[test]
fn a_file_that_its_own_mount_unlinked_works_on_in_a_shared_one() {
    let world = World::new(2);
    let (one, two) = (world.mount_shared(), world.mount_shared());
    let file = put(&one, "/f", b"data");
    one.unlink("/f").unwrap();
    assert_eq!(two.stat("/f").unwrap_err(), Error::NotFound);
    file.write_at(4, b" more").unwrap();
    file.set_len(7).unwrap();
    let mut data = [0; 10];
    assert_eq!(file.read_at(0, &mut data).unwrap(), 7);
    assert_eq!(&data[..7], b"data mo");
    drop(file);
    assert!(two.check(false).unwrap().is_clean());
}
