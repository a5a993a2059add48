//! Event data: ntuples in files of ROOT and in containers. The package `dolmen.rntuple` makes of these classes what users see.
//!
//! Arrays pass as trees of tuples with memory at their leaves ([`tree`]); names, numpy, awkward and Arrow are said in Python.

mod reader;
mod remote;
mod stored;
mod tree;
mod trees;
mod writer;

use crate::error::{Error, Result, Wrong};
use dolmen_env::{Clock, RealClock};
use dolmen_rntuple::format::block::Compression;
use dolmen_rntuple::rootfile::{FileOptions, FileTime};
use dolmen_rntuple::write::Options;
use pyo3::prelude::{Bound, PyModule, PyModuleMethods, PyResult, pyfunction, wrap_pyfunction};

/// The compression of a number in a file: algorithm times 100 and level.
fn compression(settings: u32) -> Result<Compression> {
    Compression::of(settings).ok_or(Error::Argument(Wrong::Compression))
}

/// How arrays become clusters.
fn options(settings: u32, page_bytes: u32, cluster_bytes: u64, has_zones: bool) -> Result<Options> {
    if page_bytes == 0 || cluster_bytes == 0 {
        return Err(Error::Argument(Wrong::PageBytes));
    }
    let compression = compression(settings)?;
    Ok(Options { compression, page_bytes, cluster_bytes, has_checksums: true, has_zones })
}

/// What a file of ROOT says of itself; `time_s` in seconds since 1970, now if it is none.
fn file_options(compression: Compression, time_s: Option<u64>) -> FileOptions {
    let time_s = time_s.unwrap_or_else(|| RealClock.now_ns() / 1_000_000_000);
    FileOptions { time: FileTime::of_unix(time_s), compression }
}

/// The one of some names that is nearest to what is none of them, if it is near.
#[pyfunction]
fn near(name: &str, names: Vec<String>) -> Option<String> {
    dolmen_rntuple::near(name, names.iter().map(|name| &**name)).map(str::to_owned)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<reader::NtupleReader>()?;
    module.add_class::<reader::NtupleServer>()?;
    module.add_class::<writer::NtupleWriter>()?;
    module.add_class::<stored::NtupleStore>()?;
    module.add_class::<stored::StoredNtuple>()?;
    module.add_class::<stored::NtupleAppender>()?;
    module.add_class::<stored::NtupleColumnAdder>()?;
    module.add_class::<trees::NtupleTree>()?;
    module.add_function(wrap_pyfunction!(near, module)?)?;
    module.add_function(wrap_pyfunction!(trees::trees, module)?)?;
    module.add_function(wrap_pyfunction!(reader::parse_trace, module)?)?;
    module.add_function(wrap_pyfunction!(reader::trace_text, module)?)?;
    module.add_function(wrap_pyfunction!(remote::spare_stores, module)?)?;
    module.add_function(wrap_pyfunction!(reader::ntuples, module)?)
}
