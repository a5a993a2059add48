//! Mounts of those who may not reach a container's objects: the engine looks at what they may do.

use super::unprivileged::{OTHER, ROOT, UNMOUNT, USER, View};
use super::{has, wait_until};
use core::fmt::Write as _;

/// How the pool of somebody else is reached by its daemon.
const POOL: &str = "unix:theirs/dolmen.sock/q";

const MOUNT: &str = "./dolmen mount unix:theirs/dolmen.sock/q c mnt --files --log log";

/// A view in which [`OTHER`] has a pool of his own, and a daemon that lets in everybody of the machine.
struct Guests {
    view: View,
}

impl Guests {
    fn new(name: &str) -> Option<Self> {
        Self::of(View::new(name, "")?)
    }

    fn of(view: View) -> Option<Self> {
        let guests = Self { view };
        let pool = "./dolmen pool create theirs/q --targets 1 --log-segment 1M --bulk-segment 1M";
        guests.ok(OTHER, &format!("mkdir theirs; {pool} || {pool} --volatile"));
        guests.ok(OTHER, "./dolmen cont create theirs/q c");
        guests.serve();
        let system = "unix:theirs/dolmen.sock";
        guests.ok(OTHER, &format!("./dolmen dmg -G {system} pool update-acl q --entry A::EVERYONE@:r"));
        Some(guests)
    }

    fn serve(&self) {
        self.ok(OTHER, "./dolmen serve theirs --socket-mode 0666 --detach");
    }

    /// Kills the daemon, and starts the next one.
    fn serve_anew(&self) {
        let is_there = "pgrep -f 'dolmen [s]erve theirs'";
        let gone = format!("for n in $(seq 100); do {is_there} || exit 0; sleep 0.1; done; exit 1");
        self.ok(OTHER, &format!("kill -9 $({is_there}); {gone}"));
        self.serve();
    }

    fn ok(&self, user: &str, line: &str) -> String {
        let (code, said) = self.view.sh(user, &format!("export XDG_DATA_HOME=/mnt/place/of-{user}; {line}"));
        assert_eq!(code, 0, "{line}: {said}");
        said
    }

    /// Lets in everybody, and has files of several users there.
    fn fill(&self) {
        self.ok(OTHER, &format!("./dolmen cont set-prop {POOL} c files:everyone"));
        self.ok(ROOT, &format!("mkdir r; ./dolmen mount {POOL} c r --log rlog"));
        self.ok(
            ROOT,
            "cd r; mkdir own; echo secret > own/f; chmod 700 own; echo all > all; echo no > no; chmod 600 no; \
             mkdir tmp; chmod 1777 tmp; echo roots > tmp/roots; mkdir group; chgrp 65534 group; chmod 2775 group",
        );
    }
}

#[test]
fn who_may_not_reach_objects_uses_files_as_their_modes_allow() {
    let Some(guests) = Guests::new("guests") else { return };
    let view = &guests.view;
    let line = view.fails(USER, 8, MOUNT);
    let remedy = "`dolmen cont set-prop unix:theirs/dolmen.sock/q c files:everyone`";
    assert!(line.contains("no permission") && line.contains(remedy), "{line}");
    guests.ok(OTHER, &format!("./dolmen cont create {POOL} raw --type none"));
    let line =
        view.fails(OTHER, 3, "./dolmen mount unix:theirs/dolmen.sock/q raw mnt --files --log theirs/log");
    assert!(line.contains("holds no file system"), "{line}");
    guests.fill();
    for raw in ["fs ls unix:theirs/dolmen.sock/q c /", "fs cat unix:theirs/dolmen.sock/q c /all"] {
        view.fails(USER, 8, &format!("./dolmen {raw}"));
    }
    let line = view.fails(USER, 8, "./dolmen mount unix:theirs/dolmen.sock/q c mnt --log log");
    assert!(line.contains("mount it with --files"), "{line}");
    let line = view.fails(USER, 2, &format!("{MOUNT} --cache data"));
    assert!(line.contains("leave out --cache data"), "{line}");
    guests.ok(USER, MOUNT);
    for (line, may) in [
        ("cat mnt/all && ls -l mnt mnt/tmp mnt/group", true),
        ("echo x >> mnt/all", false),
        ("cat mnt/no", false),
        ("ls mnt/own", false),
        ("cat mnt/own/f", false),
        ("echo x > mnt/new", false),
        ("echo mine > mnt/tmp/f && cat mnt/tmp/f && echo more >> mnt/tmp/f", true),
        ("rm -f mnt/tmp/roots", false),
        ("mv mnt/tmp/roots mnt/tmp/mine", false),
        ("chown 0 mnt/tmp/f", false),
        ("chgrp 0 mnt/tmp/f", false),
        ("chgrp 65534 mnt/tmp/f && chmod 4750 mnt/tmp/f", true),
        ("mkdir mnt/group/d && touch mnt/group/d/f && ln mnt/group/d/f mnt/group/g", true),
        ("ln -s f mnt/tmp/l && mkfifo mnt/tmp/p && mv mnt/tmp/l mnt/tmp/m && rm mnt/tmp/m mnt/tmp/p", true),
        (
            "head -c 3000000 /dev/urandom > mnt/tmp/b && cp mnt/tmp/b mnt/tmp/c && cmp mnt/tmp/b mnt/tmp/c",
            true,
        ),
        ("truncate -s 5 mnt/tmp/c && [ $(stat -c %s mnt/tmp/c) = 5 ] && rm mnt/tmp/c", true),
        ("flock mnt/tmp/f true", true),
    ] {
        let (code, said) = view.sh(USER, line);
        assert_eq!(code == 0, may, "{line}: {said}");
    }
    let owners = view.sh(USER, "stat -c %u:%g:%a mnt/tmp/f mnt/group/d mnt/group/d/f").1;
    assert_eq!(owners, "65534:65534:4750\n65534:65534:2755\n65534:65534:644\n");
    // The other mount sees it, and what it does is seen.
    guests.ok(
        ROOT,
        "[ \"$(cat r/tmp/f)\" = \"$(printf 'mine\\nmore')\" ] && echo changed > r/all && chmod 600 r/all",
    );
    assert_ne!(view.sh(USER, "for n in $(seq 50); do cat mnt/all || exit 1; sleep 0.1; done").0, 0);
    // Several writers append beside each other.
    let append = |dir: &str| {
        let mut line = String::new();
        write!(line, "for n in $(seq 100); do echo {dir} >> {dir}/tmp/log; done").unwrap();
        line
    };
    guests.ok(USER, "touch mnt/tmp/log; chmod 666 mnt/tmp/log");
    let both = format!("({}) & ({}); wait", append("r"), append("r"));
    dolmen_env::scope(|threads| {
        let other = threads.spawn(|| guests.ok(USER, &append("mnt")));
        guests.ok(ROOT, &both);
        other.join().unwrap();
    });
    assert_eq!(view.sh(USER, "sort mnt/tmp/log | uniq -c | tr -s ' '").1, " 100 mnt\n 200 r\n");
    assert_eq!(view.sh(USER, UNMOUNT).0, 0);
    assert_eq!(view.sh(ROOT, &UNMOUNT.replace("mnt", "r")).0, 0);
    guests.ok(OTHER, "./dolmen stop theirs");
    assert!(guests.ok(OTHER, "./dolmen check theirs/q").contains("clean"));
}

/// A list of owner, user, owning group, mask and others, in digits of 16 bits, as `linux/posix_acl_xattr.h` has it.
fn list(owner: u16, (user, his): (u32, u16), group: u16, mask: u16, others: u16) -> String {
    let nobody = u32::MAX;
    let entries =
        [(1, owner, nobody), (2, his, user), (4, group, nobody), (16, mask, nobody), (32, others, nobody)];
    let bytes = entries.iter().flat_map(|(tag, rights, id): &(u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
    });
    [2, 0, 0, 0].into_iter().chain(bytes).fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[test]
fn lists_decide_and_are_handed_down_by_way_of_an_engine() {
    if !has("python3") {
        return;
    }
    let Some(guests) = Guests::new("guests-lists") else { return };
    guests.fill();
    guests.ok(
        ROOT,
        "cd r; for f in named masked denied; do echo $f > $f; done; chgrp 65534 denied; mkdir handed",
    );
    let set = |path: &str, name: &str, list: &str| {
        let program = "import os, sys; os.setxattr(sys.argv[1], sys.argv[2], bytes.fromhex(sys.argv[3]))";
        guests.ok(ROOT, &format!("python3 -c '{program}' r/{path} system.posix_acl_{name} {list}"));
    };
    set("named", "access", &list(6, (65534, 6), 0, 6, 0));
    set("masked", "access", &list(6, (65534, 6), 0, 4, 0));
    // He is in its group, whose bits of the mode are those of the mask.
    set("denied", "access", &list(6, (4711, 6), 0, 6, 4));
    set("handed", "access", &list(7, (65534, 7), 0, 7, 0));
    set("handed", "default", &list(7, (4711, 7), 5, 7, 0));
    guests.ok(USER, MOUNT);
    for (line, may) in [
        ("cat mnt/named && echo more >> mnt/named", true),
        ("cat mnt/masked", true),
        ("echo more >> mnt/masked", false),
        ("[ $(stat -c %a mnt/denied) = 664 ]", true),
        ("cat mnt/denied", false),
        ("chmod 666 mnt/named", false),
        ("umask 077; echo new > mnt/handed/f; mkdir mnt/handed/d", true),
    ] {
        let (code, said) = guests.view.sh(USER, line);
        assert_eq!(code == 0, may, "{line}: {said}");
    }
    // The umask has no say, and the list has come along.
    let shown = guests.ok(
        ROOT,
        "stat -c %a:%u r/handed/f r/handed/d; python3 -c 'import os; print(os.listxattr(\"r/handed/f\"), len(os.listxattr(\"r/handed/d\")))'",
    );
    assert_eq!(shown, "660:65534\n770:65534\n['system.posix_acl_access'] 2\n");
    assert_eq!(guests.view.sh(USER, UNMOUNT).0, 0);
}

#[test]
fn others_are_taken_for_who_has_mounted_by_way_of_an_engine_and_get_no_more_than_he() {
    let Some(view) = View::new("guests-others", "user_allow_other\n") else { return };
    let Some(guests) = Guests::of(view) else { return };
    guests.fill();
    guests.ok(USER, &format!("{MOUNT} --allow-other --cache-timeout 0"));
    for (who, line, may) in [
        (OTHER, "cat mnt/all && echo other > mnt/tmp/o && mkdir mnt/tmp/d", true),
        (OTHER, "cat mnt/no", false),
        (OTHER, "chown 4711 mnt/tmp/o", false),
        // Of this machine, not of the engine, in this mount.
        (ROOT, "cat mnt/no", false),
        (ROOT, "cat mnt/own/f", false),
        (ROOT, "chown 0 mnt/tmp/o", false),
        (ROOT, "rm mnt/tmp/roots", false),
        (USER, "rm mnt/tmp/o && rmdir mnt/tmp/d", true),
    ] {
        let (code, said) = guests.view.sh(who, line);
        assert_eq!(code == 0, may, "{who}: {line}: {said}");
        if line.contains("mkdir") {
            assert_eq!(guests.ok(ROOT, "stat -c %u:%g r/tmp/o r/tmp/d"), "65534:65534\n65534:65534\n");
        }
    }
    assert_eq!(guests.view.sh(USER, UNMOUNT).0, 0);
}

#[test]
fn a_program_that_root_gives_away_by_way_of_an_engine_loses_its_rights() {
    let Some(guests) = Guests::new("guests-given") else { return };
    guests.fill();
    guests.ok(ROOT, &format!("mkdir s; ./dolmen mount {POOL} c s --files --log slog"));
    guests.ok(ROOT, "for dir in r s; do cd $dir; touch p$dir q$dir; chmod 6755 p$dir; chmod 6745 q$dir; chown 65534 p$dir q$dir; cd ..; done");
    for dir in ["r", "s"] {
        let shown = guests.ok(ROOT, &format!("stat -c %u:%a {dir}/p{dir} {dir}/q{dir}"));
        assert_eq!(shown, "65534:755\n65534:2745\n", "{dir}");
    }
    guests.ok(USER, MOUNT);
    guests.view.fails(USER, 1, "ln mnt/all mnt/tmp/another");
    guests.ok(USER, "echo x > mnt/tmp/own && ln mnt/tmp/own mnt/tmp/another && rm mnt/tmp/own");
    for (who, dir) in [(USER, "mnt"), (ROOT, "r"), (ROOT, "s")] {
        assert_eq!(guests.view.sh(who, &UNMOUNT.replace("mnt", dir)).0, 0);
    }
}

#[test]
fn a_mount_by_way_of_an_engine_goes_on_with_the_next_one() {
    let Some(guests) = Guests::new("guests-restart") else { return };
    let view = &guests.view;
    guests.fill();
    guests.ok(USER, MOUNT);
    guests.ok(USER, "mkdir -p mnt/tmp/a/b; echo stone > mnt/tmp/a/b/f; echo lost > mnt/tmp/a/lost");
    // One has a file open, and waits; the other is a directory's, half listed. What a command leaves behind it ends with the
    // command, unless it has a session of its own by then.
    guests.ok(
        USER,
        "mkfifo go; setsid sh -c 'exec 5< mnt/tmp/a/b/f 6>> mnt/tmp/a/b/f 7< mnt/tmp/a/lost; : > open; cat go; cat <&5; \
         echo more >&6; cat <&7' > told 2>&1 & \
         for n in $(seq 100); do [ -e open ] && exit 0; sleep 0.1; done; exit 1",
    );
    guests.serve_anew();
    // What it was called is another file now.
    guests.ok(ROOT, "rm r/tmp/a/lost; echo other > r/tmp/a/lost");
    guests.ok(USER, "mkdir mnt/tmp/a/d && mv mnt/tmp/a/d mnt/tmp/a/e && ls mnt/tmp/a | tr '\\n' ' '");
    guests.ok(USER, "timeout 20 sh -c 'echo > go'; for n in $(seq 100); do grep -q -i stale told && exit 0; sleep 0.1; done; cat told; exit 1");
    let told = view.sh(USER, "cat told mnt/tmp/a/b/f").1;
    assert!(told.contains("stone\n") && told.ends_with("stone\nmore\n"), "{told}");
    assert_eq!(view.sh(USER, UNMOUNT).0, 0);
}

#[test]
fn who_may_do_less_than_before_is_told_so_and_reads_on() {
    let Some(guests) = Guests::new("guests-reduced") else { return };
    guests.fill();
    let system = "unix:theirs/dolmen.sock";
    guests.ok(OTHER, &format!("./dolmen dmg -G {system} pool update-acl q --entry A::nobody@:rw"));
    let allow = |what: &str| {
        guests.ok(OTHER, &format!("./dolmen daos -G {system} cont update-acl q c --entry A::nobody@:{what}"))
    };
    allow("rw");
    guests.ok(USER, &format!("./dolmen mount {POOL} c mnt --log log && echo stone > mnt/tmp/f"));
    allow("r");
    guests.ok(OTHER, &format!("./dolmen dmg -G {system} pool update-acl q --entry A::nobody@:r"));
    guests.serve_anew();
    assert_eq!(guests.ok(USER, "cat mnt/tmp/f; ls mnt/tmp"), "stone\nf\nroots\n");
    for line in
        ["echo more | tee -a mnt/tmp/f", "mkdir mnt/tmp/d", "rm -f mnt/tmp/f", "mv mnt/tmp/f mnt/tmp/g"]
    {
        let (code, said) = guests.view.sh(USER, line);
        let log = guests.ok(USER, "cat log");
        assert!(code != 0 && said.contains("Permission denied"), "{line}: {code} {said}{log}");
    }
    assert_eq!(guests.ok(USER, "cat mnt/tmp/f"), "stone\n");
    let log = guests.ok(USER, "cat log");
    assert!(log.contains("less than it could") && !log.contains("was destroyed"), "{log}");
    assert_eq!(guests.view.sh(USER, UNMOUNT).0, 0);
}

/// Says what a user uses and may, or what it is told if it cannot.
const QUOTA: &str = "import os,sys
try: print(os.getxattr(sys.argv[1], \"dolmen.quota\").decode())
except OSError as error: print(error.errno)";

#[test]
fn a_user_sees_what_he_uses_and_may_through_every_mount() {
    if !has("python3") {
        return;
    }
    let Some(guests) = Guests::new("guests-quota") else { return };
    guests.fill();
    for limits in ["--user 65534 --bytes 1M --files 10", "--user 0 --files 20", "--bytes 10M"] {
        guests.ok(OTHER, &format!("./dolmen cont quota {POOL} c {limits}"));
    }
    guests.ok(ROOT, &format!("mkdir a; ./dolmen mount {POOL} c a --allow-other --log alog"));
    guests.ok(ROOT, &format!("mkdir s; ./dolmen mount {POOL} c s --files --log slog"));
    guests.ok(USER, MOUNT);
    guests.ok(USER, "head -c 5000 /dev/zero > mnt/tmp/f; mkdir mnt/tmp/d");
    let account = |whose: &str| {
        let told = guests.ok(OTHER, &format!("./dolmen cont quota {POOL} c {whose} --json"));
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        let number = |of: &str, what: &str| {
            told["response"][of][what].as_u64().map_or("none".to_owned(), |n| n.to_string())
        };
        ["bytes", "files"].map(|of| [number(of, "used"), number(of, "limit")])
    };
    let wanted = |uid: u32| {
        let ([[bytes, bytes_limit], [files, files_limit]], [[all, all_limit], [names, names_limit]]) =
            (account(&format!("--user {uid}")), account(""));
        format!(
            "uid={uid} bytes={bytes} bytes_limit={bytes_limit} files={files} files_limit={files_limit} \
             container_bytes={all} container_bytes_limit={all_limit} container_files={names} \
             container_files_limit={names_limit}\n"
        )
    };
    let told = |who: &str, path: &str| guests.ok(who, &format!("python3 -c '{QUOTA}' {path}"));
    let own = wanted(65534);
    assert!(own.starts_with("uid=65534 bytes=5000 bytes_limit=1048576 files="), "{own}");
    for (who, uid, paths) in [
        (USER, 65534, &["mnt", "mnt/tmp", "mnt/tmp/f", "a/tmp/f"][..]),
        (ROOT, 0, &["s", "s/tmp/f", "a", "r/no"]),
        (OTHER, 4711, &["a"]),
    ] {
        for path in paths {
            // What mounts note of what is open counts as well, while it is there.
            wait_until(&format!("{who} is told of {path}"), || told(who, path) == wanted(uid));
        }
    }
    // It is nobody's to copy or to set.
    let list = "python3 -c 'import os; print(os.listxattr(\"mnt/tmp/f\"))'";
    assert_eq!(guests.ok(USER, list), "[]\n");
    let sets = QUOTA.replace(
        "getxattr(sys.argv[1], \"dolmen.quota\").decode()",
        "setxattr(sys.argv[1], \"dolmen.quota\", b\"x\")",
    );
    assert_eq!(guests.ok(USER, &format!("python3 -c '{sets}' mnt/tmp/f")), "95\n");
    for (who, dir) in [(USER, "mnt"), (ROOT, "r"), (ROOT, "s"), (ROOT, "a")] {
        assert_eq!(guests.view.sh(who, &UNMOUNT.replace("mnt", dir)).0, 0);
    }
}
