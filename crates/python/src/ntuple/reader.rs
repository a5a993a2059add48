//! Ntuples that are open for reading, wherever they are, and files of ROOT that are made up of them.

use super::remote::{Said, export_to, root_file};
use super::{compression, file_options, tree};
use crate::error::{Error, Named, Result, Wrong};
use crate::own::Own;
use crate::slot::Slot;
use crate::watch::{detached, teller};
use dolmen_env::Address;
use dolmen_rntuple::estimate::{Medium, Prices, Usage, blob_bytes, usage};
use dolmen_rntuple::format::Header;
use dolmen_rntuple::format::schema::Role;
use dolmen_rntuple::rootfile::{RootFile, VirtualFile};
use dolmen_rntuple::store::{Access, Compare, Condition, Number, StoreSource, order_of};
use dolmen_rntuple::web::{Served, Shown};
use dolmen_rntuple::{Entries, Ntuple, Source, Trace};
use pyo3::prelude::{
    Bound, Py, PyAny, PyAnyMethods, PyDictMethods, PyResult, Python, pyclass, pyfunction, pymethods,
};
use pyo3::types::{PyDict, PyTuple};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// An ntuple, and where it is.
#[derive(Clone)]
pub(super) enum Any {
    File(Arc<Ntuple<RootFile>>),
    Stored(Arc<Ntuple<StoreSource>>),
}

/// Does the same with an ntuple of whatever source.
macro_rules! each {
    ($any:expr, $ntuple:ident => $do:expr) => {
        match $any {
            Any::File($ntuple) => $do,
            Any::Stored($ntuple) => $do,
        }
    };
}

/// Where an ntuple is from, and so who can close it.
enum Held {
    File(Any),
    Stored(Slot<Any>),
}

/// An ntuple that is open for reading, of one version; used by ``dolmen.rntuple``. May be used by any number of threads at once.
#[pyclass(frozen, module = "dolmen", name = "NtupleReader")]
pub(crate) struct NtupleReader {
    held: Held,
}

/// What a trace has.
fn readings(trace: &Trace) -> Vec<(Vec<String>, u64)> {
    let names = |names: &[Box<str>]| names.iter().map(|name| name.to_string()).collect();
    trace.readings().map(|(fields, count)| (names(fields), count)).collect()
}

/// What the text of a trace tells.
#[pyfunction]
pub(super) fn parse_trace(text: &str) -> PyResult<Vec<(Vec<String>, u64)>> {
    Ok(readings(&Trace::parse(text).map_err(Error::Trace)?))
}

/// The text of a trace.
#[pyfunction]
pub(super) fn trace_text(readings: Vec<(Vec<String>, u64)>) -> String {
    let mut trace = Trace::default();
    for (names, count) in readings {
        trace.add(names.into_iter().map(Into::into).collect(), count);
    }
    trace.write()
}

/// Names of the ntuples in a file of ROOT.
#[pyfunction]
#[pyo3(signature = (path, storage=None))]
pub(super) fn ntuples(py: Python<'_>, path: PathBuf, storage: Option<Said>) -> PyResult<Vec<String>> {
    let names = detached(py, || Ok(root_file(&path, storage)?.ntuples()))?;
    Ok(names.into_iter().map(Into::into).collect())
}

/// An ntuple of a file of ROOT; the only one if there is no name.
pub(super) fn open_file(path: &Path, name: Option<&str>, storage: Option<Said>) -> Result<Ntuple<RootFile>> {
    let mut file = root_file(path, storage)?;
    let names = file.ntuples();
    let name = match (name, &names[..]) {
        (Some(name), _) => name.to_owned(),
        (None, [only]) => only.to_string(),
        (None, []) => return Err(Error::Argument(Wrong::NoNtuple)),
        (None, _) => return Err(Error::Argument(Wrong::SeveralNtuples)),
    };
    let anchor = file.anchor(&name)?;
    Ok(Ntuple::open(file, &anchor)?)
}

impl NtupleReader {
    pub(super) fn stored(slot: Slot<Any>) -> Self {
        Self { held: Held::Stored(slot) }
    }

    /// The ntuple, for as long as it is used.
    pub(super) fn ntuple(&self, py: Python<'_>) -> Result<Any> {
        match &self.held {
            Held::File(ntuple) => Ok(ntuple.clone()),
            Held::Stored(slot) => slot.run(py, |ntuple| Ok(ntuple.clone())),
        }
    }
}

impl Any {
    pub(super) fn header(&self) -> &Header {
        each!(self, ntuple => ntuple.header())
    }

    fn entry_count(&self) -> u64 {
        each!(self, ntuple => ntuple.entry_count())
    }
}

fn range(first: u64, end: u64) -> Entries {
    Entries { first, end }
}

/// Fields that there are.
fn known(ntuple: &Any, fields: &[u32]) -> Result<()> {
    let count = ntuple.header().schema.fields.len();
    if fields.iter().any(|&field| field as usize >= count) {
        return Err(Error::Argument(Wrong::Field));
    }
    Ok(())
}

#[pymethods]
impl NtupleReader {
    /// Opens an ntuple of a file of ROOT; without a name the only one.
    #[staticmethod]
    #[pyo3(signature = (path, name=None, storage=None))]
    fn open_file(
        py: Python<'_>,
        path: PathBuf,
        name: Option<String>,
        storage: Option<Said>,
    ) -> PyResult<Self> {
        let ntuple = detached(py, || open_file(&path, name.as_deref(), storage))?;
        Ok(Self { held: Held::File(Any::File(Arc::new(ntuple))) })
    }

    /// Name, description, and the program that wrote it.
    fn texts(&self, py: Python<'_>) -> PyResult<(String, String, String)> {
        let ntuple = self.ntuple(py)?;
        let header = ntuple.header();
        let text = |text: &str| text.to_owned();
        Ok((text(&header.name), text(&header.description), text(&header.writer)))
    }

    /// How many entries there are.
    fn entry_count(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.ntuple(py)?.entry_count())
    }

    /// Each field: name, type, the number of the one above, role, how often it is there or None, the field that it shows or None.
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let ntuple = self.ntuple(py)?;
        let fields = ntuple.header().schema.fields.iter().map(|field| {
            let role = match field.role {
                Some(Role::Plain) => "plain",
                Some(Role::Collection) => "collection",
                Some(Role::Record) => "record",
                Some(Role::Variant) => "variant",
                Some(Role::Streamer) => "streamer",
                None => "unknown",
            };
            let texts = (&*field.name, &*field.type_name, &*field.description);
            pyo3::IntoPyObjectExt::into_bound_py_any(
                (texts.0, texts.1, field.parent, role, field.repetition, field.source, texts.2),
                py,
            )
        });
        fields.collect()
    }

    /// Each column: its field, its kind, bits of an element, which representation it is of.
    fn columns(&self, py: Python<'_>) -> PyResult<Vec<(u32, String, u16, u16)>> {
        let ntuple = self.ntuple(py)?;
        let columns = ntuple.header().schema.columns.iter();
        let shown = |column: &dolmen_rntuple::format::schema::Column| {
            (column.field, format!("{:?}", column.kind), column.bits, column.representation)
        };
        Ok(columns.map(shown).collect())
    }

    /// The first entry of each cluster, and how many it has.
    fn clusters(&self, py: Python<'_>) -> PyResult<Vec<(u64, u64)>> {
        let ntuple = self.ntuple(py)?;
        let clusters = || {
            let clusters = each!(&ntuple, ntuple => ntuple.all_clusters())?;
            Ok::<_, Error>(
                clusters
                    .iter()
                    .map(|cluster| (cluster.pages.first_entry, cluster.pages.entry_count))
                    .collect(),
            )
        };
        Ok(detached(py, clusters)?)
    }

    /// Reads fields, by their numbers, of entries: a tree for each.
    fn read<'py>(
        &self,
        py: Python<'py>,
        fields: Vec<u32>,
        first: u64,
        end: u64,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let ntuple = self.ntuple(py)?;
        known(&ntuple, &fields)?;
        let arrays = detached(py, || {
            each!(&ntuple, ntuple => ntuple.read(&fields, range(first, end))).map_err(Error::from)
        })?;
        arrays.into_iter().map(|array| tree::shown(py, array)).collect()
    }

    /// Reads fields, by their numbers, of entries, as conditions are about them: of collections how many items they have.
    fn read_numbers<'py>(
        &self,
        py: Python<'py>,
        fields: Vec<u32>,
        first: u64,
        end: u64,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let ntuple = self.ntuple(py)?;
        known(&ntuple, &fields)?;
        let arrays = detached(py, || {
            each!(&ntuple, ntuple => ntuple.read_numbers(&fields, range(first, end))).map_err(Error::from)
        })?;
        arrays.into_iter().map(|array| tree::shown(py, array)).collect()
    }

    /// Ranges of entries that can satisfy all conditions, of field, comparison and number; all that there are where zones are not known.
    fn prune(
        &self,
        py: Python<'_>,
        conditions: Vec<(String, String, Bound<'_, PyAny>)>,
        first: u64,
        end: u64,
    ) -> PyResult<Vec<(u64, u64)>> {
        let conditions = conditions.into_iter().map(condition).collect::<PyResult<Vec<_>>>()?;
        let Any::Stored(ntuple) = self.ntuple(py)? else { return Ok(vec![(first, end)]) };
        let found = detached(py, || ntuple.prune(&conditions, range(first, end)).map_err(Error::from))?;
        Ok(found.into_iter().map(|entries| (entries.first, entries.end)).collect())
    }

    /// Columns in the order in which they are best packed for accesses: fields that are read together, and how often.
    fn order_of(&self, py: Python<'_>, accesses: Vec<(Vec<u32>, u64)>) -> PyResult<Vec<u32>> {
        let ntuple = self.ntuple(py)?;
        for (fields, _) in &accesses {
            known(&ntuple, fields)?;
        }
        let accesses: Vec<_> = accesses.into_iter().map(|(fields, count)| Access { fields, count }).collect();
        Ok(each!(&ntuple, ntuple => order_of(ntuple, &accesses)))
    }

    /// Records from now on which fields are read together.
    fn record(&self, py: Python<'_>) -> PyResult<()> {
        each!(&self.ntuple(py)?, ntuple => ntuple.record());
        Ok(())
    }

    /// What was read since it is recorded: names of fields that were read together, and of how many entries.
    fn recorded(&self, py: Python<'_>) -> PyResult<Vec<(Vec<String>, u64)>> {
        Ok(readings(&each!(&self.ntuple(py)?, ntuple => ntuple.recorded())))
    }

    /// Requests for pages since it was opened, bytes of these, requests for what says where they are, and how often it was waited for some that
    /// went out together; none of a file.
    fn asked(&self, py: Python<'_>) -> PyResult<(u64, u64, u64, u64)> {
        let Any::Stored(ntuple) = self.ntuple(py)? else { return Ok((0, 0, 0, 0)) };
        let asked = ntuple.source().asked();
        Ok((asked.page_requests, asked.page_bytes, asked.metadata_requests, asked.round_trips))
    }

    /// What reading takes, and what a medium would take and charge for it.
    #[expect(clippy::too_many_arguments, reason = "the numbers of a medium")]
    fn estimate<'py>(
        &self,
        py: Python<'py>,
        fields: Vec<u32>,
        first: u64,
        end: u64,
        latency_s: f64,
        bandwidth_bytes_s: f64,
        parallel: u32,
        prices: (f64, f64, f64, f64),
        blob: Option<u64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let ntuple = self.ntuple(py)?;
        known(&ntuple, &fields)?;
        if !(latency_s >= 0.0 && bandwidth_bytes_s > 0.0) {
            return Err(Error::Argument(Wrong::Medium).into());
        }
        let usage = detached(py, || {
            each!(&ntuple, ntuple => usage(ntuple, &fields, range(first, end))).map_err(Error::from)
        })?;
        let (put, get, gigabyte_month, gigabyte_out) = prices;
        let prices = Prices { put, get, gigabyte_month, gigabyte_out };
        let medium = Medium { latency_s, bandwidth_bytes_s, parallel, prices };
        let cluster_bytes = usage.stored_bytes / usage.cluster_count.max(1);
        let blob = blob.unwrap_or_else(|| blob_bytes(&medium, cluster_bytes));
        told(py, &usage, &medium, blob)
    }

    /// Writes it to a file of ROOT, its pages as they are. `progress` is called with the entries that are written.
    #[pyo3(signature = (path, settings=505, time_s=None, progress=None, storage=None))]
    fn export_root(
        &self,
        py: Python<'_>,
        path: PathBuf,
        settings: u32,
        time_s: Option<u64>,
        progress: Option<Py<PyAny>>,
        storage: Option<Said>,
    ) -> PyResult<()> {
        let ntuple = self.ntuple(py)?;
        let options = file_options(compression(settings)?, time_s);
        let tell = teller(py, progress)?;
        detached(py, || each!(&ntuple, ntuple => export_to(ntuple, &path, storage, options, tell)))?;
        Ok(())
    }

    /// Serves it over HTTP as a file of ROOT of that name, which is nowhere; until the server is closed.
    #[pyo3(signature = (name, host, port, settings=505, time_s=0))]
    fn serve(
        &self,
        py: Python<'_>,
        name: String,
        host: &str,
        port: u16,
        settings: u32,
        time_s: u64,
    ) -> PyResult<NtupleServer> {
        if name.split('/').any(|part| [".", ".."].contains(&part)) {
            let told =
                format!("nothing is served as {name:?}: clients take the parts . and .. out of a path");
            return Err(Error::Told(Named(told)).into());
        }
        let ntuple = self.ntuple(py)?;
        let options = file_options(compression(settings)?, Some(time_s));
        let host = host.parse().or(Err(Error::Argument(Wrong::Host)))?;
        let address = Address::Tcp(std::net::SocketAddr::new(host, port));
        let served = detached(py, || {
            let shown = each!(ntuple, ntuple => shown(VirtualFile::new(ntuple, &name, options)?, &name));
            Ok::<_, Error>(Served::start(&address, vec![shown])?)
        })?;
        let url = served.url(&name).expect("it is at an address of the network");
        let held = match &self.held {
            Held::File(_) => Serving::File(Own::new(served)),
            Held::Stored(slot) => Serving::Stored(py.detach(|| slot.hold(Mutex::new(Some(served))))?),
        };
        Ok(NtupleServer { url, held })
    }
}

/// A file that is nowhere, as it is served.
fn shown<S: Source + 'static>(file: VirtualFile<S>, name: &str) -> Shown {
    let length_bytes = file.length_bytes();
    Shown { name: name.into(), length_bytes, read: Box::new(move |offset, into| file.read_at(offset, into)) }
}

/// A condition of words and a number.
fn condition((field, compare, number): (String, String, Bound<'_, PyAny>)) -> PyResult<Condition> {
    let compare = match &*compare {
        "<" => Compare::Less,
        "<=" => Compare::LessOrEqual,
        "==" => Compare::Equal,
        "!=" => Compare::NotEqual,
        ">=" => Compare::GreaterOrEqual,
        ">" => Compare::Greater,
        _ => return Err(Error::Argument(Wrong::Comparison).into()),
    };
    Ok(Condition { field: field.into(), compare, number: self::number(&number)? })
}

/// A number of Python.
pub(super) fn number(number: &Bound<'_, PyAny>) -> PyResult<Number> {
    if let Ok(number) = number.extract::<i64>() {
        return Ok(Number::Signed(number));
    }
    if let Ok(number) = number.extract::<u64>() {
        return Ok(Number::Unsigned(number));
    }
    Ok(Number::Float(number.extract::<f64>()?))
}

/// What an estimate says, as Python has it.
fn told<'py>(py: Python<'py>, usage: &Usage, medium: &Medium, blob: u64) -> PyResult<Bound<'py, PyDict>> {
    let cost = usage.cost(medium, blob);
    let dict = PyDict::new(py);
    let columns = usage.columns.iter().map(|column| {
        (column.column, column.field, column.page_count, column.stored_bytes, column.memory_bytes)
    });
    dict.set_item("columns", columns.collect::<Vec<_>>())?;
    for (name, count) in [
        ("entries", usage.entry_count),
        ("clusters", usage.cluster_count),
        ("pages", usage.page_count),
        ("stored_bytes", usage.stored_bytes),
        ("memory_bytes", usage.memory_bytes),
        ("requests", usage.request_count),
        ("blob_bytes", blob),
    ] {
        dict.set_item(name, count)?;
    }
    for (name, number) in [
        ("seconds", cost.seconds),
        ("seconds_page_by_page", cost.seconds_page_by_page),
        ("money_reading", cost.reading),
        ("money_writing", cost.writing),
        ("money_month", cost.month),
    ] {
        dict.set_item(name, number)?;
    }
    Ok(dict)
}

/// A file of ROOT that is nowhere, served over HTTP until ``close``.
#[pyclass(frozen, module = "dolmen", name = "NtupleServer")]
pub(crate) struct NtupleServer {
    url: String,
    held: Serving,
}

/// Guards what serves; none when it was closed.
type Closing = Mutex<Option<Served>>;

/// What serves an ntuple, and so who can end it: what is stored is closed with its pool.
enum Serving {
    File(Own<Served>),
    Stored(Slot<Closing>),
}

#[pymethods]
impl NtupleServer {
    /// Where it is read.
    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    /// Ends it; whoever reads from it loses the connection.
    fn close(&self, py: Python<'_>) {
        match &self.held {
            Serving::File(served) => {
                py.detach(|| drop(served.take()));
            }
            Serving::Stored(slot) => {
                let served = slot.take(py);
                py.detach(|| drop(served));
            }
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) {
        self.close(py);
    }
}
