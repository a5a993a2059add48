//! The C libraries as programs link and load them, made of the one library that holds all code.
//!
//! `libdaos.so.2` is that library. Its companions (`libdfs.so`, `libgurt.so.4` …) are filters: they name their functions,
//! and the loader takes the definitions from `libdaos.so.2`. So a program that links only one of them gets all it needs,
//! and nothing exists twice. Shared by `cargo xtask capi` and the tests of `capi`.

#[path = "elf.rs"]
mod elf;

use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The companions: short name as in the tables of functions, file, name for the loader, other names of the file.
const COMPANIONS: [(&str, &str, &[&str]); 5] = [
    ("common", "libdaos_common.so", &[]),
    ("gurt", "libgurt.so.4", &["libgurt.so"]),
    ("cart", "libcart.so.4", &["libcart.so"]),
    ("dfs", "libdfs.so", &[]),
    ("duns", "libduns.so", &[]),
];

/// The library with all code, as it is known to the loader.
const MAIN: &str = "libdaos.so.2";

/// Names of old that mean the same as those with a 2 behind them: weak, as in DAOS, so that a program may define them.
//= daos:src/client/api/pool.c daos_pool_connect
pub(crate) const WEAK: [&str; 5] =
    ["daos_pool_connect", "daos_cont_create", "daos_cont_open", "daos_cont_destroy", "daos_obj_generate_oid"];

/// An exported function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Exported {
    pub(crate) name: String,
    /// The library that has it in DAOS: `daos`, `common`, `gurt`, `cart`, `dfs` or `duns`.
    pub(crate) library: String,
    /// The test that fails when it does nothing.
    pub(crate) test: String,
}

/// The functions of the tables below `crates/capi/tests/functions`, by name.
pub(crate) fn functions(capi: &Path) -> Result<Vec<Exported>> {
    let mut functions = Vec::new();
    for entry in std::fs::read_dir(capi.join("tests/functions"))? {
        let text = std::fs::read_to_string(entry?.path())?;
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, library, test] = words[..] else {
                let what = format!("not `function library test`: {line}");
                return Err(Error::other(what));
            };
            let own = |word: &str| word.to_owned();
            functions.push(Exported { name: own(name), library: own(library), test: own(test) });
        }
    }
    functions.sort();
    Ok(functions)
}

/// Puts libraries, headers and the description for pkg-config below `root`, which will be `prefix` for who uses them.
pub(crate) fn install(built: &Path, capi: &Path, prefix: &Path, root: &Path) -> Result<()> {
    let lib = root.join("lib64");
    libraries(built, capi, &lib)?;
    copy_tree(&capi.join("include"), &root.join("include"))?;
    let pc = format!(
        "prefix={}\nlibdir=${{prefix}}/lib64\nincludedir=${{prefix}}/include\n\nName: daos\nDescription: The DAOS \
         interface of Dolmen\nVersion: 2.8.0\nLibs: -L${{libdir}} -ldaos -ldaos_common -ldfs -lduns -lgurt\n\
         Cflags: -I${{includedir}}\n",
        prefix.display()
    );
    std::fs::create_dir_all(lib.join("pkgconfig"))?;
    std::fs::write(lib.join("pkgconfig/daos.pc"), pc)
}

/// Puts the libraries into a directory.
pub(crate) fn libraries(built: &Path, capi: &Path, lib: &Path) -> Result<()> {
    std::fs::create_dir_all(lib)?;
    let main = lib.join(MAIN);
    remove(&main)?;
    let mut image = std::fs::read(built)?;
    elf::weaken(&mut image, &WEAK)
        .ok_or_else(|| Error::other(format!("{}: no such library", built.display())))?;
    std::fs::write(&main, image)?;
    std::fs::set_permissions(&main, std::fs::metadata(built)?.permissions())?;
    for alias in ["libdaos.so", "libdaos.so.2.8.0"] {
        link(MAIN, &lib.join(alias))?;
    }
    let functions = functions(capi)?;
    for (short, file, aliases) in COMPANIONS {
        let own: Vec<&str> =
            functions.iter().filter(|f| f.library == short).map(|f| f.name.as_str()).collect();
        filter(&own, file, lib)?;
        for alias in aliases {
            link(file, &lib.join(alias))?;
        }
    }
    Ok(())
}

/// Links a library that names functions and leaves their definitions to the main one.
fn filter(names: &[&str], file: &str, lib: &Path) -> Result<()> {
    let source = lib.join(format!("{file}.c"));
    let stub = |name: &&str| format!("void {name}(void) {{ __builtin_trap(); }}\n");
    std::fs::write(&source, names.iter().map(stub).collect::<String>())?;
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-nostdlib", "-w", "-fno-builtin", "-o"]).arg(lib.join(file)).arg(&source);
    cc.arg(format!("-Wl,-soname,{file},--filter,{MAIN},-rpath,$ORIGIN"));
    let done = cc.output()?;
    std::fs::remove_file(&source)?;
    if done.status.success() {
        return Ok(());
    }
    let what = format!("cc {file}: {}", String::from_utf8_lossy(&done.stderr));
    Err(Error::other(what))
}

fn link(target: &str, path: &PathBuf) -> Result<()> {
    remove(path)?;
    std::os::unix::fs::symlink(target, path)
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
