//! Programs that others have written to try file systems, and everyday ones, on a mount. Where a program is not installed, it is
//! said and nothing is tested, unless it has to be; `cargo xtask tools` lists them.

use super::{Mounted, has, limited, shell};
use crate::common::{amount, make_tree};
use crate::untested::untested;
use core::time::Duration;
use std::fs;
use std::path::Path;
use std::process::Command;

/// For the longest of them, on a machine that has much else to do.
const LIMIT: Duration = Duration::from_secs(120);
/// How long a stressor goes on, unless `MOUNT_SECONDS` says otherwise; what it has made is removed after that.
const SECONDS: u64 = 2;

/// Runs a program, which must succeed; what it prints.
pub(super) fn ran(mounted: &Mounted, command: &Command) -> String {
    let output = limited(mounted, command, LIMIT);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}\n{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Runs stressors one after another, each with two processes and few operations; more of both where there is time.
fn stressed(name: &str, short: &[&str], long: &[&str]) {
    if !has("stress-ng") {
        return;
    }
    let seconds = amount("MOUNT_SECONDS", SECONDS);
    let is_long = seconds > SECONDS;
    let stressors = [short, if is_long { long } else { &[] }].concat();
    for stressor in stressors {
        let Some(mounted) = Mounted::served(name, &[]) else { return };
        let mut command = Command::new("stress-ng");
        command
            .arg("--temp-path")
            .arg(mounted.path(""))
            .arg("--verify")
            .arg("--timeout")
            .arg(seconds.to_string());
        command.args([&format!("--{stressor}"), "2"]);
        if !is_long {
            command.args([&format!("--{stressor}-ops"), "30"]);
        }
        ran(&mounted, &command);
        assert_eq!(shell(&mounted, "find . -mindepth 1"), "", "what {stressor} has made is removed");
        mounted.finish();
    }
}

#[test]
fn stressors_of_names_pass() {
    // Of links each makes thousands, and removes them one by one.
    stressed(
        "stress-names",
        &["dentry", "dir", "dirdeep", "rename", "touch", "getdent"],
        &["link", "symlink"],
    );
}

#[test]
fn stressors_of_contents_pass() {
    stressed("stress-contents", &["fallocate", "hdd", "seek"], &["mmap", "readahead", "aio", "copy-file"]);
}

#[test]
fn stressors_of_attributes_and_locks_pass() {
    let long = ["lockf", "fpunch", "lease"];
    stressed("stress-attributes", &["chmod", "fstat", "utime", "xattr", "fcntl", "flock"], &long);
}

#[test]
fn fio_reads_back_what_it_has_written_by_calls_by_mapping_and_at_depth() {
    if !has("fio") {
        return;
    }
    let Some(mounted) = Mounted::served("fio", &["--cache", "data"]) else { return };
    for (name, words) in [
        ("calls", &["--ioengine=psync", "--rw=randrw", "--bs=4k-64k", "--size=8m", "--numjobs=2"][..]),
        ("mapped", &["--ioengine=mmap", "--rw=randwrite", "--bs=4k", "--size=2m"]),
        (
            "deep",
            &["--ioengine=libaio", "--direct=1", "--iodepth=8", "--rw=randwrite", "--bs=16k", "--size=4m"],
        ),
    ] {
        let mut fio = Command::new("fio");
        fio.args(words).args(["--verify=crc32c", "--verify_fatal=1", "--do_verify=1", "--fallocate=none"]);
        fio.arg(format!("--name={name}")).arg(format!("--directory={}", mounted.path("").display()));
        ran(&mounted, fio.current_dir(mounted.place.path("")));
    }
    mounted.finish();
}

#[test]
fn dbench_finds_what_a_file_server_needs() {
    const LOAD: &str = "/usr/share/dbench/client.txt";
    if !has("dbench") {
        return;
    }
    if !Path::new(LOAD).exists() {
        return untested("DOLMEN_TEST_TOOLS", &format!("dbench has come without {LOAD}"));
    }
    let Some(mounted) = Mounted::served("dbench", &[]) else { return };
    let mut dbench = Command::new("dbench");
    dbench.args(["-c", LOAD, "-t", "2", "-D"]).arg(mounted.path("")).arg("2");
    let said = ran(&mounted, &dbench);
    assert!(said.contains("Throughput"), "{said}");
    mounted.finish();
}

#[test]
fn a_tree_goes_through_tar_and_rsync_and_is_the_same() {
    if !has("rsync") || !has("tar") {
        return;
    }
    let Some(mounted) = Mounted::served("tar-rsync", &[]) else { return };
    let tree = mounted.place.path("tree");
    make_tree(&tree);
    let [from, to, back] = [tree.clone(), mounted.path("copy"), mounted.place.path("back")];
    let rsync = |from: &Path, to: &Path, words: &[&str]| {
        let mut command = Command::new("rsync");
        command.args(["-aHX", "--sparse"]).args(words).arg(format!("{}/", from.display())).arg(to);
        ran(&mounted, &command)
    };
    rsync(&from, &to, &[]);
    assert_eq!(rsync(&from, &to, &["-ni", "--checksum"]), "", "the copy has nothing that differs");
    rsync(&to, &back, &[]);
    assert_eq!(rsync(&from, &back, &["-ni", "--checksum"]), "");
    let line = format!("mkdir other; tar -C {} -cf - . | tar -C other -xpf -", from.display());
    shell(&mounted, &line);
    assert_eq!(rsync(&from, &mounted.path("other"), &["-ni", "--checksum"]), "");
    mounted.finish();
}

#[test]
fn a_repository_is_cloned_and_a_program_is_built_and_run() {
    if !has("git") {
        return;
    }
    let Some(mounted) = Mounted::served("built", &["--cache", "data"]) else { return };
    let cargo = std::env::var("CARGO").unwrap_or_else(|_unset| "cargo".to_owned());
    let first = mounted.place.path("first");
    fs::create_dir_all(first.join("src")).unwrap();
    fs::write(first.join("Cargo.toml"), "[package]\nname = \"menhir\"\nedition = \"2024\"\n[workspace]\n")
        .unwrap();
    fs::write(first.join("src/main.rs"), "mod stone;\nfn main() { println!(\"{}\", stone::heavy()); }\n")
        .unwrap();
    fs::write(first.join("src/stone.rs"), "pub fn heavy() -> u32 { (1..=9).sum() }\n").unwrap();
    let git = "git -c user.name=a -c user.email=a@b -c init.defaultBranch=main";
    let line = format!("cd {0}; {git} init -q; git add .; {git} commit -qm one", first.display());
    shell(&mounted, &line);
    shell(
        &mounted,
        &format!("git clone -q {} work; cd work; git status --short; git fsck --strict", first.display()),
    );
    for _ in 0..2 {
        let mut build = Command::new(&cargo);
        build
            .args(["run", "--offline", "-q"])
            .current_dir(mounted.path("work"))
            .env_remove("CARGO_TARGET_DIR");
        build.env("CARGO_INCREMENTAL", "1").env("GIT_CEILING_DIRECTORIES", mounted.path(""));
        assert_eq!(ran(&mounted, &build), "45\n");
        fs::write(mounted.path("work/src/stone.rs"), "pub fn heavy() -> u32 { (1..=9).sum::<u32>() + 0 }\n")
            .unwrap();
    }
    mounted.finish();
}

/// A repository of one crate of this workspace, which takes others from the registry.
fn crate_repository(dir: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let one = manifest.replace(r#"members = ["crates/*", "xtask"]"#, r#"members = ["crates/types"]"#);
    assert_ne!(one, manifest);
    fs::create_dir_all(dir.join("crates")).unwrap();
    fs::write(dir.join("Cargo.toml"), one).unwrap();
    fs::copy(root.join("Cargo.lock"), dir.join("Cargo.lock")).unwrap();
    fs::write(dir.join(".gitignore"), "target\n").unwrap();
    let copied = Command::new("cp").arg("-r").arg(root.join("crates/types")).arg(dir.join("crates")).status();
    assert!(copied.unwrap().success());
}

#[test]
fn a_crate_with_dependencies_is_cloned_and_built_and_passes_its_tests() {
    if !has("git") {
        return;
    }
    let Some(mounted) = Mounted::served("crate", &[]) else { return };
    let first = mounted.place.path("first");
    crate_repository(&first);
    let git = "git -c user.name=a -c user.email=a@b -c init.defaultBranch=main";
    let line = format!("cd {0}; {git} init -q; git add .; {git} commit -qm one", first.display());
    shell(&mounted, &line);
    shell(&mounted, &format!("git clone -q {} work; cd work; git fsck --strict", first.display()));
    let cargo = std::env::var("CARGO").unwrap_or_else(|_unset| "cargo".to_owned());
    let built = || {
        let mut test = Command::new(&cargo);
        test.args(["test", "--offline", "--lib"]).current_dir(mounted.path("work"));
        test.env_remove("CARGO_TARGET_DIR").env("GIT_CEILING_DIRECTORIES", mounted.path(""));
        // Optimised code would take longer to make than the mount to hold it.
        test.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
        let output = limited(&mounted, &test, LIMIT);
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        let text = text.concat();
        assert!(output.status.success() && text.contains("test result: ok"), "{text}");
        text
    };
    let text = built();
    for name in ["zerocopy", "smallvec", "dolmen-types"] {
        assert!(text.contains(&format!("Compiling {name} ")), "{text}");
    }
    // By the times of files nothing is to be done now, and one crate when one of its files was changed.
    assert!(!built().contains("Compiling"), "nothing was changed");
    shell(
        &mounted,
        "cd work; echo '// A line more.' >> crates/types/src/lib.rs; git diff --stat | grep -q lib.rs",
    );
    assert_eq!(built().matches("Compiling").count(), 1);
    // What was built is not in the repository, and a clean tree is clean.
    assert_eq!(shell(&mounted, "cd work; git checkout -q .; git status --short -uno"), "");
    mounted.finish();
}
