//! Ntuples in a container: their names, versions and tags, and who appends to them.

use super::options;
use super::reader::{Any, NtupleReader, number};
use super::remote::{Said, options as options_of};
use super::trees::NtupleTree;
use super::writer::{Precision, add, given, header, lent, taken};
use crate::container::Container;
use crate::error::{Error, Named, Result, Wrong};
use crate::oid::class_of;
use crate::slot::{Session, Slot};
use crate::watch::{detached, teller};
use dolmen_remote::Remote;
use dolmen_rntuple::format::schema::{Field, Schema};
use dolmen_rntuple::store::{
    Appender, Collected, ColumnAdder, CreateOptions, Fill, LeftOut, Store, StoreOptions, Stored,
    TreeImported, TreeOptions, Version, When,
};
use dolmen_rntuple::write::{self, Options, Room};
use dolmen_rntuple::{Entries, Ntuple, Source};
use pyo3::prelude::{Bound, Py, PyAny, PyRef, PyResult, Python, pyclass, pymethods};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A version as Python has it: its number, when it was made in nanoseconds since 1970, entries, clusters, and what made it.
type Told = (u64, u64, u64, u64, String);

/// What was imported of a tree: the ntuple, why branches are left out, and branches whose fields have other names, with these.
type Imported = (StoredNtuple, Vec<String>, Vec<(String, String)>);

/// What was reshaped: the version, the entries, clusters before and after.
type Reshaped = (Told, (u64, u64), u64, u64);

fn told(version: &Version) -> Told {
    let made = format!("{:?}", version.made);
    (version.number, version.time_ns, version.entry_count, version.cluster_count, made)
}

/// The ntuples of a container or of an object store; used by ``dolmen.rntuple``.
#[pyclass(frozen, module = "dolmen", name = "NtupleStore")]
pub(crate) struct NtupleStore {
    slot: Slot<Store>,
}

impl NtupleStore {
    fn run<R: Send>(&self, py: Python<'_>, body: impl FnOnce(&Store) -> Result<R> + Send) -> Result<R> {
        self.slot.run(py, body)
    }

    fn hold(&self, py: Python<'_>, stored: Stored) -> Result<StoredNtuple> {
        Ok(StoredNtuple { slot: py.detach(|| self.slot.hold(stored))? })
    }

    fn imported(&self, py: Python<'_>, stored: Stored, told: TreeImported) -> PyResult<Imported> {
        let left_out = told.left_out.iter().map(ToString::to_string).collect();
        let renamed = told.renamed.into_iter().map(|(branch, field)| (branch.into(), field.into())).collect();
        Ok((self.hold(py, stored)?, left_out, renamed))
    }
}

/// Imports an ntuple under a name, its own if there is none; the name.
fn import<S: Source>(
    store: &Store,
    from: &Ntuple<S>,
    name: Option<String>,
    how: &CreateOptions,
    teller: impl FnMut(u64) -> dolmen_rntuple::Result<()>,
) -> Result<String> {
    let name = name.unwrap_or_else(|| from.header().name.to_string());
    store.import_telling(&name, from, how, teller)?;
    Ok(name)
}

/// What was freed: versions, those that are kept, clusters, ntuples, writers, those who may be alive, uploads, and names of damaged ntuples with
/// why.
type Freed = (u64, u64, u64, u64, u64, u64, u64, Vec<(String, String)>);

fn freed(collected: Collected) -> Freed {
    let Collected { versions, kept, clusters, ntuples, writers, alive, uploads, damaged } = collected;
    let damaged = damaged.into_iter().map(|one| (one.name.into(), one.why.into())).collect();
    (versions, kept, clusters, ntuples, writers, alive, uploads, damaged)
}

/// How an ntuple is stored.
fn create_options(
    group_bytes: Option<u32>,
    keep_ns: Option<u64>,
    class: Option<&str>,
    order: Vec<u32>,
) -> Result<CreateOptions> {
    let default = CreateOptions::default();
    let class = if class.is_some() { class_of(class)? } else { default.class };
    Ok(CreateOptions { group_bytes, class, keep_ns: keep_ns.unwrap_or(default.keep_ns), order, ..default })
}

/// Whether an order names columns that there are, each once.
fn check_order(order: &[u32], column_count: usize) -> Result<()> {
    let wrong = order.iter().enumerate().find_map(|(at, &column)| match column as usize >= column_count {
        true => Some(format!("order: there is no column {column}; there are {column_count}, from 0 on")),
        false => order[..at].contains(&column).then(|| format!("order: column {column} is there twice")),
    });
    wrong.map_or(Ok(()), |wrong| Err(Error::Told(Named(wrong))))
}

#[pymethods]
impl NtupleStore {
    #[new]
    fn new(py: Python<'_>, cont: PyRef<'_, Container>) -> PyResult<Self> {
        let cont = cont.slot();
        let store = cont.run(py, |cont| Ok(Store::new(cont, &StoreOptions::default())))?;
        Ok(Self { slot: py.detach(|| cont.hold(store))? })
    }

    /// The ntuples in an object store, by its address, `s3://bucket/prefix`.
    #[staticmethod]
    #[pyo3(signature = (address, storage=None))]
    fn remote(py: Python<'_>, address: String, storage: Option<Said>) -> PyResult<Self> {
        let options = options_of(storage)?;
        let slot = detached(py, || {
            let bucket = Remote::open(&address, &options)?;
            let store = Store::in_bucket(Arc::new(bucket), &StoreOptions::default());
            Session::new(address, false, None).hold(store)
        })?;
        Ok(Self { slot })
    }

    /// Names of all ntuples.
    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let listed = self.run(py, |store| Ok(store.list()?))?;
        Ok(listed.into_iter().map(|listed| listed.name.into()).collect())
    }

    /// One of them.
    fn ntuple(&self, py: Python<'_>, name: &str) -> PyResult<StoredNtuple> {
        let stored = self.run(py, |store| Ok(store.ntuple(name)?))?;
        Ok(self.hold(py, stored)?)
    }

    /// Makes an ntuple whose fields are of the types that these arrays have, with the entries of `data`, all at once.
    #[expect(clippy::too_many_arguments, reason = "what an ntuple can be")]
    #[pyo3(signature = (name, fields, data, *, description="", settings=501, group_bytes=None, keep_ns=None, object_class=None, precision=Vec::new()))]
    fn create(
        &self,
        py: Python<'_>,
        name: &str,
        fields: Vec<(String, Bound<'_, PyAny>)>,
        data: Vec<(String, Bound<'_, PyAny>)>,
        description: &str,
        settings: u32,
        group_bytes: Option<u32>,
        keep_ns: Option<u64>,
        object_class: Option<&str>,
        precision: Precision,
    ) -> PyResult<StoredNtuple> {
        let (fields, data) = (taken(fields)?, lent(data)?);
        let options = options(settings, write::PAGE_BYTES, write::CLUSTER_BYTES, true)?;
        let header = header(name, description, &fields, &precision, &options)?;
        let how = create_options(group_bytes, keep_ns, object_class, Vec::new())?;
        let stored = self.run(py, |store| Ok(store.create_of(&header, &given(&data), &how, &options)?))?;
        Ok(self.hold(py, stored)?)
    }

    /// Imports an ntuple, wherever it is, its pages as they are, under another name if one is given.
    #[expect(clippy::too_many_arguments, reason = "what an ntuple can be")]
    #[pyo3(signature = (reader, name=None, *, group_bytes=None, keep_ns=None, object_class=None, order=Vec::new(), progress=None))]
    fn import_ntuple(
        &self,
        py: Python<'_>,
        reader: PyRef<'_, NtupleReader>,
        name: Option<String>,
        group_bytes: Option<u32>,
        keep_ns: Option<u64>,
        object_class: Option<&str>,
        order: Vec<u32>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<StoredNtuple> {
        let how = create_options(group_bytes, keep_ns, object_class, order)?;
        let from = reader.ntuple(py)?;
        check_order(&how.order, from.header().schema.columns.len())?;
        let teller = teller(py, progress)?;
        let stored = self.run(py, |store| {
            let name = match &from {
                Any::File(from) => import(store, from, name, &how, teller),
                Any::Stored(from) => import(store, from, name, &how, teller),
            }?;
            Ok(store.ntuple(&name)?)
        })?;
        Ok(self.hold(py, stored)?)
    }

    /// Makes an ntuple of a tree: of its branches, or of some. Those that are not read are left out if that is asked for. It, why branches are left
    /// out, and those whose fields have other names, with these.
    #[expect(clippy::too_many_arguments, reason = "what an ntuple can be")]
    #[pyo3(signature = (tree, name=None, branches=None, *, leaves_out=false, settings=501, page_bytes=262_144, cluster_bytes=134_217_728, group_bytes=None, keep_ns=None, object_class=None, progress=None))]
    fn import_tree(
        &self,
        py: Python<'_>,
        tree: PyRef<'_, NtupleTree>,
        name: Option<String>,
        branches: Option<Vec<String>>,
        leaves_out: bool,
        settings: u32,
        page_bytes: u32,
        cluster_bytes: u64,
        group_bytes: Option<u32>,
        keep_ns: Option<u64>,
        object_class: Option<&str>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Imported> {
        let how = create_options(group_bytes, keep_ns, object_class, Vec::new())?;
        let write = options(settings, page_bytes, cluster_bytes, true)?;
        let branches = branches.map(|names| names.into_iter().map(Into::into).collect());
        let of = TreeOptions { branches, leaves_out, write };
        let (teller, tree) = (teller(py, progress)?, tree.tree());
        let (stored, imported) = self.run(py, |store| {
            let name = name.unwrap_or_else(|| tree.own_name().to_owned());
            let imported = store.import_tree(&name, &tree, &of, &how, teller)?;
            Ok((store.ntuple(&name)?, imported))
        })?;
        self.imported(py, stored, imported)
    }

    /// Makes an ntuple of branches of a tree, all at the top if none are named, and of entries of ranges.
    #[expect(clippy::too_many_arguments, reason = "what an ntuple can be")]
    #[pyo3(signature = (tree, name, branches, ranges, *, leaves_out=false, settings=501, page_bytes=262_144, cluster_bytes=134_217_728, group_bytes=None, keep_ns=None, object_class=None))]
    fn skim_tree(
        &self,
        py: Python<'_>,
        tree: PyRef<'_, NtupleTree>,
        name: &str,
        branches: Vec<String>,
        ranges: Vec<(u64, u64)>,
        leaves_out: bool,
        settings: u32,
        page_bytes: u32,
        cluster_bytes: u64,
        group_bytes: Option<u32>,
        keep_ns: Option<u64>,
        object_class: Option<&str>,
    ) -> PyResult<Imported> {
        let how = create_options(group_bytes, keep_ns, object_class, Vec::new())?;
        let write = options(settings, page_bytes, cluster_bytes, true)?;
        let ranges: Vec<_> = ranges.into_iter().map(|(first, end)| Entries { first, end }).collect();
        let branches: Vec<_> = branches.into_iter().map(Into::into).collect();
        let branches = (!branches.is_empty()).then_some(branches);
        let (of, tree) = (TreeOptions { branches, leaves_out, write }, tree.tree());
        let (stored, imported) = self.run(py, |store| {
            let imported = store.skim_tree(name, (&tree, &ranges), &of, &how, |_| ())?;
            Ok((store.ntuple(name)?, imported))
        })?;
        self.imported(py, stored, imported)
    }

    /// Makes an ntuple of fields at the top of another one, all if none are named, and of entries of ranges. It, and how many clusters were taken as
    /// they are and how many were written anew.
    #[expect(clippy::too_many_arguments, reason = "what an ntuple can be")]
    #[pyo3(signature = (reader, name, fields, ranges, *, settings=501, page_bytes=262_144, cluster_bytes=134_217_728, group_bytes=None, keep_ns=None, object_class=None))]
    fn skim(
        &self,
        py: Python<'_>,
        reader: PyRef<'_, NtupleReader>,
        name: &str,
        fields: Vec<String>,
        ranges: Vec<(u64, u64)>,
        settings: u32,
        page_bytes: u32,
        cluster_bytes: u64,
        group_bytes: Option<u32>,
        keep_ns: Option<u64>,
        object_class: Option<&str>,
    ) -> PyResult<(StoredNtuple, u64, u64)> {
        let how = create_options(group_bytes, keep_ns, object_class, Vec::new())?;
        let write = options(settings, page_bytes, cluster_bytes, true)?;
        let ranges: Vec<_> = ranges.into_iter().map(|(first, end)| Entries { first, end }).collect();
        let from = reader.ntuple(py)?;
        let names: Vec<&str> = fields.iter().map(|field| &**field).collect();
        let (stored, skimmed) = self.run(py, |store| {
            let skimmed = match &from {
                Any::File(from) => store.skim(from, &names, &ranges, name, &how, &write)?,
                Any::Stored(from) => store.skim(from, &names, &ranges, name, &how, &write)?,
            };
            Ok((store.ntuple(name)?, skimmed))
        })?;
        Ok((self.hold(py, stored)?, skimmed.passed, skimmed.written))
    }

    /// Makes an ntuple of fields at the top of a version of another one, all if none are named, with the same pages.
    #[pyo3(signature = (stored, name, fields, version=None, tag=None))]
    fn clone(
        &self,
        py: Python<'_>,
        stored: PyRef<'_, StoredNtuple>,
        name: &str,
        fields: Vec<String>,
        version: Option<u64>,
        tag: Option<&str>,
    ) -> PyResult<StoredNtuple> {
        let when = when(version, tag, None)?;
        let names: Vec<&str> = fields.iter().map(|field| &**field).collect();
        let from = stored.slot.run(py, |stored| Ok(stored.clone()))?;
        let made = self.run(py, |store| {
            store.clone_fields(&from, when, &names, name)?;
            Ok(store.ntuple(name)?)
        })?;
        Ok(self.hold(py, made)?)
    }

    /// Frees what no version needs, and if nobody writes what dead writers have left whose leases are not over; what was freed is told.
    #[pyo3(signature = (alone=false))]
    fn collect(&self, py: Python<'_>, alone: bool) -> PyResult<Freed> {
        let collect = |store: &Store| if alone { store.collect_alone() } else { store.collect() };
        let collected = self.run(py, |store| Ok(collect(store)?))?;
        Ok(freed(collected))
    }

    /// Removes an ntuple with all of its versions, also tagged ones if ``force`` is set; what was freed.
    #[pyo3(signature = (name, force=false))]
    fn destroy(&self, py: Python<'_>, name: &str, force: bool) -> PyResult<Freed> {
        let destroy = |store: &Store| if force { store.destroy(name) } else { store.destroy_untagged(name) };
        Ok(freed(self.run(py, |store| Ok(destroy(store)?))?))
    }
}

/// An ntuple of a container; used by ``dolmen.rntuple``.
#[pyclass(frozen, module = "dolmen", name = "StoredNtuple")]
pub(crate) struct StoredNtuple {
    slot: Slot<Stored>,
}

fn when(version: Option<u64>, tag: Option<&str>, time_ns: Option<u64>) -> Result<When<'_>> {
    match (version, tag, time_ns) {
        (None, None, None) => Ok(When::Now),
        (Some(version), None, None) => Ok(When::Version(version)),
        (None, Some(tag), None) => Ok(When::Tag(tag)),
        (None, None, Some(time_ns)) => Ok(When::Time(time_ns)),
        _ => Err(Error::Argument(Wrong::Version)),
    }
}

#[pymethods]
impl StoredNtuple {
    /// Its name.
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.slot.run(py, |stored| Ok(stored.name().to_owned()))?)
    }

    /// Opens a version for reading.
    #[pyo3(signature = (version=None, tag=None, time_ns=None))]
    fn open(
        &self,
        py: Python<'_>,
        version: Option<u64>,
        tag: Option<&str>,
        time_ns: Option<u64>,
    ) -> PyResult<NtupleReader> {
        let when = when(version, tag, time_ns)?;
        let ntuple = self.slot.run(py, |stored| Ok(Any::Stored(Arc::new(stored.open(when)?))))?;
        Ok(NtupleReader::stored(py.detach(|| self.slot.hold(ntuple))?))
    }

    /// The current version, or another.
    #[pyo3(signature = (version=None, tag=None, time_ns=None))]
    fn version(
        &self,
        py: Python<'_>,
        version: Option<u64>,
        tag: Option<&str>,
        time_ns: Option<u64>,
    ) -> PyResult<Told> {
        let when = when(version, tag, time_ns)?;
        Ok(told(&self.slot.run(py, |stored| Ok(stored.version(when)?))?))
    }

    /// All versions, the oldest first.
    fn versions(&self, py: Python<'_>) -> PyResult<Vec<Told>> {
        let versions = self.slot.run(py, |stored| Ok(stored.versions()?))?;
        Ok(versions.iter().map(told).collect())
    }

    /// All tags with the versions that they keep.
    fn tags(&self, py: Python<'_>) -> PyResult<Vec<(String, u64)>> {
        let tags = self.slot.run(py, |stored| Ok(stored.tags()?))?;
        Ok(tags.into_iter().map(|tag| (tag.name.into(), tag.version)).collect())
    }

    /// Has a tag keep a version, the current one unless another is told; with `move` also one that keeps another.
    #[pyo3(signature = (name, version=None, *, r#move=false))]
    fn tag(&self, py: Python<'_>, name: &str, version: Option<u64>, r#move: bool) -> PyResult<Told> {
        let when = when(version, None, None)?;
        Ok(told(&self.slot.run(py, |stored| Ok(stored.tag(name, when, r#move)?))?))
    }

    /// Removes a tag.
    fn untag(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        Ok(self.slot.run(py, |stored| Ok(stored.untag(name)?))?)
    }

    /// For how long versions that were replaced are kept, in nanoseconds.
    fn keeps(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.slot.run(py, |stored| Ok(stored.keeps_ns()?))?)
    }

    /// Sets for how long versions that were replaced are kept, in nanoseconds.
    fn keep(&self, py: Python<'_>, keep_ns: u64) -> PyResult<()> {
        Ok(self.slot.run(py, |stored| Ok(stored.keep(keep_ns)?))?)
    }

    /// Removes versions that no tag keeps and that were kept for long enough; how many.
    fn expire(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.slot.run(py, |stored| Ok(stored.expire()?))?)
    }

    /// Writes clusters anew from the one that begins at `first` or behind it, of about so many bytes: the version, the entries, clusters before and
    /// after; none if there are none left.
    #[pyo3(signature = (first, bytes_max, *, settings=501, page_bytes=262_144, cluster_bytes=134_217_728))]
    fn reshape(
        &self,
        py: Python<'_>,
        first: u64,
        bytes_max: u64,
        settings: u32,
        page_bytes: u32,
        cluster_bytes: u64,
    ) -> PyResult<Option<Reshaped>> {
        let options = options(settings, page_bytes, cluster_bytes, true)?;
        let reshaped = self.slot.run(py, |stored| Ok(stored.reshape(first, bytes_max, &options)?))?;
        Ok(reshaped.map(|done| {
            let entries = (done.entries.first, done.entries.end);
            (told(&done.version), entries, done.clusters_before, done.clusters_after)
        }))
    }

    /// Has what is written from now on packed in this order of columns, into groups of about so many bytes.
    #[pyo3(signature = (order, group_bytes=None))]
    fn pack(&self, py: Python<'_>, order: Vec<u32>, group_bytes: Option<u32>) -> PyResult<u32> {
        let pack = |stored: &Stored| {
            check_order(&order, stored.open(When::Now)?.header().schema.columns.len())?;
            Ok(stored.pack(&order, group_bytes)?)
        };
        Ok(self.slot.run(py, pack)?)
    }

    /// Begins to add columns for fields of the types that these arrays have; their values are not put.
    #[pyo3(signature = (fields, *, settings=501, page_bytes=262_144, precision=Vec::new()))]
    fn add_columns(
        &self,
        py: Python<'_>,
        fields: Vec<(String, Bound<'_, PyAny>)>,
        settings: u32,
        page_bytes: u32,
        precision: Precision,
    ) -> PyResult<NtupleColumnAdder> {
        let fields = taken(fields)?;
        let options = options(settings, page_bytes, 1, true)?;
        let (schema, adder) = self.slot.run(py, |stored| {
            let mut schema = stored.open(When::Now)?.header().schema.clone();
            add(&mut schema, &fields, &precision, &options)?;
            let adder = stored.add_columns(&schema)?;
            Ok((schema, adder))
        })?;
        let first_column = schema.columns.iter().position(|column| {
            let field = &schema.fields[column.field as usize];
            fields.iter().any(|(name, _)| **name == *top(&schema, field).name)
        });
        let first_column = first_column.unwrap_or(schema.columns.len());
        let slot = py.detach(|| self.slot.hold(Mutex::new(Some(adder))))?;
        Ok(NtupleColumnAdder { options, schema, first_column, slot })
    }

    /// Looks at all pages of a version. How many there are, how many of these have no checksum, their bytes, and of those that are damaged: field,
    /// column, entries of the cluster, page and what is wrong. With the path of a file of ROOT, or what is open, they are put right by its pages, if it has the same;
    /// whether that was done is told of each.
    #[expect(clippy::too_many_arguments, reason = "where the right pages can be")]
    #[pyo3(signature = (version=None, tag=None, *, path=None, ntuple=None, reader=None, progress=None))]
    fn scrub(
        &self,
        py: Python<'_>,
        version: Option<u64>,
        tag: Option<&str>,
        path: Option<PathBuf>,
        ntuple: Option<String>,
        reader: Option<PyRef<'_, NtupleReader>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(u64, u64, u64, Vec<Bad>)> {
        let when = when(version, tag, None)?;
        let open = reader.map(|reader| reader.ntuple(py)).transpose()?;
        let teller = teller(py, progress)?;
        let (scrubbed, repaired) = self.slot.run(py, |stored| {
            let scrubbed = stored.scrub(when, teller)?;
            let repaired = match (&path, &open) {
                (_, Some(Any::File(from))) => stored.repair(&scrubbed.bad, from)?,
                (_, Some(Any::Stored(from))) => stored.repair(&scrubbed.bad, from)?,
                (Some(path), None) => {
                    stored.repair(&scrubbed.bad, &super::reader::open_file(path, ntuple.as_deref(), None)?)?
                }
                (None, None) => vec![false; scrubbed.bad.len()],
            };
            Ok((scrubbed, repaired))
        })?;
        let bad = scrubbed.bad.iter().zip(repaired).map(|(bad, is_right)| {
            let entries = (bad.entries.first, bad.entries.end);
            (bad.field.to_string(), bad.column, entries, bad.page, format!("{:?}", bad.damage), is_right)
        });
        Ok((scrubbed.pages, scrubbed.unsummed, scrubbed.bytes, bad.collect()))
    }

    /// Begins to append.
    #[pyo3(signature = (*, settings=501, page_bytes=262_144, cluster_bytes=134_217_728, fill=Vec::new(), leaves_out=false))]
    fn append(
        &self,
        py: Python<'_>,
        settings: u32,
        page_bytes: u32,
        cluster_bytes: u64,
        fill: Vec<(String, Option<Bound<'_, PyAny>>)>,
        leaves_out: bool,
    ) -> PyResult<NtupleAppender> {
        let options = options(settings, page_bytes, cluster_bytes, true)?;
        let mut fills = Vec::new();
        for (field, value) in fill {
            let number = value.map(|value| number(&value)).transpose()?;
            fills.push(Fill { field: field.into(), number });
        }
        let appender = self.slot.run(py, |stored| {
            let mut appender = stored.append()?;
            appender.fill(fills, &options);
            appender.leave_out(leaves_out);
            Ok(appender)
        })?;
        let slot = py.detach(|| self.slot.hold(Mutex::new(Some(appender))))?;
        Ok(NtupleAppender { options, slot })
    }
}

/// A damaged page: field, column, entries of the cluster, page, what is wrong, and whether it was put right.
type Bad = (String, u32, (u64, u64), u32, String, bool);

/// The field at the top that a field is or is below.
fn top<'a>(schema: &'a Schema, mut field: &'a Field) -> &'a Field {
    loop {
        let above = &schema.fields[field.parent as usize];
        if core::ptr::eq(above, field) {
            return field;
        }
        field = above;
    }
}

/// Who adds columns to an ntuple of a container; used by ``dolmen.rntuple``.
#[pyclass(frozen, module = "dolmen", name = "NtupleColumnAdder")]
pub(crate) struct NtupleColumnAdder {
    options: Options,
    /// With the fields that are added.
    schema: Schema,
    /// The first column of these.
    first_column: usize,
    // Guards: who adds or appends, for as long as a call lasts; taken with nothing else held. None when it is given up.
    slot: Slot<Mutex<Option<ColumnAdder>>>,
}

impl NtupleColumnAdder {
    fn run<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut ColumnAdder) -> Result<R> + Send,
    ) -> Result<R> {
        self.slot.run(py, |adder| {
            let mut adder = adder.lock().unwrap_or_else(PoisonError::into_inner);
            body(adder.as_mut().ok_or(Error::Closed)?)
        })
    }
}

#[pymethods]
impl NtupleColumnAdder {
    /// Entries of the clusters whose columns are to be put still.
    fn missing(&self, py: Python<'_>) -> PyResult<Vec<(u64, u64)>> {
        let of = |adder: &mut ColumnAdder| {
            Ok(adder.missing().iter().map(|entries| (entries.first, entries.end)).collect())
        };
        Ok(self.run(py, of)?)
    }

    /// Puts values for all clusters that lack them.
    fn put(&self, py: Python<'_>, fields: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<()> {
        let fields = lent(fields)?;
        let put = |adder: &mut ColumnAdder| {
            let fields = given(&fields);
            let (mut at, given, mut room) = (0, write::entry_count(&fields)?, Room::default());
            let needed = adder.missing().iter().map(|entries| entries.end - entries.first).sum();
            if given != needed {
                return Err(Error::Entries { given, needed });
            }
            while at < given {
                let next = adder.missing().first().map_or(0, |entries| entries.end - entries.first);
                let mut cluster =
                    write::seal_in(&self.schema, &fields, at..at + next, &self.options, &mut room)?;
                cluster.columns.drain(..self.first_column);
                adder.push(&cluster)?;
                at += next;
            }
            Ok(())
        };
        Ok(self.run(py, put)?)
    }

    /// Makes the columns part of the ntuple: all or nothing.
    fn commit(&self, py: Python<'_>) -> PyResult<Told> {
        Ok(told(&self.run(py, |adder| Ok(adder.commit()?))?))
    }

    /// Gives up what was put.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        let discard = |adder: &Mutex<Option<ColumnAdder>>| match adder
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            Some(adder) => Ok(adder.discard()?),
            None => Ok(()),
        };
        Ok(self.slot.run(py, discard)?)
    }
}

/// What is left out, in words.
fn texts(left_out: &[LeftOut]) -> Vec<String> {
    left_out.iter().map(ToString::to_string).collect()
}

/// Who appends to an ntuple of a container; used by ``dolmen.rntuple``.
#[pyclass(frozen, module = "dolmen", name = "NtupleAppender")]
pub(crate) struct NtupleAppender {
    options: Options,
    // Guards: who adds or appends, for as long as a call lasts; taken with nothing else held. None when it is given up.
    slot: Slot<Mutex<Option<Appender>>>,
}

impl NtupleAppender {
    fn run<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut Appender) -> Result<R> + Send,
    ) -> Result<R> {
        self.slot.run(py, |appender| {
            let mut appender = appender.lock().unwrap_or_else(PoisonError::into_inner);
            body(appender.as_mut().ok_or(Error::Closed)?)
        })
    }
}

#[pymethods]
impl NtupleAppender {
    /// Whether all that is filled are fields of the ntuple.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.run(py, |appender| Ok(appender.check()?))?)
    }

    /// Puts entries into the container, as clusters of their own; nobody sees them before the commit.
    fn put(&self, py: Python<'_>, fields: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<()> {
        let fields = lent(fields)?;
        let put = |appender: &mut Appender| {
            let schema = appender.schema().clone();
            let (fields, mut room) = (given(&fields), Room::default());
            for entries in write::cut(&fields, &self.options)? {
                appender.push(&write::seal_in(&schema, &fields, entries, &self.options, &mut room)?)?;
            }
            Ok(())
        };
        Ok(self.run(py, put)?)
    }

    /// Whether another ntuple can be put; what is left out of it then.
    fn check_ntuple(&self, py: Python<'_>, reader: PyRef<'_, NtupleReader>) -> PyResult<Vec<String>> {
        let from = reader.ntuple(py)?;
        let schema = match &from {
            Any::File(from) => &from.header().schema,
            Any::Stored(from) => &from.header().schema,
        };
        Ok(self.run(py, |appender| Ok(texts(&appender.check_ntuple(schema)?)))?)
    }

    /// Whether a tree can be put; what is left out of it then.
    fn check_tree(&self, py: Python<'_>, tree: PyRef<'_, NtupleTree>) -> PyResult<Vec<String>> {
        let tree = tree.tree();
        Ok(self.run(py, |appender| Ok(texts(&appender.check_tree(&tree)?)))?)
    }

    /// Puts all entries of another ntuple with the same fields, its pages as they are.
    #[pyo3(signature = (reader, *, progress=None))]
    fn put_ntuple(
        &self,
        py: Python<'_>,
        reader: PyRef<'_, NtupleReader>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let from = reader.ntuple(py)?;
        let teller = teller(py, progress)?;
        let put = |appender: &mut Appender| match &from {
            Any::File(from) => Ok(appender.push_all_telling(from, teller)?),
            Any::Stored(from) => Ok(appender.push_all_telling(from, teller)?),
        };
        Ok(self.run(py, put)?)
    }

    /// Puts all entries of a tree, of the branches that are the fields.
    #[pyo3(signature = (tree, *, progress=None))]
    fn put_tree(
        &self,
        py: Python<'_>,
        tree: PyRef<'_, NtupleTree>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let (teller, tree) = (teller(py, progress)?, tree.tree());
        Ok(self.run(py, |appender| Ok(appender.push_tree(&tree, teller)?))?)
    }

    /// Makes what was put part of the ntuple: all of it or nothing.
    fn commit(&self, py: Python<'_>) -> PyResult<Told> {
        Ok(told(&self.run(py, |appender| Ok(appender.commit()?))?))
    }

    /// Gives up what was put since the last commit.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        let discard = |appender: &Mutex<Option<Appender>>| match appender
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            Some(appender) => Ok(appender.discard()?),
            None => Ok(()),
        };
        Ok(self.slot.run(py, discard)?)
    }
}
