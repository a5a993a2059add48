//! The module as Python imports it.

use crate::{array, buffer, container, files, kv, ntuple, object, oid, pool, tx, watch};
use pyo3::prelude::{Bound, PyModule, PyModuleMethods, PyResult, pymodule};

/// The extension module of the package `dolmen`; import `dolmen` instead.
#[pymodule]
fn _dolmen(module: &Bound<'_, PyModule>) -> PyResult<()> {
    for register in [
        buffer::register,
        oid::register,
        pool::register,
        container::register,
        tx::register,
        watch::register,
        kv::register,
        array::register,
        object::register,
        files::register,
        ntuple::register,
    ] {
        register(module)?;
    }
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
