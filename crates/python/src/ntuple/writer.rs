//! Arrays into a file of ROOT.

use super::remote::{Said, root_writer};
use super::tree::{self, Lending};
use super::{compression, file_options, options};
use crate::error::{Error, Named, Result, Wrong};
use crate::own::Own;
use crate::watch::detached;
use dolmen_rntuple::Array;
use dolmen_rntuple::format::Header;
use dolmen_rntuple::format::schema::Schema;
use dolmen_rntuple::rootfile::RootWriter;
use dolmen_rntuple::write::{self, Given, Narrow, Options, Room};
use pyo3::prelude::{Bound, PyAny, PyResult, Python, pyclass, pymethods};
use std::path::PathBuf;

/// Fields at the top, by their names.
pub(super) type Fields = Vec<(String, Array)>;

/// Fields at the top that are written, by their names.
pub(super) type Lendings = Vec<(String, Lending)>;

/// What is written, from its trees.
pub(super) fn lent(fields: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Lendings> {
    fields.into_iter().map(|(name, field)| Ok((name, Lending::of(&field)?))).collect()
}

pub(super) fn given(fields: &Lendings) -> Vec<(&str, Given<'_>)> {
    fields.iter().map(|(name, field)| (&**name, field.given())).collect()
}

/// A file of ROOT that is written; used by ``dolmen.rntuple``. It has its name when it is finished.
#[pyclass(frozen, module = "dolmen", name = "NtupleWriter")]
pub(crate) struct NtupleWriter {
    options: Options,
    /// Not there when it is finished or given up.
    writer: Own<RootWriter>,
}

/// Arrays from their trees.
pub(super) fn taken(fields: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Fields> {
    fields.into_iter().map(|(name, field)| Ok((name, tree::taken(&field)?))).collect()
}

pub(super) fn named(fields: &Fields) -> Vec<(&str, &Array)> {
    fields.iter().map(|(name, array)| (&**name, array)).collect()
}

/// How floats of fields are kept in fewer bits, by the names of these.
pub(super) type Precision = Vec<(String, String)>;

/// Adds fields of the types that arrays have to a schema.
pub(super) fn add(
    schema: &mut Schema,
    fields: &Fields,
    precision: &Precision,
    options: &Options,
) -> Result<()> {
    write::schema(schema, &named(fields), options.compression)?;
    for (name, how) in precision {
        let none =
            || Error::Told(Named(format!("field {name:?}: {how:?} is no precision: {}", Wrong::Precision)));
        let narrow = Narrow::parse(how).ok_or_else(none)?;
        // What was there before stays as it is.
        let top = name.split('.').next();
        if !fields.iter().any(|(field, _)| Some(&**field) == top) {
            return Err(
                dolmen_rntuple::Error::no_field(name, fields.iter().map(|(field, _)| &**field)).into()
            );
        }
        write::narrow(schema, name, narrow, options.compression)?;
    }
    Ok(())
}

/// A header with a schema that suits arrays.
pub(super) fn header(
    name: &str,
    description: &str,
    fields: &Fields,
    precision: &Precision,
    options: &Options,
) -> Result<Header> {
    let mut schema = Schema::default();
    add(&mut schema, fields, precision, options)?;
    write::check_name(name)?;
    let writer = concat!("Dolmen ", env!("CARGO_PKG_VERSION")).into();
    Ok(Header { name: name.into(), description: description.into(), writer, schema, checksum: 0 })
}

#[pymethods]
impl NtupleWriter {
    /// Begins a file with an ntuple whose fields are of the types that these arrays have; their values are not written.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "what a file and its pages can be")]
    #[pyo3(signature = (path, name, fields, *, description="", settings=505, page_bytes=262_144, cluster_bytes=134_217_728, time_s=None, precision=Vec::new(), storage=None))]
    fn create(
        py: Python<'_>,
        path: PathBuf,
        name: &str,
        fields: Vec<(String, Bound<'_, PyAny>)>,
        description: &str,
        settings: u32,
        page_bytes: u32,
        cluster_bytes: u64,
        time_s: Option<u64>,
        precision: Precision,
        storage: Option<Said>,
    ) -> PyResult<Self> {
        let fields = taken(fields)?;
        let options = options(settings, page_bytes, cluster_bytes, false)?;
        let header = header(name, description, &fields, &precision, &options)?;
        let known = header.schema.known();
        let of_file = file_options(compression(settings)?, time_s);
        let writer = detached(py, || root_writer(&path, storage, header, known, of_file))?;
        Ok(Self { options, writer: Own::new(writer) })
    }

    /// Appends entries, as clusters of their own.
    fn append(&self, py: Python<'_>, fields: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<()> {
        let fields = lent(fields)?;
        detached(py, || self.put(&fields))?;
        Ok(())
    }

    /// Ends the file, which is on the disk then. Does nothing to one that was ended, and in a forked child.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let finish = || match self.writer.take() {
            Some(writer) => Ok(writer.finish()?),
            // The process that it belongs to finishes it.
            None => Ok(()),
        };
        Ok(detached(py, finish)?)
    }

    /// Gives it up: nothing is left of it. Does nothing to one that is finished.
    fn discard(&self, py: Python<'_>) {
        py.detach(|| drop(self.writer.take()));
    }
}

impl NtupleWriter {
    fn put(&self, fields: &Lendings) -> Result<()> {
        self.writer.with(|writer| {
            let schema = writer.header().schema.clone();
            complete(&schema, fields)?;
            let (fields, mut room) = (given(fields), Room::default());
            let parts = write::cut(&fields, &self.options)?;
            // All of them or none: what is refused may be in the last.
            let before = (parts.len() > 1).then(|| writer.so_far());
            let mut append = |entries| {
                let cluster = write::seal_in(&schema, &fields, entries, &self.options, &mut room)?;
                writer.append(&cluster)
            };
            let done = parts.into_iter().try_for_each(&mut append);
            if let (Err(_), Some(before)) = (&done, before) {
                writer.go_back(before);
            }
            Ok(done?)
        })
    }
}

/// All fields at the top that hold values are there.
fn complete(schema: &Schema, fields: &Lendings) -> Result<()> {
    let tops = schema.tops().map(|number| &schema.fields[number as usize]);
    for field in tops.filter(|field| field.source.is_none()) {
        if !fields.iter().any(|(name, _)| **name == *field.name) {
            return Err(dolmen_rntuple::Error::no_field(&field.name, []).into());
        }
    }
    Ok(())
}
