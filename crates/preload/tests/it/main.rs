//! Programs on a mount, with the library and without.
//!
//! A mount that answers nobody would hold whoever uses it for ever, and no signal would end him: each has a guard that kills its
//! process after a while, and every program has a limit, after which the mount is broken off and the test fails.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod mounted;
mod names;
#[path = "../../../cli/tests/it/untested.rs"]
mod untested;

use dolmen_env::{Clock, RealClock};
use mounted::{Mounted, program};
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

/// How many calls of a kind were taken, by the line that a process prints at its end.
fn taken(report: &str, kind: &str) -> u64 {
    let line =
        report.lines().find(|line| line.starts_with("dolmen_preload:")).unwrap_or_else(|| panic!("{report}"));
    let counts = line.split_once(&format!(" {kind} ")).unwrap_or_else(|| panic!("no {kind}: {line}")).1;
    let count = counts.split(['/', ' ']).next().unwrap();
    count.parse().unwrap()
}

/// Has a program of `tests/c` work in two directories, without the library and with it: what it says is the same. What the library
/// reports.
fn says_the_same(mounted: &Mounted, name: &str, [plain, other]: [&Path; 2]) -> String {
    says_the_same_beside(mounted, name, [plain, other], None)
}

/// The same, with the path of a directory that is on no mount as an argument more.
fn says_the_same_beside(
    mounted: &Mounted,
    name: &str,
    [plain, other]: [&Path; 2],
    beside: Option<&Path>,
) -> String {
    let calls = program(mounted, name);
    let run = |dir: &Path, is_taken: bool| {
        let mut command = mounted.command(&calls, is_taken);
        let output = mounted.limited(command.arg(dir).args(beside));
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{out}\n{err}");
        (out, err)
    };
    let (expected, said) = run(plain, false);
    assert_eq!(said, "");
    let (found, report) = run(other, true);
    assert!(!report.contains("panicked"), "{report}");
    for (expected, found) in expected.lines().zip(found.lines()) {
        assert_eq!(found, expected, "in\n{report}");
    }
    assert_eq!(found.lines().count(), expected.lines().count());
    report
}

#[test]
fn a_program_sees_the_same_with_the_library_and_without() {
    let Some(mounted) = Mounted::new("same") else { return };
    let [plain, other] = ["plain", "taken"].map(|name| {
        let dir = mounted.path(name);
        fs::create_dir(&dir).unwrap();
        dir
    });
    let report = says_the_same(&mounted, "calls", [&plain, &other]);
    for (kind, count_min) in
        [("open", 10), ("stat", 15), ("read", 5), ("write", 10), ("seek", 10), ("settled", 8)]
    {
        assert!(taken(&report, kind) >= count_min, "{kind}: {report}");
    }
    // What was made in both ways is the same by the mount as well.
    let tree = |dir: &Path| {
        let mut command = mounted.command(Path::new("sh"), false);
        let line =
            "find . -type f -printf '%p %s %m %n\\n' | sort; find . -type f | sort | xargs cat | cksum";
        let output = mounted.limited(command.args(["-c", line]).current_dir(dir));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(tree(&other), tree(&plain));
    mounted.finish();
}

#[test]
fn contents_are_copied_and_lists_set_by_descriptor_as_the_kernel_does_it() {
    let Some(mounted) = Mounted::new("copies") else { return };
    let [plain, other] = ["plain", "taken"].map(|name| {
        let dir = mounted.path(name);
        fs::create_dir(&dir).unwrap();
        dir
    });
    let report = says_the_same_beside(&mounted, "copies", [&plain, &other], Some(&mounted.beside("")));
    // Of these needs one a pipe, and two have lists that are refused; with a file go all that are open of it, and who shares with it.
    assert_eq!(taken(&report, "settled"), 5, "{report}");
    assert!(taken(&report, "other") > 70, "{report}");
    mounted.finish();
}

#[test]
fn no_program_that_copies_trees_has_files_given_back_to_the_kernel() {
    const LINES: &str = r#"
set -e
cd "$1"; mkdir -p there; cp -a "$2" a; cp -a a b; cp -r a c; cp -a a "$2-copy"; install -D -t d a/1 a/2; cp -a "$2" moved; mv moved "$2-moved"; mv "$2-moved" e
tar cf t.tar a; tar xf t.tar -C there; tar --acls --xattrs -cf x.tar a; mkdir x; tar --acls --xattrs -xf x.tar -C x
if command -v rsync > /dev/null; then rsync -aAX a/ r/; diff -r a r; else echo no rsync; fi
for same in a b c "$2-copy" e there/a x/a; do diff -r "$2" $same; done
test "$(stat -c %a b/2)" = 640
"#;
    let Some(mounted) = Mounted::new("trees") else { return };
    let tree = mounted.beside("tree");
    fs::create_dir_all(tree.join("more")).unwrap();
    for at in 0..20 {
        fs::write(tree.join(at.to_string()), vec![b'a' + at; usize::from(at) * 999]).unwrap();
    }
    fs::set_permissions(tree.join("2"), fs::Permissions::from_mode(0o640)).unwrap();
    let mut command = mounted.command(Path::new("bash"), true);
    command.args(["-c", LINES, "copies"]).arg(mounted.path("")).arg(&tree);
    let output = mounted.limited(&mut command);
    let err = String::from_utf8_lossy(&output.stderr);
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{out}\n{err}");
    for left_out in out.lines().filter(|line| line.starts_with("no ")) {
        untested::untested("DOLMEN_TEST_TOOLS", left_out);
    }
    let reports: Vec<&str> = err.lines().filter(|line| line.starts_with("dolmen_preload:")).collect();
    assert!(reports.iter().map(|line| taken(line, "open")).sum::<u64>() > 300, "{err}");
    // tar looks once into the directory of its descriptors, with an archive and a file open.
    assert!(reports.iter().all(|line| taken(line, "settled") <= 2), "{err}");
    assert!(reports.iter().filter(|line| taken(line, "settled") > 0).count() <= 2, "{err}");
    mounted.finish();
}

#[test]
fn programs_do_their_work_with_the_library() {
    const LINES: &str = r#"
set -e
seq 1 20000 > nums; cp nums copy; cmp nums copy; dd if=nums of=dd bs=1000 status=none; cmp nums dd
mkdir t; for i in 1 2 3 4 5; do echo "$i" > t/$i; done
tar cf t.tar t; mkdir x; tar xf t.tar -C x; diff -r t x/t
for i in 1 2 3; do echo line $i >> app; done; test "$(cat app | wc -l)" = 3
mv app app2; sed -i s/line/LINE/ app2; test "$(head -n 1 app2)" = "LINE 1"
sort -r nums > sorted; test "$(head -n 1 sorted)" = 9999
exec 7> kept; echo one >&7; (echo two >&7); echo three >&7; exec 7>&-; test "$(tr '\n' ' ' < kept)" = "one two three "
cp -a t t2; diff -r t t2; chmod -R go-w t2; mv t2 x/t3; find x/t3 -name '[12]' -delete; test "$(ls x/t3 | wc -l)" = 3; rm -r x/t3; test ! -e x/t3
ln -s t lt; test "$(ls lt/ | wc -l)" = 5; mkdir -p deep/er/still; rmdir -p deep/er/still; test ! -e deep
if command -v rsync > /dev/null; then
    rsync -a t/ r/; diff -r t r; rm t/5; rsync -a --delete t/ r/; diff -r t r; echo 5 > t/5
else
    echo no rsync
fi
if command -v sqlite3 > /dev/null; then
    test "$(sqlite3 db 'create table a(x); insert into a values(1),(2); select sum(x) from a;')" = 3
    test "$(sqlite3 db 'pragma integrity_check; insert into a values(4); select sum(x) from a;' | tail -n 1)" = 7
else
    echo no sqlite3
fi
if command -v git > /dev/null; then
    git init -q .; git config user.email a@example.org; git config user.name a
    git add t nums; git commit -qm one; echo more >> nums; git commit -qam two
    test "$(git log --oneline | wc -l)" = 2; git fsck --no-progress
else
    echo no git
fi
"#;
    let Some(mounted) = Mounted::new("work") else { return };
    let mut command = mounted.command(Path::new("bash"), true);
    let output = mounted.limited(command.args(["-c", LINES]).current_dir(mounted.path("")));
    let err = String::from_utf8_lossy(&output.stderr);
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{out}\n{err}");
    for left_out in out.lines().filter(|line| line.starts_with("no ")) {
        untested::untested("DOLMEN_TEST_TOOLS", left_out);
    }
    let opened: u64 =
        err.lines().filter(|line| line.starts_with("dolmen_preload:")).map(|line| taken(line, "open")).sum();
    assert!(opened > 20, "{err}");
    mounted.finish();
}

#[test]
fn programs_that_close_their_standard_error_tell_what_was_taken() {
    let Some(mounted) = Mounted::new("told") else { return };
    std::fs::write(mounted.beside("stone"), b"stone").unwrap();
    // As cp does, all of coreutils, and tar.
    let mut command = mounted.command(Path::new("cp"), true);
    let output = mounted.limited(command.arg(mounted.beside("stone")).arg(mounted.path("menhir")));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    let told: Vec<&str> = err.lines().filter(|line| line.starts_with("dolmen_preload:")).collect();
    assert!(told.len() == 1 && taken(told[0], "open") > 0, "{err}");
    mounted.finish();
}

#[test]
fn a_process_in_which_nothing_is_taken_says_why() {
    if !nix::unistd::geteuid().is_root() {
        untested::untested("DOLMEN_TEST_MOUNTS", "nobody else than root becomes other users");
        return;
    }
    let words = (&["--socket-mode", "0666"][..], &["--allow-other"][..]);
    let Some(mounted) = Mounted::with("why", words.0, words.1) else { return };
    std::fs::write(mounted.path("stone"), b"stone").unwrap();
    let says = |before: &[&str], set: (&str, &str), file: &str| {
        let mut command = mounted.command(Path::new(before.first().unwrap_or(&"cat")), true);
        command
            .args(before.iter().skip(1))
            .args((!before.is_empty()).then_some("cat"))
            .arg(file)
            .env(set.0, set.1);
        command.env("HOME", "/").env("PATH", "/usr/bin:/bin").current_dir(mounted.path(""));
        let output = mounted.limited(&mut command);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{err}");
        let told: Vec<&str> = err.lines().filter(|line| line.starts_with("dolmen_preload:")).collect();
        assert_eq!(told.len(), 1, "{err}");
        told[0].split_once(" (nothing is taken: ").map(|(_, why)| why.trim_end_matches(')').to_owned())
    };
    let none = ("DOLMEN_PRELOAD", "on");
    let root = mounted.path("").display().to_string();
    let root = root.trim_end_matches('/');
    assert_eq!(says(&[], none, "stone"), None, "it is taken");
    assert_eq!(says(&[], ("DOLMEN_PRELOAD", "off"), "stone").unwrap(), "DOLMEN_PRELOAD is off");
    assert_eq!(says(&[], none, "/etc/passwd").unwrap(), "no call was on a mount of dolmen");
    let few = says(&[], ("DOLMEN_PRELOAD_AFTER", "1000"), "stone").unwrap();
    assert!(few.contains(&format!("calls were on {root}, and DOLMEN_PRELOAD_AFTER=1000")), "{few}");
    // Who may not open the pool by himself, and who finds no daemon.
    let other = ["setpriv", "--reuid=12345", "--regid=23456", "--clear-groups", "--"];
    let refused = says(&other, none, "stone").unwrap();
    assert!(
        refused.starts_with(&format!("{root}: user 12345 cannot open its pool by himself: ")),
        "{refused}"
    );
    let [socket, away] = ["sys/dolmen.sock", "sys/away"].map(|name| mounted.beside(name));
    std::fs::rename(&socket, &away).unwrap();
    let unreached = says(&[], none, "stone").unwrap();
    std::fs::rename(&away, &socket).unwrap();
    assert!(unreached.starts_with(&format!("{root}: the daemon at unix:")), "{unreached}");
    mounted.finish();
}

#[test]
fn the_load_generator_of_mounts_goes_past_the_kernel() {
    const FILES: u64 = 200;
    let Some(mounted) = Mounted::new("load") else { return };
    let mut command = mounted.command(&mounted::dolmen(), true);
    command.args(["bench", "posix", "-n", "200", "-b", "1M", "-t", "64K", "-r", "50", "-i", "1"]);
    // Connecting is not part of what is measured, however late it comes.
    command.env_remove("DOLMEN_PRELOAD_AFTER");
    let output = mounted.limited(command.arg(mounted.path("")));
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{out}\n{err}");
    let of_load: Vec<&str> = err.lines().filter(|line| line.starts_with("dolmen_preload:")).collect();
    let most = |kind: &str| of_load.iter().map(|line| taken(line, kind)).max().unwrap();
    assert!(most("open") >= FILES && most("stat") >= 2 * FILES, "{err}");
    assert!(most("read") >= 16 + 50 && most("write") >= 16, "{err}");
    mounted.finish();
}

#[test]
fn python_maps_forks_and_shares_files() {
    const LINES: &str = r#"
import mmap, os, shutil, subprocess, tempfile, threading
f = open("py", "w+b"); f.write(b"x" * 5000); f.flush()
m = mmap.mmap(f.fileno(), 5000); m[0:3] = b"abc"; m.flush(); f.seek(0); assert f.read(4) == b"abcx"; f.close()
assert os.path.getsize("py") == 5000
shutil.copy("py", "py2"); assert open("py2", "rb").read() == open("py", "rb").read()
assert len(subprocess.run(["cat", "py"], capture_output=True).stdout) == 5000
with open("o", "w") as o: subprocess.run(["echo", "hi"], stdout=o)
assert open("o").read() == "hi\n"
with tempfile.TemporaryFile(dir=".") as t: t.write(b"q" * 100); t.seek(0); assert t.read() == b"q" * 100
def work(n):
    for i in range(30):
        name = f"{n}-{i}"
        with open(name, "xb") as f: f.write(name.encode() * 100)
        assert os.stat(name).st_size == len(name) * 100
        with open(name, "rb") as f: assert f.read() == name.encode() * 100
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads]
for i in range(5): assert subprocess.run(["true"]).returncode == 0
pid = os.fork()
if pid == 0:
    work("child"); os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
[t.join() for t in threads]
assert len([n for n in os.listdir(".") if "-" in n]) == 150
"#;
    let Some(mounted) = Mounted::new("python") else { return };
    let mut command = mounted.command(Path::new("python3"), true);
    let output = mounted.limited(command.args(["-c", LINES]).current_dir(mounted.path("")));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    assert!(taken(err.lines().last().unwrap(), "open") > 100, "{err}");
    mounted.finish();
}

/// How much a run is to do, unless a variable says otherwise.
fn amount(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().expect("a soak run sets a number"))
}

#[test]
fn random_operations_on_a_file_match_a_model_past_the_kernel_and_through_it() {
    let Some(mut mounted) = Mounted::new("random") else { return };
    let random = program(&mounted, "random");
    let model = mounted.beside("model");
    let (seed, steps) = (amount("PRELOAD_SEED", 3), amount("PRELOAD_STEPS", 150));
    // The same file by turns: with the library, with what gives the file back to the kernel, and beside a kill of the daemon.
    let runs = [
        (true, false, false),
        (false, true, false),
        (true, true, true),
        (true, false, true),
        (false, true, true),
        (true, true, false),
    ];
    for (at, (is_taken, does_all, is_killed)) in (seed..).zip(runs) {
        let mut command = mounted.command(&random, is_taken);
        command.arg(mounted.path("")).arg(&model).arg(at.to_string()).arg(steps.to_string());
        command.args(does_all.then_some("all"));
        let (output, _) = mounted.limited_between(&mut command, "ready", |mounted| {
            if is_killed {
                mounted.kill_and_start_daemon();
            }
        });
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "seed {at}, {does_all}: {out}\n{err}");
        assert!(out.ends_with("done\n"), "seed {at}: {out}");
        if is_taken && !does_all {
            assert!(taken(&err, "write") > steps / 10 && taken(&err, "read") > steps / 10, "{err}");
        }
    }
    let [found, expected] = [mounted.path("f"), model].map(|path| fs::read(path).unwrap());
    assert!(found == expected, "what the mount shows is what was written");
    mounted.finish();
}

#[test]
fn a_program_goes_on_when_the_daemon_is_started_anew() {
    const LINES: &str = r#"
import os, sys
f = open("log", "xb", buffering=0)
for i in range(20): f.write(b"before"); os.stat("log")
print("ready", flush=True); sys.stdin.readline()
f.write(b"after"); assert os.stat("log").st_size == 125; f.close()
assert open("log", "rb").read() == b"before" * 20 + b"after"
"#;
    let Some(mut mounted) = Mounted::new("anew") else { return };
    let mut command = mounted.command(Path::new("python3"), true);
    let (output, _) = mounted.limited_between(
        command.args(["-c", LINES]).current_dir(mounted.path("")),
        "ready",
        Mounted::kill_and_start_daemon,
    );
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    assert!(taken(err.lines().last().unwrap(), "write") > 20, "{err}");
    mounted.finish();
}

#[test]
fn the_descriptors_of_a_connection_that_is_made_anew_are_none_of_the_programs() {
    const LINES: &str = r#"
import os, sys
beside = sys.argv[1]
def librarys():
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try: what = os.readlink("/proc/self/fd/" + fd)
        except FileNotFoundError: continue
        if int(fd) > 2 and what.startswith(("socket:", "/memfd:", "anon_inode:", "/proc/loadavg")): found.append(int(fd))
    return sorted(found)
for i in range(40):
    with open(f"a{i}", "xb") as f: f.write(b"stone")
before = librarys(); assert before and before[0] >= 100, before
print("ready", flush=True); sys.stdin.readline()
with open("b", "xb") as f: f.write(b"stone")
anew = librarys(); assert anew and anew[0] >= 100, anew
# As a daemon does when it begins.
os.closerange(3, 1000); assert set(anew) <= set(librarys())
own = [os.open(f"{beside}/own{i}", os.O_RDWR | os.O_CREAT | os.O_EXCL) for i in range(6)]
assert own == [3, 4, 5, 6, 7, 8]
for fd in range(20, 90): os.dup2(own[0], fd)
with open("c", "xb") as f: f.write(b"stone")
for fd in own: assert os.write(fd, b"important") == 9
for i, fd in enumerate(own): assert os.pread(fd, 99, 0) == b"important" and os.path.getsize(f"{beside}/own{i}") == 9
# No number is taken for one of the library's that it has no more.
more = [os.open("/dev/null", os.O_RDONLY) for i in range(300)]
for fd in own + more + list(range(20, 90)): os.close(fd)
assert set(anew) <= set(librarys()) and librarys()[0] >= 100, librarys()
with open("c", "rb") as f: assert f.read() == b"stone"
"#;
    let Some(mut mounted) = Mounted::new("apart") else { return };
    let mut command = mounted.command(Path::new("python3"), true);
    command.args(["-c", LINES]).arg(mounted.beside("")).current_dir(mounted.path(""));
    let (output, _) = mounted.limited_between(&mut command, "ready", Mounted::kill_and_start_daemon);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    let report = err.lines().last().unwrap();
    assert!(taken(report, "write") == 42 && taken(report, "settled") == 0, "{report}");
    for name in ["b", "c"] {
        assert_eq!(fs::read(mounted.path(name)).unwrap(), b"stone", "{name}");
    }
    mounted.finish();
}

#[test]
fn a_signal_ends_a_program_that_waits_for_a_silent_daemon() {
    const WATCHES: &str = r#"
import os, signal
parent = os.getppid(); print("watches", flush=True)
while not os.path.exists("stopped"): os.sched_yield()
def waits():
    for line in open(f"/proc/{parent}/status"):
        if line.startswith("SigBlk:"): return int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1
# In the library no signal comes through, and it is in there for long only if nobody answers.
for i in range(100):
    while not waits(): os.sched_yield()
os.kill(parent, signal.SIGTERM)
"#;
    const LINES: &str = r#"
import os, subprocess, sys
watches, beside = sys.argv[1:]
own = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
watcher = subprocess.Popen([sys.executable, "-c", watches], env=own, cwd=beside, stdout=subprocess.PIPE)
assert watcher.stdout.readline() == b"watches\n"
f = open("log", "xb", buffering=0)
for i in range(40): f.write(b"stone")
print("ready", flush=True); sys.stdin.readline()
while True: f.write(b"menhir")
"#;
    let Some(mut mounted) = Mounted::new("ends") else { return };
    let mut command = mounted.command(Path::new("python3"), true);
    command.args(["-c", LINES, WATCHES]).arg(mounted.beside("")).current_dir(mounted.path(""));
    let mut stopped_ns = 0;
    let (output, _) = mounted.limited_between(&mut command, "ready", |mounted| {
        mounted.signal_daemon(Signal::SIGSTOP);
        fs::write(mounted.beside("stopped"), b"").unwrap();
        stopped_ns = RealClock.monotonic_ns();
    });
    let took_ns = RealClock.monotonic_ns() - stopped_ns;
    mounted.signal_daemon(Signal::SIGCONT);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(Signal::SIGTERM as i32), "{err}");
    assert!(took_ns < 15_000_000_000, "it waited until it had waited in vain: {took_ns} ns");
    mounted.finish();
}

#[test]
fn a_mount_of_another_user_leads_nobody_to_what_it_names() {
    if !nix::unistd::geteuid().is_root() {
        untested::untested("DOLMEN_TEST_MOUNTS", "nobody else than root has a mount be another user's");
        return;
    }
    // What user 12345 serves, with the words of a mount of ours; it says of nothing that it is there.
    const SERVES: &str = r#"
import ctypes, os, struct, sys
about, dir = sys.argv[1].encode(), sys.argv[2].encode()
fd = os.open("/dev/fuse", os.O_RDWR)
options = b"fd=%d,rootmode=40000,user_id=12345,group_id=12345,allow_other" % fd
if ctypes.CDLL(None).mount(b"other", dir, b"fuse.dolmen", ctypes.c_ulong(6), options): sys.exit(1)
print("serves", flush=True)
while True:
    question = os.read(fd, 1 << 17)
    op, unique = struct.unpack("<IQ", question[4:16])
    def answer(errno, data=b""): os.write(fd, struct.pack("<IiQ", 16 + len(data), -errno, unique) + data)
    if op == 26: answer(0, struct.pack("<IIIIHHIIHHI", 7, 31, 65536, 0, 12, 10, 65536, 1, 16, 0, 0) + bytes(28))
    elif op == 3: answer(0, struct.pack("<QII", 0, 0, 0) + struct.pack("<QQQQQQIIIIIIIIII", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40777, 2, 0, 0, 0, 4096, 0))
    elif op == 22 and question[48:].split(b"\0")[0] == b"user.dolmen.mount":
        answer(0, about if struct.unpack("<I", question[40:44])[0] else struct.pack("<II", len(about), 0))
    elif op == 34: answer(0)
    elif op == 1: answer(2)
    elif op not in (2, 36, 42): answer(38)
"#;
    const LINES: &str = r#"
import os, subprocess, sys
serves, here, there = sys.argv[1:]
about = os.getxattr(here, "user.dolmen.mount").decode()
own = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
server = subprocess.Popen([sys.executable, "-c", serves, about, there], env=own, stdout=subprocess.PIPE, close_fds=True)
try:
    if server.stdout.readline() != b"serves\n": print("nothing is mounted"); sys.exit()
    for i in range(40): assert not os.path.exists(f"{there}/none")
    try: os.unlink(f"{there}/precious"); assert False
    except FileNotFoundError: pass
    try: open(f"{there}/written", "x"); assert False
    except OSError: pass
finally:
    server.kill(); server.wait(); subprocess.run(["umount", "-l", there], env=own)
"#;
    let Some(mounted) = Mounted::new("anothers") else { return };
    fs::write(mounted.path("precious"), b"stone").unwrap();
    fs::create_dir(mounted.beside("there")).unwrap();
    let mut command = mounted.command(Path::new("python3"), true);
    command.args(["-c", LINES, SERVES]).arg(mounted.path("")).arg(mounted.beside("there"));
    let output = mounted.limited(&mut command);
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{out}\n{err}");
    if out.contains("nothing") {
        untested::untested("DOLMEN_TEST_MOUNTS", "no mount of another user can be made");
        return;
    }
    assert_eq!(fs::read(mounted.path("precious")).unwrap(), b"stone");
    assert!(!mounted.path("written").exists());
    let why = format!("{} was mounted by user 12345", mounted.beside("there").display());
    assert!(err.lines().last().unwrap().contains(&why), "{err}");
    mounted.finish();
}

#[test]
fn a_file_that_is_open_works_on_when_a_mount_removes_or_replaces_it() {
    const LINES: &str = r#"
import os, sys
names = ["removed", "replaced"]
files = [open(name, "x+b", buffering=0) for name in names]
for f in files:
    for i in range(20): f.write(b"stone")
print("ready", flush=True); sys.stdin.readline()
for f in files:
    assert os.fstat(f.fileno()).st_nlink == 0
    f.write(b"menhir"); f.seek(0)
    assert f.read() == b"stone" * 20 + b"menhir"
    f.truncate(5); assert os.fstat(f.fileno()).st_size == 5
    f.close()
assert not os.path.exists("removed")
assert open("replaced", "rb").read() == b"dolmen"
"#;
    let Some(mut mounted) = Mounted::new("removed") else { return };
    let mut command = mounted.command(Path::new("python3"), true);
    let (output, _) = mounted.limited_between(
        command.args(["-c", LINES]).current_dir(mounted.path("")),
        "ready",
        |mounted| {
            fs::remove_file(mounted.path("removed")).unwrap();
            fs::write(mounted.path("other"), b"dolmen").unwrap();
            fs::rename(mounted.path("other"), mounted.path("replaced")).unwrap();
        },
    );
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    assert!(taken(err.lines().last().unwrap(), "write") > 40, "{err}");
    mounted.finish();
}

#[test]
fn a_file_whose_name_is_gone_is_shared_mapped_and_locked_as_without_the_library() {
    const LINES: &str = r#"
import fcntl, mmap, os, subprocess, sys
hows, whats = ["removed", "replaced", "moved", "linked"], ["fork", "exec", "mmap", "flock", "splice"]
files = {}
for how in hows:
    for what in whats:
        fd = os.open(f"{how}-{what}", os.O_RDWR | os.O_CREAT | os.O_APPEND)
        assert os.write(fd, b"stone") == 5
        files[how, what] = fd
print("ready", flush=True); sys.stdin.readline()
for (how, what), fd in files.items():
    if what == "fork":
        child = os.fork()
        if child == 0:
            os._exit(0 if os.pread(fd, 9, 0) == b"stone" and os.write(fd, b" child") == 6 else 1)
        assert os.waitpid(child, 0)[1] == 0, how
    if what == "exec":
        os.set_inheritable(fd, True)
        subprocess.run(["dd", "status=none", "of=/dev/stdout", "oflag=append", "conv=notrunc"], input=b" child", stdout=fd, check=True)
    if what == "mmap":
        with mmap.mmap(fd, 5) as memory: assert memory[:] == b"stone", how
    if what == "flock":
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if what == "splice":
        out, into = os.pipe(); os.splice(fd, into, 5, offset_src=0); assert os.read(out, 9) == b"stone", how
    assert os.write(fd, b" parent") == 7, (how, what)
    child = b" child" if what in ("fork", "exec") else b""
    assert os.pread(fd, 99, 0) == b"stone" + child + b" parent", (how, what)
    assert os.fstat(fd).st_nlink == (0 if how in ("removed", "replaced") else 1), (how, what)
    os.close(fd)
for what in whats:
    for how, name in [("moved", "new"), ("linked", "link")]:
        assert open(f"{name}-{what}", "rb").read().endswith(b" parent")
    assert open(f"replaced-{what}", "rb").read() == b"dolmen"
"#;
    let Some(mut mounted) = Mounted::new("nameless") else { return };
    let mut command = mounted.command(Path::new("python3"), true);
    let (output, _) = mounted.limited_between(
        command.args(["-c", LINES]).current_dir(mounted.path("")),
        "ready",
        |mounted| {
            for what in ["fork", "exec", "mmap", "flock", "splice"] {
                let path = |how: &str| mounted.path(&format!("{how}-{what}"));
                fs::remove_file(path("removed")).unwrap();
                fs::write(path("other"), b"dolmen").unwrap();
                fs::rename(path("other"), path("replaced")).unwrap();
                fs::rename(path("moved"), path("new")).unwrap();
                fs::hard_link(path("linked"), path("link")).unwrap();
                fs::remove_file(path("linked")).unwrap();
            }
        },
    );
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    assert!(taken(err.lines().last().unwrap(), "write") >= 20, "{err}");
    mounted.finish();
}
