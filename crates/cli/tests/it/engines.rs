//! A system of several engines, from the command line.

use crate::common::{Place, Ran};
use crate::served::Daemon;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// The list of a system of engines in `r0`, `r1`, … of a place.
pub(crate) fn list(place: &Place, count: u32) {
    let engine = |rank: u32| {
        let dir = place.path(&format!("r{rank}"));
        std::fs::create_dir(&dir).unwrap();
        let socket = dir.join("dolmen.sock");
        format!("[[engine]]\nrank = {rank}\naddresses = [\"unix:{}\"]\n", socket.display())
    };
    let engines: String = (0..count).map(engine).collect();
    std::fs::write(place.path("system.toml"), format!("name = \"lab\"\n{engines}")).unwrap();
}

pub(crate) fn serve(place: &Place, rank: u32) -> Daemon {
    let (dir, number) = (format!("r{rank}"), rank.to_string());
    Daemon::start_in(place, &dir, &["--system", "system.toml", "--rank", &number])
}

#[test]
fn a_pool_on_several_engines_takes_files_and_outlives_an_engine() {
    let place = Place::new("engines");
    list(&place, 2);
    let (first, second) = (serve(&place, 0), serve(&place, 1));
    let system = format!("unix:{}", place.path("r0/dolmen.sock").display());
    let dmg = |args: &[&str]| {
        let ran = place.command(&[&["dmg"], args].concat()).env("DOLMEN_SYSTEM", &system).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    dmg(&["pool", "create", "tank", "--size", "4GB"]);
    assert_eq!(dmg(&["system", "query"]).matches("joined").count(), 2);
    assert!(dmg(&["pool", "list"]).contains("tank"));
    let pool = format!("{system}/tank");
    place.ok(&["cont", "create", &pool, "home", "--type", "POSIX"]);
    let value: Vec<u8> = (0..9_000_000_u32).map(|at| (at % 251).to_le_bytes()[0]).collect();
    std::fs::write(place.path("field"), &value).unwrap();
    place.ok(&["fs", "put", &pool, "home", "field", "/field"]);
    drop(second);
    assert!(dmg(&["system", "query"]).contains("unresponsive"));
    let again = serve(&place, 1);
    place.ok(&["fs", "get", &pool, "home", "/field", "back"]);
    assert!(std::fs::read(place.path("back")).unwrap() == value);
    // A directory of an engine leads to its daemon.
    assert!(place.ok(&["cont", "list", "r0/tank"]).contains("home"));
    let line = place.fails(8, &["pool", "destroy", "r0/tank", "--recursive"]);
    assert!(line.contains("several engines"), "{line}");
    // Who forgets which engine it is takes nobody's place.
    assert_eq!(place.run(&["serve", "r1", "--system", "system.toml"]).code(), 2);
    std::fs::create_dir(place.path("r2")).unwrap();
    let line = place.fails(5, &["serve", "r2", "--system", "system.toml", "--rank", "0"]);
    assert!(line.contains("another daemon answers"), "{line}");
    let line = place.fails(5, &["serve", "r0", "--system", "system.toml", "--rank", "0", "--detach"]);
    assert!(line.contains(&first.child.id().to_string()), "{line}");
    assert!(dmg(&["pool", "list"]).contains("tank"), "the engine is reached as before");
    // Without the first one the others still say what the system is.
    assert!(first.end().success());
    let other = format!("unix:{}", place.path("r1/dolmen.sock").display());
    let told = place.json(&["dmg", "-G", &other, "system", "query"]);
    let states: Vec<&str> =
        told["members"].as_array().unwrap().iter().map(|member| member["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["unresponsive", "joined"]);
    // A part is no pool: only the engines together open it.
    assert!(again.end().success());
    let line = place.fails(8, &["cont", "list", "r1/tank"]);
    assert!(line.contains("several engines") && line.contains("--system"), "{line}");
}

#[test]
fn what_is_wrong_with_a_list_of_engines_is_named() {
    let place = Place::new("engines-list");
    std::fs::create_dir(place.path("r0")).unwrap();
    let serve = |rank: &str| place.run(&["serve", "r0", "--system", "system.toml", "--rank", rank]);
    assert_ne!(serve("0").code(), 0);
    assert!(serve("0").stderr().contains("system.toml"), "the file is missing");
    std::fs::write(place.path("system.toml"), "[[engine]]\nrank = 0\n").unwrap();
    let ran = serve("0");
    assert!(ran.code() == 2 && ran.stderr().contains("needs addresses"), "{ran:?}");
    std::fs::write(place.path("system.toml"), "[[engine]]\nrank = 0\naddresses = [\"tcp://127.0.0.1:0\"]\n")
        .unwrap();
    let ran = serve("0");
    assert!(ran.code() == 2 && ran.stderr().contains("--insecure-tcp"), "{ran:?}");
    std::fs::write(place.path("system.toml"), "[[engine]]\nrank = 0\nadresses = []\n").unwrap();
    let ran = serve("0");
    assert!(ran.code() == 2 && ran.stderr().contains("line 3: \"adresses\" is unknown"), "{ran:?}");
    std::fs::write(place.path("system.toml"), "[[engine]]\nrank = 0\naddresses = [\"unix:/a\"]\n").unwrap();
    let ran = serve("3");
    assert!(ran.code() == 2 && ran.stderr().contains("rank 3 is not listed"), "{ran:?}");
}

#[test]
fn an_engine_that_is_silent_is_not_said_to_have_stopped() {
    let place = Place::new("engines-silent");
    list(&place, 2);
    let (_first, second) = (serve(&place, 0), serve(&place, 1));
    let system = format!("unix:{}", place.path("r0/dolmen.sock").display());
    let stop = || {
        let ran = place.run(&["dmg", "-G", &system, "system", "stop", "--ranks", "1", "-j"]);
        let mut told: Value = serde_json::from_str(&ran.stdout()).unwrap();
        (ran.code(), told["response"]["results"][0].take())
    };
    let pid = Pid::from_raw(i32::try_from(second.child.id()).unwrap());
    kill(pid, Signal::SIGSTOP).unwrap();
    let (code, told) = stop();
    kill(pid, Signal::SIGCONT).unwrap();
    assert_eq!((code, &told["state"], &told["errored"]), (1, &"unresponsive".into(), &true.into()), "{told}");
    assert!(told["msg"].as_str().unwrap().contains("does not answer in time"), "{told}");
    // Nobody listens any more where its socket still is, or after an orderly end is not.
    drop(second);
    let (code, told) = stop();
    assert_eq!((code, &told["state"], &told["errored"]), (0, &"stopped".into(), &false.into()), "{told}");
    assert!(serve(&place, 1).end().success());
    let (code, told) = stop();
    assert_eq!((code, &told["state"], &told["errored"]), (0, &"stopped".into(), &false.into()), "{told}");
}

#[test]
fn what_users_are_told_of_a_system_names_its_engines() {
    let place = Place::new("engines-told");
    let uris = ["r3", "r5"].map(|dir| {
        std::fs::create_dir(place.path(dir)).unwrap();
        format!("unix:{}", place.path(dir).join("dolmen.sock").display())
    });
    let [first, second] = &uris;
    let listed = format!(
        "name = \"lab\"\n[[engine]]\nrank = 3\naddresses = [\"{first}\"]\n[[engine]]\nrank = 5\naddresses = [\"{second}\"]\n"
    );
    std::fs::write(place.path("system.toml"), listed).unwrap();
    let _engines = (serve(&place, 3), serve(&place, 5));
    let json = |args: &[&str]| place.json(&[&["daos", "-G", second], args].concat());
    place.json(&["dmg", "-G", first, "pool", "create", "tank", "--size", "1GB"]);
    let told = json(&["system", "query"]);
    let wanted = serde_json::json!([{ "rank": 3, "uri": first }, { "rank": 5, "uri": second }]);
    assert_eq!(told["rank_uris"], wanted, "{told}");
    let told = json(&["pool", "list"]);
    assert_eq!(told["pools"][0]["svc_reps"], serde_json::json!([3]), "{told}");
    let told = json(&["pool", "get-prop", "tank", "scrub,svc_list"]);
    assert_eq!((&told[0]["value"], &told[1]["value"]), (&"timed".into(), &"[3]".into()), "{told}");
}

#[test]
fn engines_whose_places_are_swapped_are_told_so() {
    let place = Place::new("engines-swapped");
    list(&place, 2);
    let engines = [serve(&place, 0), serve(&place, 1)];
    let system = format!("unix:{}", place.path("r0/dolmen.sock").display());
    place.json(&["dmg", "-G", &system, "pool", "create", "tank", "--size", "4GB"]);
    assert!(engines.into_iter().map(Daemon::end).all(|status| status.success()));
    for (dir, rank) in [("r0", "1"), ("r1", "0")] {
        let line = place.fails(2, &["serve", dir, "--system", "system.toml", "--rank", rank]);
        let told = format!(
            "pool tank has its part at engine {}, and this is engine {rank}",
            1 - rank.parse::<u32>().unwrap()
        );
        assert!(line.contains(&told), "{line}");
    }
    let listed = std::fs::read_to_string(place.path("system.toml")).unwrap();
    let [head, first, second] = listed.split("[[engine]]").collect::<Vec<_>>().try_into().unwrap();
    std::fs::write(place.path("swapped.toml"), [head, second, first].join("[[engine]]")).unwrap();
    let line = place.fails(2, &["serve", "r0", "--system", "swapped.toml", "--rank", "0"]);
    assert!(line.contains("pool tank lies on engines [0, 1], and the list has [1, 0]"), "{line}");
    let line = place.fails(2, &["serve", "r0"]);
    assert!(line.contains("pool tank lies on engines [0, 1], and no list is given"), "{line}");
}

#[test]
fn an_engine_that_answers_where_another_is_listed_is_told_to_who_starts() {
    let place = Place::new("engines-stranger");
    list(&place, 2);
    let _first = serve(&place, 0);
    // As far as this list knows, the first is where the second ought to be.
    let (own, other) = (place.path("r1/dolmen.sock"), place.path("r0/dolmen.sock"));
    let wrong = format!(
        "[[engine]]\nrank = 0\naddresses = [\"unix:{}\"]\n[[engine]]\nrank = 1\naddresses = [\"unix:{}\"]\n",
        own.display(),
        other.display()
    );
    std::fs::write(place.path("wrong.toml"), wrong).unwrap();
    let said = place.path("said");
    let mut command = place.command(&["serve", "r1", "--system", "wrong.toml", "--rank", "0"]);
    let mut child = command.stderr(std::fs::File::create(&said).unwrap()).spawn().unwrap();
    let told = format!("engine 0 answers at unix:{}, where the list has engine 1", other.display());
    let is_told = || std::fs::read_to_string(&said).unwrap().contains(&told);
    for _ in 0..1000 {
        if is_told() {
            break;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    let was_told = is_told();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(was_told, "{}", std::fs::read_to_string(&said).unwrap());
}

#[test]
fn the_name_of_a_system_leads_to_its_engines_whichever_was_started_last_or_runs() {
    let place = Place::new("engines-named");
    list(&place, 2);
    let data = place.path("data");
    let serve = |rank: u32| {
        let (dir, number) = (format!("r{rank}"), rank.to_string());
        let args = ["--system", "system.toml", "--rank", &number];
        Daemon::start_with(&place, &dir, &args, &[("XDG_DATA_HOME", &data)])
    };
    let lab = |args: &[&str]| {
        let mut command = place.command(&[&["dmg", "-G", "lab"], args].concat());
        Ran::of(&args.join(" "), command.env("XDG_DATA_HOME", &data).output().unwrap())
    };
    let (first, second) = (serve(0), serve(1));
    let made = lab(&["pool", "create", "both", "--size", "2G", "--volatile"]);
    assert_eq!(made.code(), 0, "{made:?}");
    let listed = || lab(&["pool", "list"]);
    assert!(listed().stdout().contains("both"), "{:?}", listed());
    // The one that was started last has ended.
    assert!(second.end().success());
    assert!(listed().stdout().contains("both"), "{:?}", listed());
    assert!(lab(&["system", "query"]).stdout().contains("unresponsive"));
    // The one with the pools has: who runs is asked what the system is, and the other is told with what starts it.
    let second = serve(1);
    assert!(first.end().success());
    let told = lab(&["system", "query"]);
    assert!(told.stdout().contains("joined"), "{told:?}");
    let again = |rank: u32| {
        let [dir, list] = [place.path(&format!("r{rank}")), place.path("system.toml")];
        format!("`dolmen serve {} --system {} --rank {rank}`", dir.display(), list.display())
    };
    let told = listed();
    assert_eq!(told.code(), 11, "{told:?}");
    assert!(told.stderr().contains(&again(0)) && !told.stderr().contains(&again(1)), "{told:?}");
    assert!(second.end().success());
    let told = listed();
    assert_eq!(told.code(), 11, "{told:?}");
    assert!(told.stderr().contains(&again(0)) && told.stderr().contains(&again(1)), "{told:?}");
}

#[test]
fn a_part_of_a_pool_is_removed_only_if_that_is_said() {
    let place = Place::new("engines-part");
    list(&place, 2);
    let engines = [serve(&place, 0), serve(&place, 1)];
    let system = format!("unix:{}", place.path("r0/dolmen.sock").display());
    // Also where no pool tells yet whose directory it is.
    let first = place.run(&["pool", "create", "r0/first", "--capacity", "1G", "--volatile"]);
    assert!(
        first.code() == 0 && first.stderr().contains("`dmg pool create` makes one that is on all"),
        "{first:?}"
    );
    place.json(&["dmg", "-G", &system, "pool", "create", "tank", "--size", "4GB"]);
    assert!(engines.into_iter().map(Daemon::end).all(|status| status.success()));
    a_pool_beside_it_is_told_to_be_none_of_its_system(&place);
    let line = place.fails(8, &["pool", "destroy", "r1/tank", "--force"]);
    assert!(line.contains("one part of a pool on several engines"), "{line}");
    assert!(line.contains("dmg pool destroy") && line.contains("--force --part"), "{line}");
    place.ok(&["pool", "destroy", "r1/tank", "--force", "--part"]);
}

/// `r1/tank` is a part; `alone` is made beside it, from wherever, and `elsewhere` is not.
fn a_pool_beside_it_is_told_to_be_none_of_its_system(place: &Place) {
    let make = |from: &str, dir: &str| {
        let mut command = place.command(&["pool", "create", dir, "--capacity", "1G", "--volatile", "--json"]);
        let output = command.current_dir(place.path(from)).output().unwrap();
        let ran = Ran::of(&format!("pool create {dir} in {from}"), output);
        assert_eq!(ran.code(), 0, "{ran:?}");
        let answer: Value = serde_json::from_str(&ran.stdout()).unwrap();
        assert_eq!(answer["status"], 0, "{ran:?}");
        ran.stderr()
    };
    for (from, dir) in [(".", "r1/alone"), ("r1", "here"), ("r0", "../r1/there")] {
        let told = make(from, dir);
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains("have tank together: this pool is none of theirs"), "{told}");
        assert!(told.contains("`dmg pool create`"), "{told}");
    }
    assert_eq!(make(".", "elsewhere"), "");
    let line = place.fails(4, &["pool", "create", "r1/alone", "--capacity", "1G", "--volatile"]);
    assert!(!line.contains("none of theirs"), "nothing was made: {line}");
}
