//! Object stores of the S3 kind, and files of ROOT in them, by their addresses.

use crate::error::{Error, Named, Result, Wrong};
use crate::watch::detached;
use core::time::Duration;
use dolmen_remote::{Options, RemoteFile, RemoteOutput, address, place_of};
use dolmen_rntuple::format::Header;
use dolmen_rntuple::format::schema::Known;
use dolmen_rntuple::rootfile::{FileOptions, RootFile, RootWriter, export, export_on};
use dolmen_rntuple::{Ntuple, Source};
use pyo3::prelude::{PyResult, Python, pyfunction};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How an endpoint is reached, as Python says it.
pub(super) type Said = BTreeMap<String, String>;

/// How an endpoint is reached: what is not said is as the variables of the environment have it.
pub(super) fn options(said: Option<Said>) -> Result<Options> {
    let mut options = Options::default();
    let Some(said) = said else { return Ok(options) };
    for (name, value) in said {
        let wrong = |wanted: &str| told(format!("{name} is {value:?}, and is to be {wanted}"));
        let is_so = || match value.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => Ok(Some(true)),
            "0" | "false" | "no" | "off" => Ok(Some(false)),
            _ => Err(wrong("true or false")),
        };
        let seconds = || {
            let seconds =
                value.parse::<f64>().ok().filter(|&seconds| seconds > 0.0 && seconds <= SECONDS_MAX);
            seconds.map(Duration::from_secs_f64).ok_or_else(|| wrong("a number of seconds above 0"))
        };
        match name.as_str() {
            "endpoint" => options.endpoint = Some(value),
            "region" => options.region = Some(value),
            "access_key" => options.access_key = Some(value),
            "secret_key" => options.secret_key = Some(value),
            "session_token" => options.session_token = Some(value),
            "anonymous" => options.is_anonymous = is_so()?,
            "virtual_host" => options.is_virtual_host = is_so()?,
            "authorities" => options.authorities = Some(value.into()),
            "timeout" => options.patience = seconds()?,
            "connect_timeout" => options.connect = seconds()?,
            "retry_timeout" => options.repeat = seconds()?,
            "retries" => options.repeats_max = value.parse().or(Err(wrong("a whole number from 0 on")))?,
            _ => return Err(no_option(&name)),
        }
    }
    Ok(options)
}

/// The error of an option.
fn told(what: String) -> Error {
    Error::Told(Named(format!("storage_options: {what}")))
}

fn no_option(name: &str) -> Error {
    told(format!("there is no {name}; there are {OPTIONS}"))
}

/// Names of options.
const OPTIONS: &str = "endpoint, region, access_key, secret_key, session_token, anonymous, virtual_host, authorities, timeout, \
                       connect_timeout, retries, retry_timeout";

/// Seconds that a time may have: ten years.
const SECONDS_MAX: f64 = 315e6;

/// A file of ROOT, of this machine or in an object store.
pub(super) fn root_file(path: &Path, said: Option<Said>) -> Result<RootFile> {
    match place_of(path)? {
        Some(address) => Ok(RemoteFile::open(address, &options(said)?)?.into_root()?),
        None if said.is_some() => Err(Error::Argument(Wrong::StorageOptionsOfPath)),
        None => Ok(RootFile::open(path)?),
    }
}

/// Writes an ntuple to a file of ROOT, of this machine or in an object store, where it is when it is whole.
pub(super) fn export_to<S: Source>(
    ntuple: &Ntuple<S>,
    path: &Path,
    said: Option<Said>,
    how: FileOptions,
    progress: impl FnMut(u64) -> dolmen_rntuple::Result<()>,
) -> Result<()> {
    let Some(address) = place_of(path)? else {
        if said.is_some() {
            return Err(Error::Argument(Wrong::StorageOptionsOfPath));
        }
        return Ok(export(ntuple, path, how, progress)?);
    };
    let output = RemoteOutput::open(address, &options(said)?)?;
    let name = output.name().to_owned();
    Ok(export_on(ntuple, Box::new(output), &name, how, progress)?)
}

/// Begins a file of ROOT, of this machine or in an object store, where it is when it is whole.
pub(super) fn root_writer(
    path: &Path,
    said: Option<Said>,
    header: Header,
    known: Known,
    how: FileOptions,
) -> Result<RootWriter> {
    let Some(address) = place_of(path)? else {
        if said.is_some() {
            return Err(Error::Argument(Wrong::StorageOptionsOfPath));
        }
        return Ok(RootWriter::create(path, header, known, how)?);
    };
    let output = RemoteOutput::open(address, &options(said)?)?;
    let name = output.name().to_owned();
    Ok(RootWriter::create_on(Box::new(output), &name, header, known, how)?)
}

/// Raises Invalid for an address at which an object would lie within a store of ntuples; whatever else is wrong with it, who writes there is told.
#[pyfunction]
pub(super) fn spare_stores(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    let spared =
        detached(py, || match address(&path).map(|at| RemoteOutput::open(at, &Options::default())) {
            Some(Err(error @ dolmen_remote::Error::WithinStore { .. })) => Err(Error::from(error)),
            _ => Ok(()),
        });
    Ok(spared?)
}
