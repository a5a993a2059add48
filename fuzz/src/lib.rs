//! The fuzz targets that need an engine; they share their code with the tests that replay the corpus.

#[path = "../../crates/fuse/tests/it/driven.rs"]
mod driven;
#[path = "../../crates/sim/tests/it/engine.rs"]
mod engine;
#[path = "../../crates/sim/tests/it/forged.rs"]
mod forged;
#[path = "../../crates/rntuple/tests/it/fuzzed.rs"]
mod fuzzed;
#[path = "../../crates/sim/tests/it/hostile.rs"]
mod hostile;

use dolmen_env::{Media, SimClock};
use engine::{EngineSubject, START_NS};

/// The first byte says on which media; the rest are operations, beside the model.
pub fn operations(bytes: &[u8]) {
    let Some((media, bytes)) = bytes.split_first() else { return };
    let media = if media % 2 == 0 { Media::Block } else { Media::Mapped };
    let clock = SimClock::new(START_NS);
    dolmen_sim::fuzz::operations(bytes, &mut EngineSubject::new(1, media, 1, &clock));
}

/// Frames behind the log of a store.
pub fn store_frames(bytes: &[u8]) {
    hostile::frames(bytes);
}

/// Changes to a manifest.
pub fn store_manifest(bytes: &[u8]) {
    hostile::manifest_changed(bytes);
}

/// Changes to a run.
pub fn store_run(bytes: &[u8]) {
    hostile::run_changed(bytes);
}

/// The record of a pool.
pub fn pool_record(bytes: &[u8]) {
    forged::pool_record(bytes);
}

/// A record of the pool's service.
pub fn service_record(bytes: &[u8]) {
    forged::service_record(bytes);
}

/// A record of a file system.
pub fn dfs_record(bytes: &[u8]) {
    forged::dfs_record(bytes);
}

/// The position of an enumeration.
pub fn anchor(bytes: &[u8]) {
    forged::anchor(bytes);
}

/// A session for files, on behalf of a user.
pub fn files_session(bytes: &[u8]) {
    driven::files_session(bytes);
}

/// A request of the kernel for a file system.
pub fn kernel_request(bytes: &[u8]) {
    if let Ok(request) = dolmen_fuse::request::Request::parse(bytes) {
        assert_eq!(request.unique.to_le_bytes()[..], bytes[8..16]);
    }
}

/// A compression block.
pub fn ntuple_block(bytes: &[u8]) {
    fuzzed::block(bytes);
}

/// A header, a footer or a page list of an ntuple.
pub fn ntuple_envelope(bytes: &[u8]) {
    fuzzed::envelope(bytes);
}

/// The bytes of an ntuple.
pub fn ntuple_file(bytes: &[u8]) {
    fuzzed::file(bytes);
}

/// A page of any kind of column.
pub fn ntuple_page(bytes: &[u8]) {
    fuzzed::page(bytes);
}

/// A file of ROOT with ntuples.
pub fn ntuple_root(bytes: &[u8]) {
    fuzzed::root(bytes);
}

/// A file of ROOT with trees.
pub fn ntuple_tree(bytes: &[u8]) {
    fuzzed::tree(bytes);
}
