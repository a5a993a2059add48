//! Mounts of a user who is not root, through `fusermount3`.
//!
//! Each test has a view of the system of its own (namespaces of mounts and processes), in which any user may use `/dev/fuse`,
//! `/etc/fuse.conf` says what the test wants, and the files of the test are where everybody can reach them. All of it, the
//! processes and the mounts, is gone when its first process is killed.

use super::{MOMENT, Running, can_be_others, can_mount, ended, has, pid};
use crate::common::{Place, Ran};
use crate::untested::untested;
use nix::sys::signal::{Signal, kill};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// Who mounts: `fusermount3` asks for the name of its user.
pub(super) const USER: &str = "nobody";
/// Somebody else.
pub(super) const OTHER: &str = "4711";
pub(super) const ROOT: &str = "0";

/// What the first process does: the place is at `/mnt/place`, and the device is everybody's.
const VIEW: &str = "
mount -t tmpfs -o dev,exec,suid,mode=755 tmpfs /mnt
mkdir /mnt/place
mount --bind \"$0\" /mnt/place
mknod -m 666 /mnt/fuse c 10 229
mount --bind /mnt/fuse /dev/fuse
mount --bind \"$0/fuse.conf\" /etc/fuse.conf
: < /dev/fuse
: > \"$0/ready\"
sleep 600
";

pub(super) struct View {
    // In the order in which they go.
    _first: Running,
    inside: u32,
    place: Place,
}

impl View {
    /// A view with a pool of the user's, and a container in it; `None` where no such view can be made.
    pub(super) fn new(name: &str, fuse_conf: &str) -> Option<Self> {
        if !can_be_others() || !has("fusermount3") || !can_mount(name) {
            return None;
        }
        let place = Place::new(&format!("unprivileged-{name}"));
        let dir = place.path("");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        // By another process: what another test starts would have the file open to be written for a moment, and it could not run.
        let copied =
            Command::new("cp").args([env!("CARGO_BIN_EXE_dolmen"), "dolmen"]).current_dir(&dir).status();
        assert!(copied.unwrap().success());
        fs::write(place.path("fuse.conf"), fuse_conf).unwrap();
        let mut unshare = Command::new("unshare");
        unshare.args([
            "--mount",
            "--propagation",
            "private",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ]);
        unshare
            .args(["sh", "-e", "-c", VIEW])
            .arg(&dir)
            .stderr(fs::File::create(place.path("view.log")).unwrap());
        let mut first = Running::of(unshare.stdout(Stdio::null()));
        super::wait_until("the view is there", || place.path("ready").exists() || first.is_over());
        if first.is_over() {
            let said = fs::read_to_string(place.path("view.log")).unwrap();
            untested("DOLMEN_TEST_USERS", &format!("no view of its own can be made: {said}"));
            return None;
        }
        let children = format!("/proc/{0}/task/{0}/children", first.0.id());
        let inside = fs::read_to_string(children).unwrap().trim().parse().unwrap();
        let view = Self { _first: first, inside, place };
        assert_eq!(view.sh(USER, "mkdir sys mnt"), (0, String::new()));
        let pool = "./dolmen pool create sys/p --targets 1 --log-segment 1M --bulk-segment 1M";
        assert_eq!(view.sh(USER, &format!("{pool} || {pool} --volatile")).0, 0);
        assert_eq!(view.sh(USER, "./dolmen cont create sys/p c").0, 0);
        Some(view)
    }

    fn ran(&self, user: &str, line: &str) -> Ran {
        let group = if user == USER { "65534" } else { user };
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--pid", "--target", &self.inside.to_string(), "--"]);
        command.args([
            "setpriv",
            &format!("--reuid={user}"),
            &format!("--regid={group}"),
            "--clear-groups",
            "--",
        ]);
        // What the caller keeps for himself may be where others have no access.
        command.arg("env");
        command.args(
            ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"]
                .map(|name| format!("--unset={name}")),
        );
        command.args(["HOME=/mnt/place", "sh", "-c", &format!("cd /mnt/place; {line}")]);
        let output = ended(&self.place, command, MOMENT, || {
            // Who waits for a mount goes on when its process is gone, and that goes with the first.
            kill(pid(self.inside), Signal::SIGKILL).unwrap_or_default();
            String::new()
        });
        Ran::of(line, output)
    }

    /// Runs a line of the shell as a user; its exit code and what it has said.
    pub(super) fn sh(&self, user: &str, line: &str) -> (i32, String) {
        let ran = self.ran(user, line);
        (ran.code(), ran.stdout() + &ran.stderr())
    }

    /// What must fail with `code`; the one line.
    pub(super) fn fails(&self, user: &str, code: i32, line: &str) -> String {
        let (found, said) = self.sh(user, line);
        assert_eq!((found, said.lines().count()), (code, 1), "{line}: {said}");
        said
    }
}

const MOUNT: &str = "./dolmen mount sys/p c mnt --log log";
/// Who serves may still be counted as a user of the mount for a moment, as what was forked beside this is.
pub(super) const UNMOUNT: &str = "for n in $(seq 100); do ./dolmen unmount mnt 2>said && exit 0 || [ $? = 5 ] || break; sleep 0.1; done; cat said; exit 1";

#[test]
fn a_user_mounts_what_is_his_and_takes_it_away() {
    let Some(view) = View::new("own", "") else { return };
    assert_eq!(view.sh(USER, MOUNT).0, 0);
    assert_eq!(
        view.sh(USER, "echo stone > mnt/f; mkdir mnt/d; ls mnt; cat mnt/f; stat -c %U mnt/f"),
        (0, "d\nf\nstone\nnobody\n".to_owned())
    );
    assert_eq!(
        view.sh(USER, "grep -c 'mnt fuse.dolmen .*nosuid,nodev.*user_id=65534' /proc/mounts").1,
        "1\n"
    );
    for who in [OTHER, ROOT] {
        let (code, said) = view.sh(who, "cat mnt/f");
        assert!(code != 0 && said.contains("Permission denied"), "{who}: {code} {said}");
    }
    let line = view.fails(OTHER, 8, "./dolmen unmount mnt");
    assert!(line.contains("its user takes it away, or root"), "{line}");
    let line = view.fails(USER, 5, MOUNT);
    assert!(line.contains("is mounted there already"), "{line}");
    assert_eq!(view.sh(USER, UNMOUNT).0, 0);
    assert_eq!(view.sh(USER, "./dolmen fs cat sys/p c /f"), (0, "stone\n".to_owned()));
    assert!(view.sh(USER, "./dolmen check sys/p").1.contains("clean"));
    // Root takes away what is somebody else's.
    assert_eq!(view.sh(USER, MOUNT).0, 0);
    assert_eq!(view.sh(ROOT, UNMOUNT).0, 0);
    drop(view);
}

#[test]
fn a_user_lets_in_others_where_the_system_lets_him() {
    let Some(view) = View::new("others", "# user_allow_other\nmount_max = 1000\n") else { return };
    let line = view.fails(USER, 8, &format!("{MOUNT} --allow-other"));
    assert!(line.contains("user_allow_other") && line.contains("leave out --allow-other"), "{line}");
    fs::write(view.place.path("fuse.conf"), "mount_max = 1000\nuser_allow_other\n").unwrap();
    assert_eq!(view.sh(USER, &format!("{MOUNT} --allow-other --cache-timeout 0")).0, 0);
    let made = "umask 027; chmod 1777 mnt; echo stone > mnt/f; echo all > mnt/g; chmod 666 mnt/g";
    assert_eq!(view.sh(USER, made).0, 0);
    for (who, line, may) in [
        (OTHER, "cat mnt/g && echo x >> mnt/g && mkdir mnt/d && touch mnt/d/f", true),
        (OTHER, "cat mnt/f", false),
        (OTHER, "chmod 777 mnt/g", false),
        (OTHER, "rm -f mnt/g", false),
        (USER, "touch mnt/d/g", false),
        (USER, "cat mnt/f && rm mnt/f", true),
        (ROOT, "cat mnt/g", true),
    ] {
        let (code, said) = view.sh(who, line);
        assert_eq!(code == 0, may, "{who}: {line}: {said}");
    }
    assert_eq!(view.sh(USER, "stat -c %u:%g mnt/d mnt/d/f").1, "4711:4711\n4711:4711\n");
    assert_eq!(view.sh(USER, UNMOUNT).0, 0);
}

#[test]
fn what_a_user_may_not_do_is_told_with_a_remedy() {
    let Some(view) = View::new("may-not", "") else { return };
    assert_eq!(view.sh(ROOT, "mkdir -m 755 roots").0, 0);
    let line = view.fails(USER, 8, "./dolmen mount sys/p c roots --log log");
    assert!(line.contains("see that the directory is yours to write"), "{line}");
    let line = view.fails(OTHER, 8, "./dolmen mount sys/p c mnt --log others.log");
    assert!(line.contains("sys/p"), "{line}");
    assert_eq!(view.sh(USER, MOUNT).0, 0);
    let line = view.fails(OTHER, 8, "./dolmen bench posix mnt -b 0 -n 1");
    assert!(line.contains("mnt: permission denied"), "{line}");
    assert_eq!(view.sh(USER, UNMOUNT).0, 0);
    let line = view.fails(USER, 3, &format!("PATH=/nowhere {MOUNT}"));
    assert!(line.contains("install the package fuse3"), "{line}");
    assert_eq!(view.sh(ROOT, "chmod 600 /mnt/fuse").0, 0);
    let line = view.fails(USER, 8, MOUNT);
    assert!(line.contains("you may not use /dev/fuse"), "{line}");
    // A system whose kernel has no such device.
    assert_eq!(view.sh(ROOT, "umount /dev/fuse; rm /mnt/fuse; mknod -m 666 /mnt/fuse c 10 255").0, 0);
    assert_eq!(view.sh(ROOT, "mount --bind /mnt/fuse /dev/fuse").0, 0);
    for who in [USER, ROOT] {
        let line = view.fails(who, 3, MOUNT);
        assert!(line.contains("load the kernel's module fuse"), "{line}");
    }
    assert!(view.sh(USER, "./dolmen check sys/p").1.contains("clean"));
}

#[test]
fn what_fusermount3_says_is_told_with_a_remedy() {
    let Some(view) = View::new("declined", "mount_max = 1000\n") else { return };
    // Somebody of whom no line of /etc/passwd tells.
    assert_eq!(view.sh(ROOT, "mkdir -p o/mnt bin; chown -R 4711 o; cp $(command -v fusermount3) bin").0, 0);
    let pool = "./dolmen pool create o/p --targets 1 --log-segment 1M --bulk-segment 1M";
    assert_eq!(view.sh(OTHER, &format!("{pool} || {pool} --volatile")).0, 0);
    assert_eq!(view.sh(OTHER, "./dolmen cont create o/p c").0, 0);
    let line = view.fails(OTHER, 8, "./dolmen mount o/p c o/mnt --log o/log");
    assert!(line.contains("fusermount3 says: could not determine username"), "{line}");
    assert!(line.contains("the name of user 4711: add a line for him to /etc/passwd"), "{line}");
    // One that is not set-user-id, and one that is no program.
    let line = view.fails(USER, 8, &format!("PATH=/mnt/place/bin {MOUNT}"));
    assert!(line.contains("fusermount3 says: mount failed: Operation not permitted"), "{line}");
    assert!(line.contains("root's, with mode 4755") && line.contains("--cap-add SYS_ADMIN"), "{line}");
    assert_eq!(view.sh(ROOT, "chmod 644 bin/fusermount3").0, 0);
    let line = view.fails(USER, 8, &format!("PATH=/mnt/place/bin {MOUNT}"));
    assert!(line.contains("fusermount3 failed: Permission denied") && line.contains("mode 4755"), "{line}");
    // Root that may not mount, as in a container.
    let bare =
        "setpriv --inh-caps=-sys_admin --bounding-set=-sys_admin -- ./dolmen mount sys/p c mnt --log log";
    let line = view.fails(ROOT, 8, bare);
    assert!(line.contains("Operation not permitted") && line.contains("--cap-add SYS_ADMIN"), "{line}");
    let line = view.fails(ROOT, 8, &bare.replace("./dolmen", "env PATH=/nowhere ./dolmen"));
    assert!(line.contains("root may not mount here") && line.contains("--cap-add SYS_ADMIN"), "{line}");
    // As many mounts as users may have: those of other tests count, too.
    assert_eq!(view.sh(USER, MOUNT).0, 0);
    fs::write(view.place.path("fuse.conf"), "mount_max = 1\n").unwrap();
    assert_eq!(
        view.sh(USER, "mkdir more; ./dolmen pool create q --targets 1 --volatile; ./dolmen cont create q c")
            .0,
        0
    );
    let line = view.fails(USER, 8, "./dolmen mount q c more --log log");
    assert!(
        line.contains("too many FUSE filesystems mounted") && line.contains("have mount_max raised"),
        "{line}"
    );
    // What it is taken away by is told in the same way.
    let line = view.fails(USER, 8, "PATH=/mnt/place/bin ./dolmen unmount mnt");
    assert!(line.contains("mode 4755, or have root take it away"), "{line}");
    let line = view.fails(USER, 3, "PATH=/nowhere ./dolmen unmount mnt");
    assert!(line.contains("install the package fuse3, or have root take it away"), "{line}");
    let line = view.fails(USER, 5, "cd mnt; ../dolmen unmount ../mnt");
    assert!(line.contains("somebody uses it"), "{line}");
    assert_eq!(view.sh(USER, UNMOUNT).0, 0);
}
