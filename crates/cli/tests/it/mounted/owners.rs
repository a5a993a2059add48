//! Who may do what in a mount, and whose is what is made.

use super::{Mounted, can_be_others, limited};
use core::time::Duration;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::Command;

const USER: u32 = 12_345;
const GROUP: u32 = 23_456;

/// Runs a line of the shell as another user; its exit code.
fn as_user(mounted: &Mounted, uid: u32, gid: u32, line: &str) -> i32 {
    let mut command = user(uid, gid);
    command.args(["sh", "-c", line]).current_dir(mounted.path(""));
    limited(mounted, &command, Duration::from_secs(60)).status.code().unwrap_or(-1)
}

/// What runs a program as another user.
fn user(uid: u32, gid: u32) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={uid}"), format!("--regid={gid}")]).args(["--clear-groups", "--"]);
    command
}

#[test]
fn what_a_user_makes_is_his_and_others_may_do_what_its_mode_says() {
    if !can_be_others() {
        return;
    }
    let Some(mounted) = Mounted::served("owners", &["--allow-other", "--cache-timeout", "0"]) else { return };
    fs::set_permissions(mounted.path(""), fs::Permissions::from_mode(0o1777)).unwrap();
    let made = "umask 027; echo x > f; mkdir d; ln -s f l; mkfifo p";
    assert_eq!(as_user(&mounted, USER, GROUP, made), 0);
    for (name, mode) in [("f", 0o640), ("d", 0o750), ("p", 0o640)] {
        let found = fs::metadata(mounted.path(name)).unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (USER, GROUP, mode), "{name}");
    }
    assert_eq!(fs::symlink_metadata(mounted.path("l")).unwrap().uid(), USER);
    for (uid, gid, line, may) in [
        (USER, GROUP, "cat f && echo y >> f && chmod 640 f && touch d/x", true),
        (USER + 1, GROUP, "cat f && ls d", true),
        (USER + 1, GROUP, "echo y >> f", false),
        (USER + 1, GROUP, "touch d/y", false),
        (USER + 1, GROUP, "chmod 777 f", false),
        (USER + 1, GROUP, "rm -f f", false),
        (USER + 1, GROUP + 1, "cat f", false),
        (USER + 1, GROUP + 1, "ls d", false),
        (USER, GROUP, "chown 0 f", false),
    ] {
        assert_eq!(as_user(&mounted, uid, gid, line) == 0, may, "{uid}: {line}");
    }
    let shared = mounted.path("shared");
    fs::create_dir(&shared).unwrap();
    chown(&shared, Some(0), Some(GROUP + 9)).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o2777)).unwrap();
    assert_eq!(as_user(&mounted, USER, GROUP, "echo x > shared/f; mkdir shared/d"), 0);
    assert_eq!(fs::metadata(shared.join("f")).unwrap().gid(), GROUP + 9, "the directory gives its group");
    let sub = fs::metadata(shared.join("d")).unwrap();
    assert_eq!((sub.gid(), sub.mode() & 0o2000), (GROUP + 9, 0o2000));
    mounted.finish();
}

#[test]
fn others_are_kept_out_unless_they_are_let_in() {
    if !can_be_others() {
        return;
    }
    let Some(mounted) = Mounted::alone("kept-out", &[]) else { return };
    let mut command = user(USER, GROUP);
    command.arg("ls").arg(mounted.path(""));
    let output = limited(&mounted, &command, Duration::from_secs(60));
    assert!(!output.status.success());
    mounted.finish();
}

#[test]
fn access_control_lists_have_a_say_and_are_handed_down() {
    use rustix::fs::{XattrFlags, setxattr};
    if !can_be_others() {
        return;
    }
    let Some(mounted) = Mounted::served("lists", &["--allow-other", "--cache-timeout", "0"]) else { return };
    fs::set_permissions(mounted.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let dir = mounted.path("d");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o750)).unwrap();
    // As linux/posix_acl_xattr.h has it: version 2; owner rwx, the user rwx, group r-x, mask rwx, others nothing.
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, who) in
        [(1_u16, 7_u16, u32::MAX), (2, 7, USER), (4, 5, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)]
    {
        list.extend_from_slice(&[&tag.to_le_bytes()[..], &rights.to_le_bytes(), &who.to_le_bytes()].concat());
    }
    for name in ["system.posix_acl_access", "system.posix_acl_default"] {
        setxattr(&dir, name, &list, XattrFlags::empty()).unwrap();
    }
    fs::write(dir.join("f"), b"stone").unwrap();
    for (uid, line, may) in [
        (USER, "cat d/f && echo x >> d/f && touch d/g", true),
        (USER + 1, "cat d/f", false),
        (USER + 1, "touch d/h", false),
    ] {
        assert_eq!(as_user(&mounted, uid, GROUP, line) == 0, may, "{uid}: {line}");
    }
    assert_eq!(fs::metadata(dir.join("g")).unwrap().uid(), USER);
    mounted.finish();
}

#[test]
fn a_group_is_given_by_who_is_in_it_and_a_program_that_changes_hands_loses_its_rights() {
    if !can_be_others() {
        return;
    }
    let Some(mounted) = Mounted::served("groups", &["--allow-other", "--cache-timeout", "0"]) else { return };
    fs::set_permissions(mounted.path(""), fs::Permissions::from_mode(0o1777)).unwrap();
    let run = |line: &str| {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={USER}"), format!("--regid={GROUP}")]);
        command.arg(format!("--groups={GROUP},{}", GROUP + 1)).args(["--", "sh", "-c", line]);
        command.current_dir(mounted.path(""));
        limited(&mounted, &command, Duration::from_secs(60)).status.success()
    };
    let seen = || {
        let found = fs::metadata(mounted.path("f")).unwrap();
        (found.uid(), found.gid(), found.mode() & 0o7777)
    };
    assert!(run("echo x > f; chmod 6755 f"));
    assert_eq!(seen(), (USER, GROUP, 0o6755));
    assert!(!run(&format!("chgrp {} f", GROUP + 2)), "he is not in that group");
    assert!(!run(&format!("chown {} f", USER + 1)));
    assert_eq!(seen(), (USER, GROUP, 0o6755));
    assert!(run(&format!("chgrp {} f", GROUP + 1)));
    assert_eq!(seen(), (USER, GROUP + 1, 0o755), "a program loses the rights of its owner and group");
    assert!(run("chmod 6755 f; echo y >> f"));
    assert_eq!(seen(), (USER, GROUP + 1, 0o755), "so does one that is written to");
    assert!(run("chmod 6755 f; : > f"));
    assert_eq!(seen(), (USER, GROUP + 1, 0o755), "and one that is cut");
    assert!(run("chmod 6745 f; echo y >> f"));
    assert_eq!(seen(), (USER, GROUP + 1, 0o2745), "the group does not run it: the bit means something else");
    assert!(run("chmod 6755 f"));
    chown(mounted.path("f"), Some(USER + 1), Some(GROUP)).unwrap();
    assert_eq!(seen(), (USER + 1, GROUP, 0o755), "also by the hand of root");
    mounted.finish();
}
