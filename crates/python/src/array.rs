//! Arrays of records, as numpy has them.

use crate::buffer::Lent;
use crate::error::{Error, Result, Wrong};
use crate::oid::{Oid, wrong_kind};
use crate::slot::Slot;
use crate::tx::{Home, When};
use dolmen_client::{Array as Client, At, Container, IoBuf, ObjectType, Oid as Id, Recx};
use pyo3::prelude::{
    Bound, Py, PyAny, PyAnyMethods, PyModule, PyModuleMethods, PyResult, Python, pyclass, pymethods,
};
use pyo3::types::{PyBool, PyDict, PyDictMethods, PySlice, PySliceMethods};

/// Bytes of a chunk of an array whose maker gives none: what an engine moves well, and a record of its log does not cross.
const CHUNK_BYTES: u64 = 1 << 20;

/// A sparse array of records of one size, which is used as a numpy array of one dimension: ``a[3:7]`` reads, ``a[3:7] = x`` writes,
/// ``len(a)`` is the index of the last record plus one, ``numpy.asarray(a)`` reads all of it. Writing beyond the end makes it longer;
/// what was never written reads as zeros. Made by ``Container.create_array`` and ``Container.array``; that of ``Transaction.array``
/// reads and writes in the transaction.
///
/// What is written is taken from the caller's memory if that is contiguous and of the array's type, without a copy; what is read is
/// copied once, chunk by chunk, to where it is wanted. Each chunk is written atomically; a transaction
/// writes all or nothing. May be used by any number of threads at once.
#[pyclass(frozen, sequence, module = "dolmen", name = "Array")]
pub(crate) struct Array {
    slot: Slot<Client>,
    when: When,
    oid: Id,
    dtype: Py<PyAny>,
    cell_bytes: u64,
    chunk: u64,
    home: Home,
}

/// What numpy takes records for, and the bytes of one.
fn dtype_of<'py>(py: Python<'py>, dtype: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, u64)> {
    let dtype = py.import("numpy")?.getattr("dtype")?.call1((dtype,))?;
    let bytes = dtype.getattr("itemsize")?.extract::<u64>()?;
    if bytes == 0 || dtype.getattr("hasobject")?.is_truthy()? {
        return Err(Error::Argument(Wrong::RecordType).into());
    }
    // numpy spreads each value over such a record.
    if !dtype.getattr("subdtype")?.is_none() {
        return Err(Error::Argument(Wrong::RecordShape).into());
    }
    Ok((dtype, bytes))
}

impl Array {
    pub(crate) fn create(
        py: Python<'_>,
        cont: &Slot<Container>,
        oid: Id,
        dtype: &Bound<'_, PyAny>,
        chunk: Option<u64>,
    ) -> PyResult<Self> {
        let (dtype, cell_bytes) = dtype_of(py, dtype)?;
        if chunk == Some(0) {
            return Err(Error::Argument(Wrong::Chunk).into());
        }
        let chunk = chunk.unwrap_or((CHUNK_BYTES / cell_bytes).max(1));
        let made = cont.run(py, |cont| Ok(Client::create(cont, At::Latest, oid, cell_bytes, chunk)?))?;
        let slot = cont.hold(made)?;
        let home = Home::of(py, cont)?;
        Ok(Self { slot, when: When::Now, oid, dtype: dtype.unbind(), cell_bytes, chunk, home })
    }

    pub(crate) fn open(
        py: Python<'_>,
        cont: &Slot<Container>,
        oid: Id,
        dtype: Option<&Bound<'_, PyAny>>,
        when: When,
    ) -> PyResult<Self> {
        if !oid.object_type().is_some_and(ObjectType::is_array) {
            return Err(wrong_kind(oid).into());
        }
        let opened = cont.run(py, |cont| when.at(|at| Ok(Client::open(cont, at, oid)?)));
        let opened = opened.map_err(|error| {
            error.missing(|| {
                format!("there is no array {oid}: `create_array` makes one, and `oid` of that tells its id")
            })
        })?;
        let (stored, chunk) = (opened.cell_bytes(), opened.chunk_records());
        let usual = match stored {
            1 => "u1".to_owned(),
            bytes => format!("V{bytes}"),
        };
        let usual = pyo3::types::PyString::new(py, &usual).into_any();
        let (dtype, cell_bytes) = dtype_of(py, dtype.unwrap_or(&usual))?;
        if cell_bytes != stored {
            return Err(Error::Store(dolmen_types::Error::RecordSize { stored_bytes: stored }).into());
        }
        let slot = cont.hold(opened)?;
        let home = Home::of(py, cont)?;
        Ok(Self { slot, when, oid, dtype: dtype.unbind(), cell_bytes, chunk, home })
    }

    /// The same array in a transaction on a handle of the same container.
    pub(crate) fn within(&self, py: Python<'_>, cont: &Slot<Container>, when: When) -> PyResult<Self> {
        if !cont.is_above(&self.slot) {
            return Self::open(py, cont, self.oid, Some(self.dtype.bind(py)), when);
        }
        let (slot, dtype, home) = (self.slot.clone(), self.dtype.clone_ref(py), self.home.clone());
        Ok(Self { slot, when, oid: self.oid, dtype, cell_bytes: self.cell_bytes, chunk: self.chunk, home })
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn when(&self) -> &When {
        &self.when
    }

    fn run<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&Client, At<'_>) -> Result<R> + Send,
    ) -> Result<R> {
        self.slot.run(py, |array| self.when.at(|at| body(array, at)))
    }

    /// The same, of what changes something.
    fn change<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&Client, At<'_>) -> Result<R> + Send,
    ) -> Result<R> {
        self.slot.run(py, |array| self.when.change(self.slot.session(), |at| body(array, at)))
    }

    fn bytes_of(&self, records: u64) -> Result<usize> {
        let bytes = records.checked_mul(self.cell_bytes).filter(|bytes| *bytes <= isize::MAX as u64);
        bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or(Error::Argument(Wrong::Length))
    }

    /// Reads ranges into memory that numpy takes over.
    fn fetched<'py>(&self, py: Python<'py>, ranges: &[Recx]) -> PyResult<Bound<'py, PyAny>> {
        let records = ranges.iter().try_fold(0_u64, |sum, range| sum.checked_add(range.count));
        let len = self.bytes_of(records.unwrap_or(u64::MAX))?;
        let numpy = py.import("numpy")?;
        if len == 0 {
            return numpy.call_method1("empty", (0, &self.dtype));
        }
        // Types such as dates have no format in the protocol; their bytes have.
        let found = numpy.call_method1("empty", (len, "u1"))?;
        let mut lent = Lent::to_fill(&found)?;
        let place = lent.bytes_mut();
        self.run(py, |array, at| fill(array, at, ranges, place))?;
        drop(lent);
        found.call_method1("view", (&self.dtype,))
    }

    /// The records to be written, as contiguous memory: the caller's own if it is that already.
    fn records<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
        count: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};
        let numpy = py.import("numpy")?;
        let is_raw = data.is_instance_of::<PyBytes>()
            || data.is_instance_of::<PyByteArray>()
            || data.is_instance_of::<PyMemoryView>()
            || data.is_instance_of::<crate::buffer::Buffer>();
        if is_raw {
            return Ok(data.clone());
        }
        let array = numpy.call_method1("asarray", (data, &self.dtype))?;
        let array = match count {
            Some(count) if array.getattr("size")?.extract::<u64>()? != count => {
                numpy.call_method1("broadcast_to", (array, (count,)))?
            }
            _ => array,
        };
        let array = numpy.call_method1("ascontiguousarray", (array,))?;
        // Types such as dates have no format in the protocol; their bytes have.
        array.call_method1("reshape", (-1,))?.call_method1("view", ("u1",))
    }

    fn put<'py>(&self, py: Python<'py>, ranges: Ranges<'_>, data: &Bound<'py, PyAny>) -> PyResult<()> {
        let count = match ranges {
            Ranges::From(_) => None,
            Ranges::These(ranges) => Some(ranges.iter().map(|range| range.count).sum()),
        };
        let records = self.records(py, data, count)?;
        let lent = Lent::to_read(&records)?;
        let bytes = lent.bytes();
        let len = bytes.len() as u64;
        if !len.is_multiple_of(self.cell_bytes) {
            return Err(Error::Argument(Wrong::Records).into());
        }
        if len == 0 && count.unwrap_or(0) == 0 {
            return Ok(());
        }
        Ok(self.change(py, |array, at| match ranges {
            Ranges::From(index) => {
                Ok(array.write(at, &[Recx { index, count: len / self.cell_bytes }], bytes)?)
            }
            Ranges::These(ranges) => Ok(array.write(at, ranges, bytes)?),
        })?)
    }

    /// Whether records are read into an object as they are: into one of numpy of the same type, or of bytes on either side.
    fn is_place(&self, py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        if !object.is_instance(&py.import("numpy")?.getattr("ndarray")?)? {
            return Ok(true);
        }
        let is_raw = |dtype: &Bound<'_, PyAny>| -> PyResult<bool> {
            Ok(match dtype.getattr("kind")?.extract::<char>()? {
                'u' | 'i' => dtype.getattr("itemsize")?.extract::<u64>()? == 1,
                'V' => dtype.getattr("names")?.is_none(),
                kind => kind == 'S',
            })
        };
        let (own, theirs) = (self.dtype.bind(py), object.getattr("dtype")?);
        Ok(own.eq(&theirs)? || is_raw(own)? || is_raw(&theirs)?)
    }

    fn length(&self, py: Python<'_>) -> Result<u64> {
        self.run(py, |array, at| Ok(array.size(at)?))
    }

    /// First record, records and step of an index or slice.
    fn place(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> PyResult<Place> {
        let length = self.length(py)?;
        if let Ok(slice) = index.cast::<PySlice>() {
            let length = isize::try_from(length).map_err(|_too_long| Error::Argument(Wrong::Index))?;
            let found = slice.indices(length)?;
            return Ok(Place {
                start: found.start,
                count: found.slicelength,
                step: found.step,
                is_one: false,
            });
        }
        if index.is_instance_of::<PyBool>() {
            return Err(crate::error::of_type("an array is indexed by a whole number or a slice"));
        }
        let at = index
            .extract::<i64>()
            .map_err(|_other| crate::error::of_type("an array is indexed by a whole number or a slice"))?;
        let signed = i64::try_from(length).unwrap_or(i64::MAX);
        let start = if at < 0 { at + signed } else { at };
        if start < 0 || start >= signed {
            return Err(pyo3::exceptions::PyIndexError::new_err("the index is outside of the array"));
        }
        let start = isize::try_from(start).map_err(|_too_long| Error::Argument(Wrong::Index))?;
        Ok(Place { start, count: 1, step: 1, is_one: true })
    }

    /// First record and records that an assignment means: a slice with both ends may reach beyond the end of the array.
    fn to_write(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> PyResult<(u64, u64)> {
        if let Ok(slice) = index.cast::<PySlice>() {
            let step = slice.getattr("step")?;
            if !step.is_none() && step.extract::<i64>()? != 1 {
                return Err(Error::Argument(Wrong::Step).into());
            }
            let start = slice.getattr("start")?.extract::<Option<i64>>()?.unwrap_or(0);
            let stop = slice.getattr("stop")?.extract::<Option<i64>>()?.unwrap_or(-1);
            if let (Ok(start), Ok(stop)) = (u64::try_from(start), u64::try_from(stop)) {
                return Ok((start, stop.saturating_sub(start)));
            }
        }
        let covered = self.place(py, index)?.covered();
        Ok((covered.index, covered.count))
    }
}

#[derive(Clone, Copy)]
enum Ranges<'r> {
    /// As many as there are data for, from this one on.
    From(u64),
    These(&'r [Recx]),
}

struct Place {
    start: isize,
    count: usize,
    step: isize,
    is_one: bool,
}

impl Place {
    /// The records from its lowest to its highest.
    fn covered(&self) -> Recx {
        if self.count == 0 {
            return Recx { index: 0, count: 0 };
        }
        let last = self.start + self.step * (self.count as isize - 1);
        let (low, high) = (self.start.min(last), self.start.max(last));
        Recx { index: low as u64, count: (high - low) as u64 + 1 }
    }
}

/// Reads ranges into memory, one after the other, and says how many of the records lie before the end. Chunk by chunk: what was
/// fetched is still in the processor's cache when it is copied to its place.
fn fill(array: &Client, at: At<'_>, ranges: &[Recx], mut place: &mut [u8]) -> Result<u64> {
    let (mut part, mut found) = (IoBuf::default(), 0);
    for range in ranges {
        let end = range.index.checked_add(range.count).ok_or(dolmen_types::Invalid::Extent)?;
        let mut index = range.index;
        while index < end {
            let count = (array.chunk_records() - index % array.chunk_records()).min(end - index);
            let bytes = usize::try_from(count * array.cell_bytes());
            let (here, rest) = place.split_at_mut(bytes.map_err(|_too_long| Error::Argument(Wrong::Length))?);
            found += array.read(at, &[Recx { index, count }], &mut part)?.records;
            here.copy_from_slice(&part[..here.len()]);
            (place, index) = (rest, index + count);
        }
    }
    Ok(found)
}

fn ranges(given: Vec<(u64, u64)>) -> Vec<Recx> {
    given.into_iter().filter(|(_, count)| *count > 0).map(|(index, count)| Recx { index, count }).collect()
}

#[pymethods]
impl Array {
    /// The id, with which ``Container.array`` opens it again.
    #[getter]
    fn oid(&self) -> Oid {
        Oid(self.oid)
    }

    /// What numpy takes a record for.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.dtype.clone_ref(py)
    }

    /// Records that lie together and are written atomically.
    #[getter]
    fn chunk(&self) -> u64 {
        self.chunk
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(usize::try_from(self.length(py)?).unwrap_or(usize::MAX))
    }

    /// The number of records, as a tuple of one: the shape that numpy gives what is read.
    #[getter]
    fn shape(&self, py: Python<'_>) -> PyResult<(u64,)> {
        Ok((self.length(py)?,))
    }

    /// Reads ``count`` records from ``start`` on, all up to the end without one, as a numpy array. What lies beyond the end reads
    /// as zeros.
    #[pyo3(signature = (start=0, count=None))]
    fn read<'py>(&self, py: Python<'py>, start: u64, count: Option<u64>) -> PyResult<Bound<'py, PyAny>> {
        let count = match count {
            Some(count) => count,
            None => self.length(py)?.saturating_sub(start),
        };
        self.fetched(py, &ranges(vec![(start, count)]))
    }

    /// Reads ranges of records, pairs of start and count, one after the other into one numpy array, with one request for each chunk of each.
    fn read_ranges<'py>(&self, py: Python<'py>, ranges: Vec<(u64, u64)>) -> PyResult<Bound<'py, PyAny>> {
        self.fetched(py, &self::ranges(ranges))
    }

    /// Reads records from ``start`` on into a writable contiguous buffer, as many as fit into it, and returns how many of them lie
    /// before the end of the array; the rest is zeros. An array of numpy has to be of the array's type, or of bytes.
    fn read_into(&self, py: Python<'_>, start: u64, buffer: &Bound<'_, PyAny>) -> PyResult<u64> {
        if !self.is_place(py, buffer)? {
            return Err(Error::Argument(Wrong::OtherRecords).into());
        }
        let mut lent = Lent::to_fill(buffer)?;
        let place = lent.bytes_mut();
        let count = place.len() as u64 / self.cell_bytes;
        let len = self.bytes_of(count)?;
        if len != place.len() {
            return Err(Error::Argument(Wrong::Records).into());
        }
        if count == 0 {
            return Ok(0);
        }
        Ok(self.run(py, |array, at| fill(array, at, &[Recx { index: start, count }], place))?)
    }

    /// Writes records from ``start`` on: an array, which becomes one of the array's type, or bytes as they are.
    fn write(&self, py: Python<'_>, start: u64, data: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(py, Ranges::From(start), data)
    }

    /// Writes ranges of records, pairs of start and count, from data that have them one after the other.
    fn write_ranges(&self, py: Python<'_>, ranges: Vec<(u64, u64)>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(py, Ranges::These(&self::ranges(ranges)), data)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let place = self.place(py, index)?;
        let covered = place.covered();
        let found = self.fetched(py, &ranges(vec![(covered.index, covered.count)]))?;
        if place.is_one {
            return found.get_item(0);
        }
        match place.step {
            1 => Ok(found),
            step => found.get_item(py.get_type::<PySlice>().call1((py.None(), py.None(), step))?),
        }
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        index: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let range = self.to_write(py, index)?;
        self.put(py, Ranges::These(&ranges(vec![range])), value)
    }

    /// Makes the array ``count`` records long: what lies beyond is removed, what is added reads as zeros.
    fn resize(&self, py: Python<'_>, count: u64) -> PyResult<()> {
        Ok(self.change(py, |array, at| Ok(array.set_size(at, count)?))?)
    }

    /// Removes records, which read as zeros then and take no room. An array whose last ones are removed ends behind the last that
    /// is left, whatever ``resize`` said: that index plus one is its length.
    fn punch(&self, py: Python<'_>, start: u64, count: u64) -> PyResult<()> {
        Ok(self.change(py, |array, at| Ok(array.punch(at, &[Recx { index: start, count }])?))?)
    }

    /// Removes the array; its id can be opened no more.
    fn destroy(&self, py: Python<'_>) -> PyResult<()> {
        Ok(self.change(py, |array, at| Ok(array.destroy(at)?))?)
    }

    /// All records, for ``numpy.asarray``.
    #[pyo3(signature = (dtype=None, *, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            return Err(Error::Argument(Wrong::Copy).into());
        }
        let all = self.read(py, 0, None)?;
        match dtype {
            None => Ok(all),
            Some(dtype) => {
                let words = PyDict::new(py);
                words.set_item("copy", false)?;
                all.call_method("astype", (dtype,), Some(&words))
            }
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<dolmen.Array {} of {}>", self.oid, self.dtype.bind(py).str()?))
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Array>()
}
