//! Completions and man pages.

use crate::common::Place;

#[test]
fn completions_and_man_pages_are_generated() {
    let place = Place::new("shell");
    for shell in ["bash", "zsh", "fish"] {
        let script = place.ok(&["completions", shell]);
        assert!(script.contains("dolmen") && !script.contains("child"), "{shell}");
    }
    assert_eq!(place.json(&["completions", "bash"])["shell"], "bash");
    assert!(place.fails(3, &["man", "nope/man1"]).contains("there is no directory nope; make it first"));
    assert!(!place.path("nope").exists());
    let pages = place.json(&["man", "man1"]);
    let pages: Vec<&str> =
        pages["pages"].as_array().unwrap().iter().map(|page| page.as_str().unwrap()).collect();
    for name in ["daos", "dmg"] {
        let script = place.ok(&["completions", "bash", "--name", name]);
        let line = script.lines().find(|line| line.trim_start().starts_with("complete ")).unwrap();
        assert!(line.ends_with(&format!(" {name}")), "{line}");
        assert!(script.contains("--sys-name") && script.contains("pool"), "{name}");
    }
    for page in [
        "dolmen.1",
        "dolmen-fs-put.1",
        "dolmen-cont-snapshot-diff.1",
        "daos.1",
        "daos-pool-query.1",
        "dmg-pool-create.1",
    ] {
        assert!(pages.contains(&page), "{page}: {pages:?}");
        assert!(std::fs::read_to_string(place.path("man1").join(page)).unwrap().contains(".TH"), "{page}");
    }
    assert!(!pages.iter().any(|page| page.contains("help")), "{pages:?}");
    let page = std::fs::read_to_string(place.path("man1").join("dolmen-fs-ls.1")).unwrap();
    let daos = std::fs::read_to_string(place.path("man1/daos-pool-query.1")).unwrap();
    assert!(daos.contains("\\fBdaos pool query\\fR [") && !daos.contains("dolmen daos"), "{daos}");
    let synopsis = "[\\-\\-memory <SIZE>] [\\-\\-wait <SECONDS>] [\\-\\-long]";
    assert!(page.contains(synopsis) && page.contains(" <POOL> <CONT> [PATH]"), "{page}");
}

#[test]
fn an_installation_has_all_names_pages_completions_and_the_unit() {
    let place = Place::new("installation");
    std::fs::create_dir_all(place.path("target/release")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_dolmen"), place.path("target/release/dolmen")).unwrap();
    std::fs::write(place.path("target/release/libdolmen_preload.so"), [b'x'; 101]).unwrap();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // Nothing is built: what Cargo does is tested elsewhere.
    let said = |name: &str, value: &std::path::Path| [name, value.to_str().unwrap()].join("=");
    let mut make = std::process::Command::new("timeout");
    make.args(["--kill-after=5", "120", "make", "install", "CARGO=true", "PREFIX=/opt/d"]).current_dir(&root);
    make.arg(said("TARGET", &place.path("target"))).arg(said("DESTDIR", &place.path("stage")));
    let done = make.env_remove("MAKEFLAGS").output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{done:?}");
    assert!(text.contains("LD_LIBRARY_PATH=/opt/d/lib64") && text.contains("ldconfig"), "{text}");
    let at = |name: &str| place.path("stage/opt/d").join(name);
    for name in ["daos", "dmg"] {
        let version = std::process::Command::new(at("bin").join(name)).arg("version").output().unwrap();
        assert!(String::from_utf8_lossy(&version.stdout).starts_with(name), "{version:?}");
    }
    for name in [
        "share/man/man1/dolmen.1",
        "share/man/man1/dolmen-dmg-pool.1",
        "share/bash-completion/completions/dolmen",
        "share/zsh/site-functions/_dolmen",
        "share/fish/vendor_completions.d/dolmen.fish",
        "share/man/man1/daos.1",
        "share/man/man1/dmg-pool-create.1",
        "share/bash-completion/completions/daos",
        "share/zsh/site-functions/_dmg",
        "share/fish/vendor_completions.d/daos.fish",
        "lib64/libdolmen_preload.so",
    ] {
        assert!(at(name).metadata().is_ok_and(|file| file.len() > 100), "{name}");
    }
    let unit = std::fs::read_to_string(at("lib/systemd/system/dolmen@.service")).unwrap();
    assert!(unit.contains("ExecStart=/opt/d/bin/dolmen serve"), "{unit}");
    // What somebody else has put there stays, and nothing of this.
    let theirs = at("share/man/man1/other.1");
    std::fs::write(&theirs, b"").unwrap();
    let uninstall = || {
        let mut make = std::process::Command::new("timeout");
        make.args(["--kill-after=5", "120", "make", "uninstall", "PREFIX=/opt/d"]).current_dir(&root);
        let done = make.arg(said("DESTDIR", &place.path("stage"))).env_remove("MAKEFLAGS").output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    // As Cargo puts them there.
    let headers = || {
        for (dir, name) in [("include", "daos.h"), ("include/gurt", "common.h")] {
            assert!(root.join("crates/capi").join(dir).join(name).is_file(), "{name}");
            std::fs::create_dir_all(at(dir)).unwrap();
            std::fs::write(at(dir).join(name), b"").unwrap();
        }
    };
    headers();
    std::fs::write(at("include/gurt/others.h"), b"").unwrap();
    uninstall();
    let left: Vec<_> =
        std::fs::read_dir(at("include/gurt")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["others.h"], "a directory with something of others' stays");
    std::fs::remove_file(at("include/gurt/others.h")).unwrap();
    headers();
    uninstall();
    assert!(!at("include/gurt").exists() && at("include").is_dir(), "and one of its own goes");
    uninstall();
    let find =
        std::process::Command::new("find").arg(place.path("stage")).args(["-not", "-type", "d"]).output();
    let left = String::from_utf8(find.unwrap().stdout).unwrap();
    assert_eq!(left.trim(), theirs.to_str().unwrap());
}
