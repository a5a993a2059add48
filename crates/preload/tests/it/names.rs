//! Names that several processes look at and change, past the kernel and through it.

use crate::mounted::{Mounted, program};
use crate::{amount, taken};
use std::fs;
use std::path::Path;

#[test]
fn random_operations_on_names_match_a_model_in_two_processes_by_turns() {
    let Some(mounted) = Mounted::new("names") else { return };
    let names = program(&mounted, "names");
    let seed = amount("PRELOAD_SEED", 7);
    let steps = amount("PRELOAD_NAMES", 250);
    let pairs = [["taken", "plain"], ["plain", "taken"], ["taken", "taken"]];
    for (at, kinds) in (seed..).zip(pairs) {
        let dir = mounted.path(&format!("{at}"));
        fs::create_dir(&dir).unwrap();
        let mut command = mounted.command(&names, true);
        command.arg(dir).args([at.to_string(), steps.to_string()]).args(kinds);
        let output = mounted.limited(&mut command);
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success() && out.ends_with("done\n"), "seed {at}, {kinds:?}: {out}\n{err}");
        for line in err.lines().filter(|line| taken(line, "stat") > 0) {
            assert!(taken(line, "known") > steps / 10, "{line}");
        }
    }
    mounted.finish();
}

#[test]
fn a_name_is_asked_for_once_until_somebody_else_changes_it() {
    const LINES: &str = r#"
import os, subprocess
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
