//! The library is known to the loader by the name that programs for DAOS ask for.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libdaos.so.2");
    // Crates that are linked in may have functions of C of their own, which are nobody's here.
    println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
