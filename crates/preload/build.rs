//! What the library exports.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Crates that are linked in may have functions of C of their own, which are nobody's here.
    println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
