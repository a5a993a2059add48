//! SQLite on mounts: databases are whole and have what was committed, whoever is killed.

use super::script::Script;
use super::{MINUTE, MOMENT, Mounted, Running, has, limited, wait_until};
use nix::sys::signal::Signal;
use std::fs;
use std::process::Command;

/// Commits one transaction after another, and says so after each: path, kind of journal, name.
const WRITER: &str = "
import sqlite3, sys, time
path, journal, name = sys.argv[1:]
db = sqlite3.connect(path, timeout=50, isolation_level=None)
found = db.execute('pragma journal_mode=' + journal).fetchone()[0]
assert found == journal, found
db.execute('pragma synchronous=full')
def told(error_type, error, trace):
    print(getattr(error, 'sqlite_errorname', ''), file=sys.stderr)
    sys.__excepthook__(error_type, error, trace)
sys.excepthook = told
n = 0
while True:
    db.execute('begin immediate')
    db.execute('insert into t values(?, ?, randomblob(300))', (name, n))
    db.execute('update sums set total = total + 1')
    db.execute('commit')
    n += 1
    print(n, flush=True)
    # So that others have their turn.
    time.sleep(0.02)
";

fn query(mounted: &Mounted, path: &str, text: &str) -> String {
    let mut sqlite = Command::new("sqlite3");
    let output = limited(mounted, sqlite.args(["-cmd", ".timeout 50000", path, text]), MINUTE);
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}: {said}");
    said.into_owned()
}

/// Whether the programs are there.
fn has_database() -> bool {
    ["python3", "sqlite3"].into_iter().all(has)
}

/// An empty database in the first mount.
fn make(mounted: &Mounted, journal: &str) {
    let text = format!(
        "pragma journal_mode={journal}; create table t(name, n, stone); create table sums(total); insert into sums values(0);"
    );
    assert_eq!(query(mounted, mounted.path("db").to_str().unwrap(), &text), format!("{journal}\n"));
}

/// A process that writes through a mount, and how many of its commits it was told of.
struct Writer {
    script: Script,
    name: &'static str,
    done: u64,
}

impl Writer {
    fn new(mounted: &Mounted, dir: &str, journal: &str, name: &'static str) -> Self {
        let path = mounted.place.path(dir).join("db");
        let script = Script::logged(&mounted.place, name, WRITER, &[path.to_str().unwrap(), journal, name]);
        Self { script, name, done: 0 }
    }

    /// Waits for so many more commits.
    fn goes_on(&mut self, commits: u64) {
        for _ in 0..commits {
            assert!(self.script.next().is_some(), "{} ends: {}", self.name, self.script.log());
            self.done += 1;
        }
    }

    /// Hears what it has to say until it ends.
    fn ends(&mut self) {
        self.done += core::iter::from_fn(|| self.script.next()).count() as u64;
        wait_until("a writer ends", || self.script.running.is_over());
    }

    fn is_killed(&mut self) {
        self.script.running.kill();
        self.ends();
    }
}

/// Whoever was killed, the database is whole, so is each transaction, and all are there that were acknowledged: of each writer
/// at most one more.
fn check(mounted: &Mounted, dir: &str, writers: &[&Writer]) {
    let mut text = "pragma integrity_check; select (select total from sums) = count(*) from t;".to_owned();
    for Writer { name, done, .. } in writers {
        let more = done + 1;
        text.push_str(&format!("select count(*) between {done} and {more} from t where name = '{name}';"));
        // The first so many, and none twice.
        text.push_str(&format!("select count(*) = {done} from t where name = '{name}' and n < {done};"));
    }
    let path = mounted.place.path(dir).join("db");
    let found = query(mounted, path.to_str().unwrap(), &text);
    let dones: Vec<_> = writers.iter().map(|writer| (writer.name, writer.done)).collect();
    assert_eq!(found, format!("ok\n1\n{}", "1\n1\n".repeat(writers.len())), "{dones:?}");
}

#[test]
fn a_database_has_what_was_committed_when_its_mount_or_the_daemon_is_killed() {
    if !has_database() {
        return;
    }
    let Some(mut mounted) = Mounted::served("database-kills", &[]) else { return };
    make(&mounted, "delete");
    let mut writers = Vec::new();
    for victim in ["daemon", "mount", "all"] {
        let mut writer = Writer::new(&mounted, "mnt", "delete", victim);
        writer.goes_on(5);
        match victim {
            "daemon" => {
                mounted.next_daemon();
                // It does not notice.
                writer.goes_on(5);
                writer.is_killed();
            }
            "mount" => {
                mounted.first().signal(Signal::SIGKILL);
                writer.ends();
                mounted.next_first(&[]);
            }
            _ => {
                drop(mounted.daemon.take());
                mounted.first().signal(Signal::SIGKILL);
                writer.is_killed();
                mounted.next_daemon();
                mounted.next_first(&[]);
            }
        }
        writers.push(writer);
        check(&mounted, "mnt", &writers.iter().collect::<Vec<_>>());
    }
    mounted.finish();
}

/// Writers of one mount share memory about the log of writes, which is mapped. Nobody flushes it, and it need not be there after
/// a kill.
fn kill_users_of_a_log(cache: &str) {
    let args = ["--cache", cache];
    let Some(mut mounted) = Mounted::served(&format!("database-log-{cache}"), &args) else { return };
    make(&mounted, "wal");
    let [mut one, mut two] = ["one", "two"].map(|name| Writer::new(&mounted, "mnt", "wal", name));
    one.goes_on(3);
    two.goes_on(3);
    one.is_killed();
    two.goes_on(3);
    check(&mounted, "mnt", &[&one]);
    mounted.next_daemon();
    two.goes_on(3);
    mounted.first().signal(Signal::SIGKILL);
    two.ends();
    mounted.next_first(&args);
    check(&mounted, "mnt", &[&one, &two]);
    mounted.finish();
}

#[test]
fn a_log_of_writes_is_shared_by_processes_of_a_mount_that_remembers_attributes() {
    if has_database() {
        kill_users_of_a_log("metadata");
    }
}

#[test]
fn a_log_of_writes_is_shared_by_processes_of_a_mount_that_remembers_contents() {
    if has_database() {
        kill_users_of_a_log("data");
    }
}

#[test]
fn writers_of_two_mounts_take_turns_and_one_goes_on_when_the_mount_of_the_other_is_killed() {
    if !has_database() {
        return;
    }
    let Some(mut mounted) = Mounted::served("database-two", &[]) else { return };
    mounted.mount("mnt2", &[]);
    make(&mounted, "delete");
    let [mut one, mut two] =
        [("mnt", "one"), ("mnt2", "two")].map(|(dir, name)| Writer::new(&mounted, dir, "delete", name));
    one.goes_on(10);
    two.goes_on(10);
    mounted.first().signal(Signal::SIGKILL);
    one.ends();
    // It takes back what the other has left half done, once the locks of that mount are free.
    two.goes_on(10);
    two.is_killed();
    check(&mounted, "mnt2", &[&one, &two]);
    mounted.next_first(&[]);
    check(&mounted, "mnt", &[&one, &two]);
    mounted.finish();
}

#[test]
fn a_database_has_after_a_kill_what_it_has_committed() {
    if !has("sqlite3") {
        return;
    }
    let Some(mounted) = Mounted::served("sqlite", &[]) else { return };
    let database = mounted.path("db").display().to_string();
    for (round, journal) in ["delete", "truncate", "delete"].into_iter().enumerate() {
        let script = mounted.place.path("script");
        let mut lines =
            format!("pragma journal_mode={journal};\ncreate table if not exists t(round, n, stone);\n");
        for n in 0..5000 {
            lines.push_str(&format!(
                "insert into t values({round}, {n}, hex(randomblob(300)));\nselect 'done', {n};\n"
            ));
        }
        fs::write(&script, lines).unwrap();
        let (input, said) = (fs::File::open(&script).unwrap(), mounted.place.path("said"));
        let mut sqlite = Command::new("sqlite3");
        let spawned = sqlite.arg(&database).stdin(input).stdout(fs::File::create(&said).unwrap()).spawn();
        let mut child = Running(spawned.unwrap());
        let done =
            || fs::read_to_string(&said).unwrap().lines().filter(|line| line.starts_with("done")).count();
        wait_until("some rows are stored", || done() >= 5 || child.is_over());
        child.kill();
        let last = done();
        let query =
            format!("pragma integrity_check; select count(*) >= {last} from t where round = {round};");
        let mut check = Command::new("sqlite3");
        let output = limited(&mounted, check.arg(&database).arg(query), MOMENT);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n1\n", "round {round}: {last} rows");
    }
    mounted.finish();
}
