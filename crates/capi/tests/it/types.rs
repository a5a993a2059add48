//! Parameters of every function, as programs for DAOS pass them.

use crate::kit::{self, c_tests};
use std::path::Path;

/// Each header is whole by itself, for programs that keep to the standards of C, and of C++ where there is a compiler for that.
#[test]
fn headers_are_plain_c_and_c_plus_plus() {
    let include = kit::capi().join("include");
    let mut headers = Vec::new();
    for dir in ["", "gurt", "daos", "cart"] {
        let Ok(entries) = std::fs::read_dir(include.join(dir)) else { continue };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        headers.extend(names.filter(|name| name.ends_with(".h")).map(|name| Path::new(dir).join(name)));
    }
    assert!(headers.len() > 20, "{headers:?}");
    let dir = kit::scratch("headers");
    let languages = [("c", "c99"), ("c", "c11"), ("c", "gnu11"), ("c++", "c++11"), ("c++", "c++20")];
    let languages = &languages[..if knows_c_plus_plus() { 5 } else { 3 }];
    for (at, header) in headers.iter().enumerate() {
        let source = dir.join(at.to_string()).with_extension("c");
        std::fs::write(&source, format!("#include <{}>\nint main(void) {{ return 0; }}\n", header.display()))
            .unwrap();
        for (language, standard) in languages {
            let mut cc = kit::bounded();
            cc.args(["cc", "-x", language, &format!("-std={standard}"), "-Wall", "-Wextra", "-Werror"]);
            if *standard == "c11" {
                cc.arg("-pedantic");
            }
            let done = cc.arg("-fsyntax-only").arg("-I").arg(&include).arg(&source).output().unwrap();
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{} as {standard}: {said}", header.display());
        }
    }
}

/// Whether there is a compiler for it.
fn knows_c_plus_plus() -> bool {
    let nothing = kit::scratch("c-plus-plus").join("nothing.cc");
    std::fs::write(&nothing, "").unwrap();
    kit::bounded().args(["cc", "-fsyntax-only"]).arg(&nothing).output().unwrap().status.success()
}

/// Programs that use each macro, as each standard wants it, without any feature macro.
#[test]
fn each_macro_works_in_every_standard() {
    let source = kit::capi().join("tests/c/macros.c");
    let all = [("c", "c99"), ("c", "c11"), ("c", "c17"), ("c++", "c++11"), ("c++", "c++20")];
    for (language, standard) in &all[..if knows_c_plus_plus() { 5 } else { 3 }] {
        let program = kit::scratch("macros").join(standard);
        let (standard, libraries) = (format!("-std={standard}"), kit::libraries());
        let mut cc = kit::bounded();
        cc.args(["cc", "-x", language, &standard, "-Wall", "-Wextra", "-Werror", "-I"]);
        cc.arg(kit::capi().join("include")).arg(&source).arg("-o").arg(&program).arg("-L").arg(libraries);
        cc.arg(format!("-Wl,-rpath,{}", libraries.display())).args(["-ldaos", "-lgurt"]);
        let done = cc.output().unwrap();
        assert!(done.status.success(), "{standard}: {}", String::from_utf8_lossy(&done.stderr));
        let done = std::process::Command::new(&program).output().unwrap();
        assert!(done.status.success(), "{standard}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

c_tests!("types":
    parameters_are_asserted_when_this_compiles,
);
