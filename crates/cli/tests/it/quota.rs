//! `dolmen cont quota`, and what it does to files.

use crate::common::{Place, bytes};
use crate::engines;
use crate::served::Daemon;
use serde_json::{Value, json};
use std::fs;

fn used(place: &Place, args: &[&str]) -> Value {
    place.json(&[&["cont", "quota"], args].concat())
}

#[test]
fn limits_are_set_shown_kept_and_lifted() {
    let place = Place::new("quota-set");
    place.pool_with_files();
    let none = used(&place, &["p", "c"]);
    assert_eq!(none["bytes"], json!({ "used": 0, "limit": null }));
    assert_eq!(none["files"], json!({ "used": 1, "limit": null }), "the root");
    let set = used(&place, &["p", "c", "--bytes", "1M", "--files", "3"]);
    assert_eq!((&set["bytes"]["limit"], &set["files"]["limit"]), (&json!(1 << 20), &json!(3)));
    fs::write(place.path("large"), bytes(900_000, 1)).unwrap();
    fs::write(place.path("small"), bytes(200_000, 2)).unwrap();
    let path = |name: &str| place.path(name).to_str().unwrap().to_owned();
    place.ok(&["fs", "put", "p", "c", &path("large"), "/large"]);
    // A code of its own, and what helps.
    let told = place.fails(6, &["fs", "put", "p", "c", &path("small"), "/small"]);
    assert!(told.contains("quota") && told.contains("dolmen cont quota"), "{told}");
    let text = place.ok(&["cont", "quota", "p", "c"]);
    assert!(text.contains("of 1.0 MiB") && text.contains("of 3"), "{text}");
    let query = place.json(&["cont", "query", "p", "c"]);
    assert_eq!(query["quota"]["bytes"]["used"], 900_000);
    place.ok(&["fs", "rm", "p", "c", "/large"]);
    place.ok(&["fs", "put", "p", "c", &path("small"), "/small"]);
    // One limit stays when the other is set.
    let lifted = used(&place, &["p", "c", "--bytes", "none"]);
    assert_eq!((&lifted["bytes"]["limit"], &lifted["files"]["limit"]), (&Value::Null, &json!(3)));
    place.ok(&["fs", "put", "p", "c", &path("large"), "/large"]);
    place.fails(6, &["fs", "put", "p", "c", &path("small"), "/more"]);
    used(&place, &["p", "c", "--files", "none"]);
    place.ok(&["fs", "put", "p", "c", &path("small"), "/more"]);
    assert_eq!(place.json(&["cont", "query", "p", "c"])["quota"], Value::Null);
}

#[test]
fn users_have_lines_and_limits() {
    let place = Place::new("quota-users");
    place.pool_with_files();
    let uid = dolmen_env::user_id();
    let own = used(&place, &["p", "c", "--user", &uid.to_string(), "--bytes", "100K"]);
    assert_eq!((&own["uid"], &own["bytes"]["limit"]), (&json!(uid), &json!(100 << 10)));
    fs::write(place.path("file"), bytes(110_000, 1)).unwrap();
    let file = place.path("file").to_str().unwrap().to_owned();
    place.fails(6, &["fs", "put", "p", "c", &file, "/file"]);
    let other = used(&place, &["p", "c", "--user", "4200042", "--files", "7"]);
    assert_eq!(other["files"], json!({ "used": 0, "limit": 7 }));
    let all = used(&place, &["p", "c"]);
    let users: Vec<&Value> = all["users"].as_array().unwrap().iter().map(|user| &user["uid"]).collect();
    assert_eq!(users, [&json!(uid), &json!(4_200_042)]);
    used(&place, &["p", "c", "--user", &uid.to_string(), "--bytes", "none"]);
    place.ok(&["fs", "put", "p", "c", &file, "/file"]);
    let table = place.ok(&["cont", "quota", "p", "c"]);
    assert!(table.contains("4200042"), "{table}");
    let unknown = place.run(&["cont", "quota", "p", "c", "--user", "nobody-has-this-name"]);
    assert!(unknown.code() == 2 && unknown.stderr().contains("no such user"), "{unknown:?}");
    let nobody = place.run(&["cont", "quota", "p", "c", "--user", "4294967295", "--bytes", "1M"]);
    assert!(nobody.code() == 2 && nobody.stderr().contains("no user has this number"), "{nobody:?}");
    for limit in ["--bytes", "--files"] {
        // Neither a limit of nothing nor, unsaid, none.
        let zero = place.run(&["cont", "quota", "p", "c", limit, "0"]);
        assert!(zero.code() == 2 && zero.stderr().contains("`none` lifts it"), "{zero:?}");
    }
    for (limit, says) in [("--bytes", "give bytes"), ("--files", "give a number"), ("--user", "no such user")]
    {
        let below = place.run(&["cont", "quota", "p", "c", limit, "-1"]);
        assert!(below.code() == 2 && below.stderr().contains(says), "{below:?}");
        assert!(!below.stderr().contains("tip"), "{below:?}");
    }
    for wrong in ["12X", "-1", ""] {
        let bytes = format!("--bytes={wrong}");
        assert_eq!(place.run(&["cont", "quota", "p", "c", &bytes]).code(), 2, "{wrong:?}");
    }
}

#[test]
fn a_daemon_keeps_limits_over_its_end_and_so_do_several_engines() {
    let place = Place::new("quota-served");
    place.pool_with_files();
    let daemon = Daemon::start(&place, &[]);
    used(&place, &["p", "c", "--bytes", "50K"]);
    assert!(daemon.end().success());
    let daemon = Daemon::start(&place, &[]);
    fs::write(place.path("file"), bytes(60_000, 1)).unwrap();
    let file = place.path("file").to_str().unwrap().to_owned();
    let told = place.fails(6, &["fs", "put", "p", "c", &file, "/file"]);
    assert!(told.contains("quota"), "{told}");
    assert!(daemon.end().success());

    let place = Place::new("quota-engines");
    engines::list(&place, 2);
    let daemons = [engines::serve(&place, 0), engines::serve(&place, 1)];
    let system = format!("unix:{}", place.path("r0/dolmen.sock").display());
    place.ok(&["dmg", "-G", &system, "pool", "create", "tank", "--size", "4GB"]);
    let pool = format!("{system}/tank");
    place.ok(&["cont", "create", &pool, "home", "--type", "POSIX"]);
    used(&place, &[&pool, "home", "--bytes", "300K", "--files", "6"]);
    fs::write(place.path("file"), bytes(90_000, 1)).unwrap();
    let file = place.path("file").to_str().unwrap().to_owned();
    let put = |name: &str| place.run(&["fs", "put", &pool, "home", &file, name]);
    assert!(["/a", "/b", "/c"].into_iter().all(|name| put(name).code() == 0));
    assert_eq!(put("/d").code(), 6);
    let told = used(&place, &[&pool, "home"]);
    assert_eq!(told["bytes"], json!({ "used": 270_000, "limit": 300 << 10 }));
    place.ok(&["fs", "rm", &pool, "home", "/b"]);
    assert_eq!(put("/d").code(), 0, "what is removed at one is free for all");
    let [first, second] = daemons;
    assert!(second.end().success());
    let ran = place.run(&["cont", "quota", &pool, "home"]);
    let (code, told) = (ran.code(), ran.stderr());
    assert_eq!(code, 11, "{told}");
    let asked = format!("engine 1 does not answer; see that its daemon runs, then try again; {system} does");
    assert!(told.contains(&asked) && told.contains(&format!("`dmg -G {system} system query`")), "{told}");
    assert!(
        !told.contains(&format!("`dolmen serve {}", place.path("r0").display())),
        "that one runs: {told}"
    );
    assert!(first.end().success());
}
