//! Links the two C libraries of the system; README.md says where they come from.

fn main() {
    println!("cargo:rustc-link-lib=dylib=rocksdb");
    println!("cargo:rustc-link-lib=dylib=lmdb");
}
