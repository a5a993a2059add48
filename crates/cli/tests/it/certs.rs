//! Certificates from the command line, and systems on a network that ask for them.

use crate::common::{Place, Ran};
use crate::served::Daemon;
use dolmen_env::{Address, Clock, Listener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Runs a command with these certificates, and as a client of this system.
fn with(place: &Place, certs: Option<&str>, system: &str, args: &[&str]) -> Ran {
    let mut command = place.command(args);
    command.env_remove("DOLMEN_CERTS").env("DOLMEN_SYSTEM", system);
    if let Some(dir) = certs {
        command.env("DOLMEN_CERTS", place.path(dir));
    }
    Ran { args: args.join(" "), output: command.output().unwrap() }
}

#[test]
fn certificates_are_made_once_for_their_owners_and_are_shown() {
    let place = Place::new("certs");
    assert!(
        place.fails(3, &["system", "certs", "certs", "--user", "anna"]).contains("ca.key"),
        "there is no authority"
    );
    let made = place.json(&["system", "certs", "certs"]);
    assert_eq!(made["made"].as_array().unwrap().len(), 4, "{made}");
    let mine = place.path("certs");
    let mut files = vec![mine.join("ca.key"), mine.join("ca.crt")];
    for dir in ["engine", "admin"] {
        assert_eq!(mode(&mine.join(dir)), 0o700);
        files.extend(["ca.crt", "own.crt", "own.key"].map(|file| mine.join(dir).join(file)));
    }
    let all: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert!(files.iter().all(|file| mode(file) == 0o600));
    // Nothing is made twice, and what was moved away is made anew.
    assert!(place.fails(4, &["system", "certs", "certs"]).contains("everything is there"));
    let user =
        ["system", "certs", "certs", "--user", "anna,staff,video", "--uid", "4200001", "--gid", "4200002"];
    place.ok(&[&user[..], &["--days", "3"]].concat());
    assert!(place.fails(4, &user).contains("users/anna"));
    assert!(place.fails(3, &["system", "certs", "certs", "--user", "nobody-of-this-name"]).contains("--uid"));
    assert!(
        place
            .fails(2, &["system", "certs", "certs", "--user", "a b", "--uid", "1", "--gid", "1"])
            .contains("a b")
    );
    assert!(
        place
            .fails(2, &["system", "certs", "certs", "--user", "../x", "--uid", "1", "--gid", "1"])
            .contains("../x")
    );
    place.ok(&["system", "certs", "certs", "--user", "root"]);
    std::fs::rename(mine.join("admin"), mine.join("former")).unwrap();
    assert_eq!(place.json(&["system", "certs", "certs"])["made"].as_array().unwrap().len(), 1);
    let kept = files.iter().zip(&all).filter(|(file, text)| std::fs::read(file).unwrap() == **text).count();
    assert_eq!(kept, files.len() - 2, "the administrators' certificate and key are new");
    let shown = place.json(&["system", "certs", "certs", "--show"]);
    let shown = shown["certificates"].as_array().unwrap();
    let roles: Vec<&str> = shown.iter().map(|one| one["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["authority", "engine", "admin", "user", "user"]);
    assert_eq!(shown[3]["groups"], "staff,video");
    assert!(shown[3]["days_left"] == 2 || shown[3]["days_left"] == 3, "{shown:?}");
    assert!(place.ok(&["system", "certs", "certs", "--show"]).contains("anna"));
    place.fails(3, &["system", "certs", "nowhere", "--show"]);
}

#[test]
fn commands_reach_a_system_on_a_network_with_certificates_and_as_whom_they_name() {
    let place = Place::new("certs-served");
    place.ok(&["system", "certs", "certs"]);
    place.ok(&["system", "certs", "certs", "--user", "anna,staff", "--uid", "4200001", "--gid", "4200002"]);
    place.pool_with_files();
    let daemon = Daemon::start(&place, &["--tcp", "127.0.0.1:0", "--certs", "certs"]);
    let at = format!("tcp://{}", daemon.line.trim().rsplit_once("tcp://").unwrap().1);
    let pool = format!("{at}/p");
    let list = ["cont", "list", pool.as_str()];
    // On the machine itself nothing has changed.
    assert!(place.ok(&["cont", "list", "p"]).contains('c'));
    // Without a certificate, with a wrong one, and with one that nothing is allowed to.
    let none = with(&place, None, &at, &list);
    assert!(none.code() == 8 && none.stderr().contains("DOLMEN_CERTS"), "{none:?}");
    place.ok(&["system", "certs", "foreign"]);
    let foreign = with(&place, Some("foreign/admin"), &at, &list);
    assert!(foreign.code() == 8 && foreign.stderr().contains("another authority"), "{foreign:?}");
    let engine = with(&place, Some("certs/engine"), &at, &list);
    assert!(engine.code() == 8 && engine.stderr().contains("something else"), "{engine:?}");
    let told = with(&place, None, &at, &[&list[..], &["--json"]].concat()).stdout();
    assert!(told.contains("-2043"), "{told}");
    let anna = |args: &[&str]| with(&place, Some("certs/users/anna"), &at, args);
    let admin = |args: &[&str]| {
        let ran = with(&place, Some("certs"), &at, args);
        assert_eq!(ran.code(), 0, "{ran:?}");
        ran.stdout()
    };
    assert_eq!(anna(&list).code(), 8);
    assert!(admin(&list).contains('c'));
    // Pools are the administrator's, and anna's what she is given.
    assert_eq!(anna(&["dmg", "pool", "create", "tank", "--size", "1GB"]).code(), 8);
    assert!(admin(&["dmg", "system", "query"]).contains("joined"));
    // The settings of a user say where they are, too.
    std::fs::create_dir_all(place.path("config/dolmen")).unwrap();
    let settings = format!("system = \"{at}\"\ncerts = \"{}\"\n", place.path("certs/admin").display());
    std::fs::write(place.path("config/dolmen/client.toml"), settings).unwrap();
    let mut command = place.command(&["dmg", "system", "query"]);
    command
        .env_remove("DOLMEN_CERTS")
        .env_remove("DOLMEN_SYSTEM")
        .env("XDG_CONFIG_HOME", place.path("config"));
    let listed = command.output().unwrap();
    assert!(
        listed.status.success() && String::from_utf8_lossy(&listed.stdout).contains("joined"),
        "{listed:?}"
    );
    let value: Vec<u8> = (0..5_000_000_u32).map(|at| (at % 251).to_le_bytes()[0]).collect();
    std::fs::write(place.path("field"), &value).unwrap();
    admin(&["fs", "put", &pool, "c", "field", "/field"]);
    admin(&["fs", "get", &pool, "c", "/field", "back"]);
    assert!(std::fs::read(place.path("back")).unwrap() == value);
    // Anna is whom her certificate names, whatever she is called where she works.
    let uuid = place.json(&["pool", "list"])[0]["uuid"].as_str().unwrap().to_owned();
    let refused = anna(&["daos", "cont", "list", &uuid]);
    assert!(refused.code() == 8 && refused.stderr().contains("anna@ has no permission r"), "{refused:?}");
    let remedies = |ran: &Ran| -> Vec<String> {
        let said = ran.stderr();
        said.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let follow = |remedy: &str| admin(&remedy.split(' ').collect::<Vec<_>>());
    follow(&remedies(&refused)[0]);
    let refused = anna(&["daos", "cont", "create", &uuid, "annas"]);
    assert!(refused.code() == 8 && refused.stderr().contains("anna@ has no permission c"), "{refused:?}");
    // What she has is looked up first: an entry takes its place.
    let [look, give] = &remedies(&refused)[..] else { panic!("{refused:?}") };
    assert!(follow(look).contains("A::anna@:r"), "{look}");
    follow(&give.replace("PERMS", "rc"));
    let made = anna(&["daos", "cont", "create", &uuid, "annas"]);
    assert_eq!(made.code(), 0, "{made:?}");
    let owner = anna(&["daos", "cont", "get-acl", &uuid, "annas"]);
    assert!(owner.stdout().contains("# Owner: anna@") && owner.stdout().contains("staff@"), "{owner:?}");
    let create = anna(&["dmg", "pool", "create", "tank", "--size", "1GB"]);
    assert!(create.stderr().contains("the administrator's certificate"), "{create:?}");
    assert!(daemon.end().success());
}

#[test]
fn a_daemon_needs_the_certificate_of_engines_to_listen_on_a_network() {
    let place = Place::new("certs-refused");
    place.ok(&["system", "certs", "certs"]);
    let serve = |dir: &str| place.run(&["serve", ".", "--tcp", "127.0.0.1:0", "--certs", dir]);
    let ran = serve("certs/admin");
    assert!(ran.code() == 8 && ran.stderr().contains("something else"), "{ran:?}");
    let ran = serve("nowhere");
    assert!(ran.code() == 8 && ran.stderr().contains("dolmen system certs"), "{ran:?}");
    std::fs::set_permissions(place.path("certs/engine/own.key"), PermissionsExt::from_mode(0o644)).unwrap();
    let ran = serve("certs");
    assert!(ran.code() == 8 && ran.stderr().contains("0600"), "{ran:?}");
    let ran = place.run(&["serve", ".", "--tcp", "127.0.0.1:0", "--certs", "certs", "--insecure-tcp"]);
    assert_eq!(ran.code(), 2, "one or the other: {ran:?}");
}

#[test]
fn engines_on_a_network_speak_to_each_other_with_their_certificate() {
    let place = Place::new("certs-engines");
    place.ok(&["system", "certs", "certs"]);
    place.ok(&["system", "certs", "certs", "--user", "anna", "--uid", "4200001", "--gid", "4200002"]);
    // An address of this machine that no other test has: its ports are free until they are taken again.
    let id = std::process::id();
    let host = format!("127.{}.{}.{}", 64 + id % 128, id / 128 % 256, 1 + id / 32_768 % 254);
    let free = Address::Tcp(format!("{host}:0").parse().unwrap());
    let bound = [(); 2].map(|()| Listener::bind(&free).unwrap());
    let ports = bound.map(|listener| match listener.address() {
        Address::Tcp(at) => at.port(),
        Address::Unix(_) => panic!("it is bound on the network"),
    });
    let engine = |(rank, port): (usize, &u16)| {
        std::fs::create_dir(place.path(&format!("r{rank}"))).unwrap();
        format!("[[engine]]\nrank = {rank}\naddresses = [\"tcp://{host}:{port}\"]\n")
    };
    let engines: String = ports.iter().enumerate().map(engine).collect();
    let list = format!("name = \"lab\"\ncerts = \"{}\"\n{engines}", place.path("certs").display());
    std::fs::write(place.path("system.toml"), list).unwrap();
    let serve = |rank: &str| {
        Daemon::start_in(&place, &format!("r{rank}"), &["--system", "system.toml", "--rank", rank])
    };
    let (first, second) = (serve("0"), serve("1"));
    let system = format!("tcp://{host}:{}", ports[1]);
    let admin = |args: &[&str]| {
        let ran = with(&place, Some("certs/admin"), &system, args);
        assert_eq!(ran.code(), 0, "{ran:?}");
        ran.stdout()
    };
    admin(&["dmg", "pool", "create", "tank", "--size", "4GB"]);
    assert_eq!(admin(&["dmg", "system", "query"]).matches("joined").count(), 2);
    let pool = format!("{system}/tank");
    admin(&["cont", "create", &pool, "home", "--type", "POSIX"]);
    let value: Vec<u8> = (0..9_000_000_u32).map(|at| (at % 251).to_le_bytes()[0]).collect();
    std::fs::write(place.path("field"), &value).unwrap();
    admin(&["fs", "put", &pool, "home", "field", "/field"]);
    drop(second);
    let second = serve("1");
    admin(&["fs", "get", &pool, "home", "/field", "back"]);
    assert!(std::fs::read(place.path("back")).unwrap() == value);
    let anna = with(&place, Some("certs/users/anna"), &system, &["cont", "list", &pool]);
    assert_eq!(anna.code(), 8, "{anna:?}");
    admin(&["dmg", "pool", "destroy", "tank", "--recursive"]);
    assert!(first.end().success() && second.end().success());
}

#[test]
fn a_certificate_that_is_revoked_is_not_let_in_any_more_by_engines_that_run() {
    let place = Place::new("certs-revoked");
    let certs = ["system", "certs", "certs"];
    place.ok(&certs);
    let user = |name: &str| {
        place.ok(&[&certs[..], &["--user", name, "--uid", "4200001", "--gid", "4200002"]].concat());
    };
    user("anna");
    user("bert");
    place.pool_with_files();
    let daemon = Daemon::start(&place, &["--tcp", "127.0.0.1:0", "--certs", "certs"]);
    let at = format!("tcp://{}", daemon.line.trim().rsplit_once("tcp://").unwrap().1);
    let query = |dir: &str| with(&place, Some(dir), &at, &["dmg", "system", "query"]);
    let revoke = |name: &str| place.json(&[&certs[..], &["--revoke", name]].concat());
    assert_eq!(query("certs/users/anna").code(), 0);
    let told = revoke("anna");
    assert!(told["is_new"] == true && told["count"] == 1, "{told}");
    assert_eq!(told["lists"].as_array().unwrap().len(), 2);
    // The engine looks once a second.
    let refused = dolmen_env::RealClock.monotonic_ns() + 20_000_000_000;
    while query("certs/users/anna").code() == 0 {
        assert!(dolmen_env::RealClock.monotonic_ns() < refused, "the engine does not look");
    }
    let ran = query("certs/users/anna");
    assert!(ran.code() == 8 && ran.stderr().contains("was revoked"), "{ran:?}");
    assert_eq!(query("certs/users/bert").code(), 0);
    // What was renewed is another certificate. The former stays on the list, twice named or not.
    std::fs::rename(place.path("certs/users/anna"), place.path("certs/users/anna.old")).unwrap();
    user("anna");
    assert_eq!(query("certs/users/anna").code(), 0);
    let again = revoke("anna.old");
    assert!(again["is_new"] == false && again["count"] == 1, "{again}");
    let told = revoke("admin");
    assert_eq!(told["count"], 2, "{told}");
    assert!(place.ok(&[&certs[..], &["--revoke", "bert"]].concat()).contains("3 certificates"));
    let shown = place.json(&[&certs[..], &["--show"]].concat());
    let shown = shown["certificates"].as_array().unwrap();
    let revoked: Vec<&str> = shown
        .iter()
        .filter(|one| one["revoked"] == true)
        .map(|one| one["path"].as_str().unwrap().rsplit('/').nth(1).unwrap())
        .collect();
    assert_eq!(revoked, ["admin", "anna.old", "bert"]);
    // The engines' own is renewed, as is written in docs/operating.md: with the list, for who runs and for who starts.
    std::fs::rename(place.path("certs/engine"), place.path("certs/engine.old")).unwrap();
    place.ok(&certs);
    let list = |dir: &str| std::fs::read(place.path(dir).join("revoked.pem")).unwrap();
    assert_eq!(list("certs/engine"), list("certs"));
    assert!(!place.path("certs/users/anna/revoked.pem").exists());
    // Clients have no list: the engines' is not for it.
    let engine = place.run(&[&certs[..], &["--revoke", "engine"]].concat());
    assert!(engine.code() == 2 && engine.stderr().contains("new authority"), "{engine:?}");
    for name in ["nobody", "../users/bert", ".", ""] {
        assert!(place.fails(3, &[&certs[..], &["--revoke", name]].concat()).contains("--show"), "{name:?}");
    }
    assert!(daemon.end().success());
}
