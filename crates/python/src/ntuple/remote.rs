//! Object stores of the S3 kind, and files of ROOT in them, by their addresses.

use crate::error::{Error, Result, Wrong};
use dolmen_remote::{Options, RemoteFile, RemoteOutput, address};
use dolmen_rntuple::rootfile::{FileOptions, RootFile, export, export_on};
use dolmen_rntuple::{Ntuple, Source};
use std::collections::BTreeMap;
use std::path::Path;

/// How an endpoint is reached, as Python says it.
pub(super) type Said = BTreeMap<String, String>;

/// How an endpoint is reached: what is not said is as the variables of the environment have it.
pub(super) fn options(said: Option<Said>) -> Result<Options> {
    let mut options = Options::default();
    let Some(said) = said else { return Ok(options) };
    for (name, value) in said {
        let is_so = || matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on");
        match name.as_str() {
            "endpoint" => options.endpoint = Some(value),
            "region" => options.region = Some(value),
            "access_key" => options.access_key = Some(value),
            "secret_key" => options.secret_key = Some(value),
            "session_token" => options.session_token = Some(value),
            "anonymous" => options.is_anonymous = Some(is_so()),
            "virtual_host" => options.is_virtual_host = Some(is_so()),
            "authorities" => options.authorities = Some(value.into()),
            _ => return Err(Error::Argument(Wrong::StorageOption)),
        }
    }
    Ok(options)
}

/// A file of ROOT, of this machine or in an object store.
pub(super) fn root_file(path: &Path, said: Option<Said>) -> Result<RootFile> {
    match address(path) {
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
    progress: impl FnMut(u64),
) -> Result<()> {
    let Some(address) = address(path) else {
        if said.is_some() {
            return Err(Error::Argument(Wrong::StorageOptionsOfPath));
        }
        return Ok(export(ntuple, path, how, progress)?);
    };
    let output = RemoteOutput::open(address, &options(said)?)?;
    let name = output.name().to_owned();
    Ok(export_on(ntuple, Box::new(output), &name, how, progress)?)
}
