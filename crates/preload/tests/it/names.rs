//! Names that several processes look at and change, past the kernel and through it.

use crate::mounted::{Mounted, program};
use crate::untested::untested;
use crate::{amount, says_the_same, taken};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

#[test]
fn random_operations_on_names_match_a_model_in_two_processes_by_turns() {
    let Some(mut mounted) = Mounted::new("names") else { return };
    let names = program(&mounted, "names");
    let seed = amount("PRELOAD_SEED", 7);
    let steps = amount("PRELOAD_NAMES", 250);
    // In the last ones a daemon is killed.
    let pairs = [
        (["taken", "plain"], false),
        (["plain", "taken"], false),
        (["taken", "taken"], true),
        (["taken", "plain"], true),
    ];
    for (at, (kinds, is_killed)) in (seed..).zip(pairs) {
        let dir = mounted.path(&format!("{at}"));
        fs::create_dir(&dir).unwrap();
        let mut command = mounted.command(&names, true);
        command.arg(dir).args([at.to_string(), steps.to_string()]).args(kinds);
        let (output, _) = mounted.limited_between(&mut command, "ready", |mounted| {
            if is_killed {
                mounted.kill_and_start_daemon();
            }
        });
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success() && out.ends_with("done\n"), "seed {at}, {kinds:?}: {out}\n{err}");
        for line in err.lines().filter(|line| taken(line, "stat") > 0) {
            assert!(taken(line, "known") > steps / 10, "{line}");
            assert!(taken(line, "name") > steps / 4 && taken(line, "attr") > steps / 16, "{line}");
            assert!(taken(line, "list") > steps / 16, "{line}");
        }
    }
    mounted.finish();
}

#[test]
fn a_name_is_asked_for_once_until_somebody_else_changes_it() {
    const LINES: &str = r#"
import ctypes, os, subprocess
own = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
def by_mount(line): subprocess.run(["sh", "-c", line], env=own, check=True)
def exists(name):
    try: return os.stat(name) is not None
    except FileNotFoundError: return False
by_mount("printf stone > a")
for i in range(500): assert os.stat("a").st_size == 5 and not exists("b")
for i in range(20):
    by_mount("printf x >> a; mv a b")
    for j in range(5): assert os.stat("b").st_size == 6 + i and not exists("a")
    by_mount(f"mv b a; chmod {600 + i % 8} a")
    for j in range(5): assert os.stat("a").st_mode & 0o777 == 0o600 + i % 8 and not exists("b")
# What it does itself nobody tells it.
for i in range(20):
    with open("a", "ab", buffering=0) as f:
        f.write(b"y"); assert os.stat("a").st_size == 26 + 2 * i
        f.write(b"z"); assert os.stat("a").st_size == 27 + 2 * i
    open("a", "rb").close(); assert os.stat("a").st_size == 27 + 2 * i
    assert not exists(f"c{i}"); open(f"c{i}", "xb").close(); assert exists(f"c{i}")
    os.truncate("a", 27 + 2 * i); assert os.stat("a").st_size == 27 + 2 * i
    os.unlink(f"c{i}"); assert not exists(f"c{i}")
# The thread that listens goes when nobody looks any more.
while len(os.listdir("/proc/self/task")) > 1: os.sched_yield()
assert os.stat("a").st_size == 65
pid = os.fork()
if pid == 0:
    for i in range(50): assert os.stat("a").st_size == 65
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
# Nor does it keep the process from what the kernel lets none with threads do.
for i in range(50): assert os.stat("a").st_size == 65 and not exists(f"d{i}")
assert len(os.listdir("/proc/self/task")) == 2 and ctypes.CDLL(None).unshare(0x800) == 0
"#;
    let Some(mounted) = Mounted::new("known") else { return };
    let mut command = mounted.command(Path::new("python3"), true);
    let output = mounted.limited(command.args(["-c", LINES]).current_dir(mounted.path("")));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    let last = err.lines().last().unwrap();
    assert!(taken(last, "known") > 1000 && taken(last, "stat") > taken(last, "known"), "{err}");
    mounted.finish();
}

#[test]
fn who_stands_still_keeps_nobody_waiting_for_long_and_then_believes_nothing() {
    const LINES: &str = r#"
import os, signal, subprocess, sys, time
own = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
subprocess.run(["sh", "-c", "printf stone > a"], env=own, check=True)
for i in range(100): assert os.stat("a").st_size == 5
# Whoever changes it waits for this process, which stands still until it is done.
line = f"kill -STOP {os.getpid()}; printf menhir >> a; kill -CONT {os.getpid()}"
began = time.monotonic()
child = subprocess.Popen(["sh", "-c", line], env=own)
size = 5
while size == 5: size = os.stat("a").st_size
assert size == 11 and child.wait() == 0
assert time.monotonic() - began < 15
"#;
    let Some(mounted) = Mounted::new("still") else { return };
    let mut command = mounted.command(Path::new("python3"), true);
    let output = mounted.limited(command.args(["-c", LINES]).current_dir(mounted.path("")));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    assert!(taken(err.lines().last().unwrap(), "known") > 90, "{err}");
    mounted.finish();
}

/// Calls on names and attributes, each with its result; what is printed must be the same with the library and without.
const CALLS: &str = r#"
import errno, os, stat, subprocess, sys
def say(what, call, *args, **named):
    try: told = call(*args, **named)
    except OSError as error: told = errno.errorcode[error.errno]
    print(what, args, named, told if not isinstance(told, os.stat_result) else (oct(told.st_mode), told.st_nlink, told.st_uid, told.st_gid))
def attrs(name, follow=True):
    s = os.stat(name, follow_symlinks=follow)
    print(name, oct(s.st_mode), s.st_nlink if not stat.S_ISDIR(s.st_mode) else 0, s.st_uid, s.st_gid, s.st_size, s.st_mtime_ns if s.st_mtime < 1e9 else 0, s.st_atime_ns if s.st_atime < 1e9 else 0)
for i in range(30): os.path.exists("none")
os.umask(0o027)
say("mkdir", os.mkdir, "d", 0o777); say("mkdir", os.mkdir, "d"); say("mkdir", os.mkdir, "none/d"); say("mkdir", os.mkdir, "d/../e/", 0o1700)
attrs("d"); attrs("e")
os.close(os.open("f", os.O_CREAT | os.O_WRONLY, 0o666)); say("mkdir", os.mkdir, "f"); say("mkdir", os.mkdir, "f/d"); say("rmdir", os.rmdir, "f"); attrs("f")
say("symlink", os.symlink, "f", "l"); say("symlink", os.symlink, "f", "l"); say("symlink", os.symlink, "", "m"); say("symlink", os.symlink, "d", "ld"); attrs("l", False); attrs("l")
say("readlink", os.readlink, "l"); say("readlink", os.readlink, "f"); say("readlink", os.readlink, "none"); say("mkdir", os.mkdir, "ld/x"); say("unlink", os.unlink, "ld/x"); say("rmdir", os.rmdir, "ld")
say("link", os.link, "f", "g"); say("link", os.link, "f", "g"); say("link", os.link, "d", "h"); say("link", os.link, "none", "h"); say("link", os.link, "f", "d/f"); attrs("g")
say("link", os.link, "l", "k", follow_symlinks=False)
say("unlink", os.unlink, "d"); say("unlink", os.unlink, "g"); say("unlink", os.unlink, "g"); attrs("f")
say("rmdir", os.rmdir, "d"); say("rmdir", os.rmdir, "none"); say("rmdir", os.rmdir, "d/."); say("rmdir", os.rmdir, "d/x")
say("rename", os.rename, "f", "d"); say("rename", os.rename, "d", "f"); say("rename", os.rename, "e", "d"); say("rename", os.rename, "d", "d/x"); say("rename", os.rename, "none", "f"); say("rename", os.rename, "f", "none/f")
say("rename", os.rename, "f", "d/f"); say("rename", os.rename, "f", "d/new"); attrs("d/new"); say("rename", os.rename, "d", "e"); attrs("e/new"); say("rename", os.rename, "e/new", "new")
os.mkdir("deep"); os.mkdir("deep/er"); os.mkdir("other"); os.close(os.open("deep/er/f", os.O_CREAT | os.O_WRONLY, 0o600)); say("rename", os.rename, "deep/er", "other/er"); attrs("other/er/f"); say("access", os.access, "deep/er/f", os.F_OK); say("access", os.access, "other/er/f", os.R_OK)
os.chdir("other"); say("rename", os.rename, "er", "../moved"); os.chdir("../moved"); attrs("f"); attrs("../moved/f"); os.chdir("..")
say("mkfifo", os.mkfifo, "pipe", 0o600); attrs("pipe"); say("mknod", os.mknod, "node", 0o644 | stat.S_IFREG); attrs("node")
# What is open.
f = os.open("open", os.O_CREAT | os.O_RDWR, 0o600); os.write(f, b"stone"); say("unlink", os.unlink, "open"); say("pread", os.pread, f, 9, 0); say("fstat", os.fstat, f); os.close(f)
f = os.open("open", os.O_CREAT | os.O_RDWR, 0o600); os.write(f, b"stone"); say("rename", os.rename, "open", "moved/open"); os.write(f, b"s"); os.close(f); attrs("moved/open")
f = os.open("moved/open", os.O_RDWR); os.rename("moved", "moved2"); os.write(f, b"STONE"); say("fork", subprocess.run, ["true"]); say("pread", os.pread, f, 9, 0); os.close(f); attrs("moved2/open")
# Attributes.
say("chmod", os.chmod, "new", 0o4755); attrs("new"); say("chmod", os.chmod, "none", 0o644); say("chmod", os.chmod, "e", 0o700); say("chmod", os.chmod, "l", 0o644); attrs("e")
say("chown", os.chown, "new", 7, 8); attrs("new"); say("chown", os.chown, "none", 7, 8); say("lchown", os.lchown, "l", 3, 4); attrs("l", False); say("chown", os.chown, "node", -1, 9); attrs("node")
say("utime", os.utime, "node", ns=(5, 123456789)); attrs("node"); say("utime", os.utime, "node"); attrs("node"); say("utime", os.utime, "none"); say("utime", os.utime, "l", ns=(1, 2), follow_symlinks=False); attrs("l", False)
f = os.open("fd", os.O_CREAT | os.O_RDWR, 0o600); os.write(f, b"12345"); say("utime", os.utime, f, ns=(7, 8)); say("fchmod", os.fchmod, f, 0o640); say("fchown", os.fchown, f, 1, 2); say("fsetxattr", os.setxattr, f, "user.a", b"1"); say("fgetxattr", os.getxattr, f, "user.a"); say("flistxattr", os.listxattr, f); say("fremovexattr", os.removexattr, f, "user.a"); say("fstat", os.fstat, f); os.close(f); attrs("fd")
say("truncate", os.truncate, "fd", 3); attrs("fd"); say("truncate", os.truncate, "d", 3); say("truncate", os.truncate, "none", 3); say("truncate", os.truncate, "fd", 70000); attrs("fd")
say("setxattr", os.setxattr, "fd", "user.mark", b"x" * 300); say("setxattr", os.setxattr, "fd", "user.mark", b"y", os.XATTR_CREATE); say("setxattr", os.setxattr, "fd", "user.none", b"y", os.XATTR_REPLACE); say("getxattr", os.getxattr, "fd", "user.mark"); say("getxattr", os.getxattr, "fd", "user.none"); say("listxattr", os.listxattr, "fd"); say("setxattr", os.setxattr, "fd", "bad", b"y"); say("removexattr", os.removexattr, "fd", "user.mark"); say("removexattr", os.removexattr, "fd", "user.mark")
for name in ("deep", "e"): say("chmod", os.chmod, name, 0o750); say("chown", os.chown, name, 3, 4); say("utime", os.utime, name, ns=(3, 4)); say("setxattr", os.setxattr, name, "user.a", b"1"); say("getxattr", os.getxattr, name, "user.a"); say("listxattr", os.listxattr, name); say("removexattr", os.removexattr, name, "user.a"); attrs(name)
# The time of a directory is of its last change.
then = os.stat("deep").st_mtime_ns
while os.stat("deep").st_mtime_ns == then: os.mkdir("deep/x"); os.rmdir("deep/x")
say("list", lambda: sorted(os.listdir("."))); say("walk", lambda: sorted((a, sorted(b), sorted(c)) for a, b, c in os.walk(".")))
dir = os.open("deep", os.O_RDONLY | os.O_DIRECTORY); say("mkdir", os.mkdir, "by", dir_fd=dir); say("rename", os.rename, "by", "by2", src_dir_fd=dir, dst_dir_fd=dir); say("listdir", os.listdir, dir); say("rmdir", os.rmdir, "by2", dir_fd=dir); os.close(dir)
sys.stdout.flush()
"#;

#[test]
fn names_and_attributes_are_the_same_with_the_library_and_without() {
    let Some(mounted) = Mounted::new("calls") else { return };
    let run = |name: &str, is_taken: bool| {
        let dir = mounted.path(name);
        fs::create_dir(&dir).unwrap();
        let mut command = mounted.command(Path::new("python3"), is_taken);
        let output = mounted.limited(command.args(["-c", CALLS]).current_dir(&dir));
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{out}\n{err}");
        let mut command = mounted.command(Path::new("sh"), false);
        let line = "find . -printf '%p %y %m %U %G %l\n' | sort; find . -type f -printf '%p %n %s\n' | sort";
        let tree = mounted.limited(command.args(["-c", line]).current_dir(dir));
        (out, err, String::from_utf8(tree.stdout).unwrap())
    };
    let (expected, said, expected_tree) = run("plain", false);
    assert_eq!(said, "");
    let (found, report, tree) = run("taken", true);
    for (expected, found) in expected.lines().zip(found.lines()) {
        assert_eq!(found, expected, "in\n{report}");
    }
    assert_eq!((found.lines().count(), tree), (expected.lines().count(), expected_tree));
    for (kind, count_min) in [("name", 40), ("attr", 25)] {
        assert!(report.lines().any(|line| taken(line, kind) >= count_min), "{kind}: {report}");
    }
    mounted.finish();
}

#[test]
fn directories_are_listed_as_the_mount_lists_them() {
    let Some(mounted) = Mounted::new("dirs") else { return };
    let [plain, other] = ["plain", "taken"].map(|name| {
        let dir = mounted.path(name);
        fs::create_dir(&dir).unwrap();
        dir
    });
    let report = says_the_same(&mounted, "dirs", [&plain, &other]);
    assert!(report.lines().any(|line| taken(line, "list") >= 4), "{report}");
    mounted.finish();
}

/// What another user may do with names and attributes of what is his and what is not: told as above. He is in group 23,457 as well.
const ANOTHERS_CALLS: &str = r#"
import errno, os, stat, sys
def say(what, call, *args, **named):
    try: told = call(*args, **named)
    except OSError as error: told = errno.errorcode[error.errno]
    print(what, args, named, told)
def attrs(name):
    s = os.lstat(name); print(name, oct(s.st_mode), s.st_uid, s.st_gid)
def tries(dir, other):
    print(dir)
    f, own = dir + "/roots", dir + "/own"
    for i in range(30): os.path.exists(dir + "/none")
    say("list", lambda: sorted(os.listdir(dir)))
    say("access", lambda: [os.access(f, how) for how in (os.F_OK, os.R_OK, os.W_OK, os.X_OK)])
    say("chmod", os.chmod, f, 0o666); say("utime", os.utime, f); say("utime", os.utime, f, ns=(1, 2)); say("truncate", os.truncate, f, 1); say("chown", os.chown, f, 12345, -1)
    say("getxattr", os.getxattr, f, "user.a"); say("setxattr", os.setxattr, f, "user.a", b"1"); say("listxattr", os.listxattr, f); say("removexattr", os.removexattr, f, "user.none")
    say("mkdir", os.mkdir, own, 0o777); say("mkdir", os.mkdir, own + "/in"); say("symlink", os.symlink, "x", own + "l"); say("link", os.link, f, own + "k"); say("mkfifo", os.mkfifo, own + "p", 0o666)
    try: os.close(os.open(own + "f", os.O_CREAT | os.O_WRONLY, 0o666)); attrs(own + "f")
    except OSError as error: print(error)
    for name in (own, own + "/in", own + "l"):
        if os.path.lexists(name): attrs(name)
    say("chmod", os.chmod, own + "f", 0o2640); say("chmod", os.chmod, own + "f", 0o600); say("chown", os.chown, own + "f", -1, 23457); say("chown", os.chown, own + "f", -1, 7); say("chown", os.chown, own + "f", 0, -1); say("utime", os.utime, own + "f", ns=(5, 6))
    say("rename", os.rename, f, other + "/taken"); say("rename", os.rename, own + "f", f); say("rename", os.rename, own, other + "/own2"); say("rename", os.rename, dir + "/rootsd", dir + "/rootsd2"); say("rename", os.rename, dir + "/rootsd2", other + "/rootsd3")
    say("unlink", os.unlink, f); say("rmdir", os.rmdir, dir + "/rootsd"); say("rmdir", os.rmdir, dir + "/rootsd2"); say("rmdir", os.rmdir, own + "/in"); say("unlink", os.unlink, own + "l"); say("unlink", os.unlink, own + "f")
os.umask(0o022)
for dir in ("open", "sticky", "group", "closed", "mine", "hidden", "listed"): tries(dir, "open")
for line in os.popen("find open sticky group closed mine listed | sort; true"): print(line, end="")
sys.stdout.flush()
"#;

#[test]
fn another_user_may_do_the_same_with_the_library_and_without() {
    const MAKES: &str = r#"
import os, struct
def acl(user, rights):
    entries = [(1, 7, 2**32 - 1), (2, rights, user), (4, 5, 2**32 - 1), (16, 7, 2**32 - 1), (32, 5, 2**32 - 1)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
os.umask(0o022)
for dir in ("open", "sticky", "group", "closed", "mine", "hidden", "listed"):
    os.mkdir(dir); open(dir + "/roots", "w").write("root"); os.mkdir(dir + "/rootsd")
os.chmod("open", 0o777); os.chmod("sticky", 0o1777); os.chown("group", -1, 23457); os.chmod("group", 0o2775); os.chown("mine", 12345, -1); os.chmod("hidden", 0o700); os.chmod("listed", 0o777); os.chmod("sticky/roots", 0o640)
os.setxattr("listed/roots", "system.posix_acl_access", acl(12345, 6)); os.setxattr("listed", "system.posix_acl_default", acl(7, 7)); os.setxattr("closed", "system.posix_acl_access", acl(12345, 7))
"#;
    if !Path::new("/usr/bin/python3").exists() {
        untested("DOLMEN_TEST_TOOLS", "no python3 that everybody may run");
        return;
    }
    let Some(mounted) = Mounted::for_others("others") else { return };
    let run = |name: &str, is_taken: bool| {
        let dir = mounted.path(name);
        fs::create_dir(&dir).unwrap();
        let mut command = mounted.command(Path::new("python3"), false);
        let made = mounted.limited(command.args(["-c", MAKES]).current_dir(&dir));
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut command = mounted.command(Path::new("setpriv"), is_taken);
        command.args([
            "--reuid=12345",
            "--regid=23456",
            "--groups=23457",
            "--",
            "python3",
            "-c",
            ANOTHERS_CALLS,
        ]);
        let output = mounted.limited(command.env("HOME", "/").env("PATH", "/usr/bin:/bin").current_dir(dir));
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{out}\n{err}");
        (out, err)
    };
    let (expected, said) = run("plain", false);
    assert_eq!(said, "");
    let (found, report) = run("taken", true);
    for (expected, found) in expected.lines().zip(found.lines()) {
        assert_eq!(found, expected, "in\n{report}");
    }
    assert_eq!(found.lines().count(), expected.lines().count());
    for (kind, count_min) in [("name", 20), ("attr", 20)] {
        assert!(report.lines().any(|line| taken(line, kind) >= count_min), "{kind}: {found}\n{report}");
    }
    mounted.finish();
}

#[test]
fn attributes_of_directories_and_groups_of_files_are_set_past_the_kernel() {
    const LINES: &str = r#"
import os, struct
for i in range(30): os.path.exists("none")
def listed(owner, others): return struct.pack("<IHHIHHIHHI", 2, 1, owner, 2**32 - 1, 4, 4, 2**32 - 1, 32, others, 2**32 - 1)
os.mkdir("d"); f = os.open("f", os.O_CREAT | os.O_RDWR, 0o640); os.write(f, b"stone")
for i in range(10):
    os.chmod("d", 0o700 + i % 8); assert os.stat("d").st_mode & 0o7777 == 0o700 + i % 8
    os.utime("d", ns=(i, i + 1)); assert os.stat("d").st_mtime_ns == i + 1
    os.setxattr("d", "user.a", b"%d" % i); assert os.getxattr("d", "user.a") == b"%d" % i
    for name in ("d", "f"): os.chown(name, -1, (23456, 23457)[i % 2]); assert os.stat(name).st_gid == (23456, 23457)[i % 2]
    os.fchown(f, 12345, 23456); assert os.fstat(f).st_gid == 23456
    os.setxattr(f, "system.posix_acl_access", listed(6, i % 8)); assert os.fstat(f).st_mode & 0o777 == 0o640 + i % 8
    assert os.pread(f, 9, 0) == b"stone"
    for told in (os.fstatvfs(f), os.statvfs("d")): assert told.f_namemax == 255 and told.f_bsize == os.statvfs(".").f_bsize
os.setxattr(f, "system.posix_acl_access", listed(2, 0)); assert os.fstat(f).st_mode & 0o777 == 0o240
assert os.pread(f, 9, 0) == b"stone"; os.close(f)
"#;
    if !Path::new("/usr/bin/python3").exists() {
        untested("DOLMEN_TEST_TOOLS", "no python3 that everybody may run");
        return;
    }
    let Some(mounted) = Mounted::for_others("attributes") else { return };
    fs::set_permissions(mounted.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = mounted.command(Path::new("setpriv"), true);
    command.args(["--reuid=12345", "--regid=23456", "--groups=23457", "--", "python3", "-c", LINES]);
    let output =
        mounted.limited(command.env("HOME", "/").env("PATH", "/usr/bin:/bin").current_dir(mounted.path("")));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    let report = err.lines().last().unwrap();
    // Who may not read and write it by a list has it given back before: nobody could open it once more for him then.
    assert!(report.contains(" attr 81/81 ") && taken(report, "settled") == 1, "{report}");
    mounted.finish();
}

#[test]
fn what_somebody_else_than_root_writes_loses_set_user_id_and_set_group_id() {
    const NAMES: [&str; 4] = ["written", "cut", "emptied", "shortened"];
    const LINES: &str = r#"
import os
for i in range(30): os.path.exists("none")
os.umask(0)
def mode(name): return oct(os.stat(name).st_mode & 0o7777)
names = ["written", "cut", "emptied", "shortened"]
for name in names:
    f = os.open(name, os.O_RDONLY); assert os.read(f, 9) == b"stone" and mode(name) == "0o6777"; os.close(f)
f = os.open("written", os.O_WRONLY); assert os.write(f, b"S") == 1; os.close(f)
os.truncate("cut", 2)
os.close(os.open("emptied", os.O_WRONLY | os.O_TRUNC))
f = os.open("shortened", os.O_RDWR); os.ftruncate(f, 1); os.close(f)
f = os.open("new", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o6777); assert mode("new") == "0o6777"; os.write(f, b"n"); os.close(f)
f = os.open("marked", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o777); os.write(f, b"m")
os.chmod("marked", 0o4777); assert mode("marked") == "0o4777"; os.write(f, b"m"); os.close(f)
for name in names + ["new", "marked"]: assert mode(name) == "0o777", (name, mode(name))
assert [os.path.getsize(name) for name in names + ["new", "marked"]] == [5, 2, 0, 1, 1, 2]
"#;
    if !Path::new("/usr/bin/python3").exists() {
        untested("DOLMEN_TEST_TOOLS", "no python3 that everybody may run");
        return;
    }
    let Some(mounted) = Mounted::for_others("set-ids") else { return };
    fs::set_permissions(mounted.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    for name in NAMES {
        fs::write(mounted.path(name), b"stone").unwrap();
        fs::set_permissions(mounted.path(name), fs::Permissions::from_mode(0o6777)).unwrap();
    }
    let mut command = mounted.command(Path::new("setpriv"), true);
    command.args(["--reuid=12345", "--regid=23456", "--clear-groups", "--", "python3", "-c", LINES]);
    let output =
        mounted.limited(command.env("HOME", "/").env("PATH", "/usr/bin:/bin").current_dir(mounted.path("")));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    let report = err.lines().last().unwrap();
    assert!(taken(report, "open") >= 5 && taken(report, "read") == 4, "{report}");
    for name in NAMES.into_iter().chain(["new", "marked"]) {
        let mode = fs::metadata(mounted.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o777, "{name}");
    }
    mounted.finish();
}

#[test]
fn rights_that_another_mount_takes_away_are_gone_at_once() {
    const LINES: &str = r#"
import os, sys
dirs = {name: os.open(name, os.O_RDONLY | os.O_DIRECTORY) for name in ("closed", "group", "sticky")}
for i in range(50):
    for dir in dirs.values(): os.mkdir(f"m{i}", dir_fd=dir); os.rmdir(f"m{i}", dir_fd=dir)
print("ready", flush=True); sys.stdin.readline()
def fails(call, *args, **named):
    try: call(*args, **named)
    except PermissionError: return True
assert fails(os.mkdir, "m", dir_fd=dirs["closed"])
assert fails(os.open, "f", os.O_CREAT | os.O_EXCL | os.O_WRONLY, dir_fd=dirs["closed"])
assert fails(os.unlink, "roots", dir_fd=dirs["closed"])
assert fails(os.unlink, "roots", dir_fd=dirs["sticky"])
assert fails(os.rename, "roots", "mine", src_dir_fd=dirs["sticky"], dst_dir_fd=dirs["sticky"])
os.mkdir("m", dir_fd=dirs["group"]); os.close(os.open("f", os.O_CREAT | os.O_EXCL | os.O_WRONLY, dir_fd=dirs["group"]))
assert [os.stat(f"group/{name}").st_gid for name in "mf"] == [7, 7] and os.stat("group/m").st_mode & 0o2000
"#;
    if !Path::new("/usr/bin/python3").exists() {
        untested("DOLMEN_TEST_TOOLS", "no python3 that everybody may run");
        return;
    }
    let Some(mut mounted) = Mounted::for_others("rights") else { return };
    for name in ["closed", "group", "sticky"] {
        fs::create_dir(mounted.path(name)).unwrap();
        fs::write(mounted.path(name).join("roots"), b"root").unwrap();
        fs::set_permissions(mounted.path(name), fs::Permissions::from_mode(0o777)).unwrap();
    }
    let again = mounted.mount_again("");
    let mut command = mounted.command(Path::new("setpriv"), true);
    command.args(["--reuid=12345", "--regid=23456", "--clear-groups", "--", "python3", "-c", LINES]);
    command.env("HOME", "/").env("PATH", "/usr/bin:/bin").current_dir(mounted.path(""));
    let (output, _) = mounted.limited_between(&mut command, "ready", |_mounted| {
        std::os::unix::fs::chown(again.join("group"), None, Some(7)).unwrap();
        for (name, mode) in [("closed", 0o755), ("group", 0o2777), ("sticky", 0o1777)] {
            fs::set_permissions(again.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
    });
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    assert!(taken(err.lines().last().unwrap(), "name") > 250, "{err}");
    mounted.finish();
}

#[test]
fn a_directory_that_something_is_mounted_on_stays() {
    const LINES: &str = r#"
import errno, os, subprocess, sys
for i in range(30): os.path.exists("none")
if subprocess.run(["mount", "-t", "tmpfs", "none", "d"]).returncode: print("nothing is mounted"); sys.exit()
def says(call, *args):
    try: call(*args)
    except OSError as error: return errno.errorcode[error.errno]
try:
    assert [says(os.rmdir, "d"), says(os.rename, "d", "x"), says(os.rename, "e", "d")] == ["EBUSY"] * 3
    os.mkdir("d/in"); assert says(os.rename, "e", "d/e") == says(os.rename, "d/in", "in") == "EXDEV"
    os.chmod("d", 0o711); assert os.listdir("d") == ["in"] and os.stat("d").st_dev != os.stat(".").st_dev
finally:
    subprocess.run(["umount", "d"], check=True)
assert os.stat("d").st_mode & 0o777 == 0o755 and os.listdir("d") == []
os.rename("e", "d"); os.rmdir("d")
"#;
    let Some(mounted) = Mounted::with("over", &[], &["--cache", "off"]) else { return };
    for name in ["d", "e"] {
        fs::create_dir(mounted.path(name)).unwrap();
        fs::set_permissions(mounted.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = mounted.command(Path::new("python3"), true);
    let output = mounted.limited(command.args(["-c", LINES]).current_dir(mounted.path("")));
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{out}\n{err}");
    if out.contains("nothing") {
        untested("DOLMEN_TEST_MOUNTS", "no tmpfs can be mounted");
    }
    mounted.finish();
}
