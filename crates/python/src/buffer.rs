//! Bytes that pass between Python and a pool: whatever has the buffer protocol comes in without a copy, what was fetched goes out
//! as an object that has it.

use crate::error::{Error, Result, Wrong, defect, of_type};
use core::ffi::{c_int, c_void};
use dolmen_client::IoBuf;
use dolmen_rntuple::Values;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyOverflowError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::{
    Bound, Py, PyAny, PyAnyMethods, PyErr, PyModule, PyModuleMethods, PyRef, PyResult, PyTypeMethods, Python,
    pyclass, pymethods,
};
use pyo3::types::{PyBytes, PyBytesMethods, PyString, PyStringMethods};

/// Memory that a caller lends for the time of an operation.
///
/// Whoever lends it must not change it meanwhile, nor look at what is being filled: other threads of Python run beside the
/// operation. What is stored then is a mixture, which engines of other processes may refuse.
pub(crate) struct Lent {
    view: PyUntypedBuffer,
}

impl Lent {
    /// To be read.
    pub(crate) fn to_read(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let view = PyUntypedBuffer::get(object).map_err(|_no_buffer| {
            of_type("bytes, an array or something else with the buffer protocol is needed")
        })?;
        if has_objects(view.format().to_bytes()) {
            return Err(of_type(
                "objects of Python have no bytes that could be stored: an array of numbers or texts has",
            ));
        }
        if view.is_c_contiguous() {
            Ok(Self { view })
        } else {
            Err(PyBufferError::new_err("the buffer is not contiguous (in C order); copy it first"))
        }
    }

    /// To be filled.
    pub(crate) fn to_fill(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let lent = Self::to_read(object)?;
        if lent.view.readonly() {
            return Err(PyBufferError::new_err("the buffer cannot be written"));
        }
        Ok(lent)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        let len = self.view.len_bytes();
        if len == 0 {
            return &[];
        }
        // SAFETY: the view keeps `len` contiguous bytes at this address in place for as long as it lives; that nobody writes to
        // them meanwhile is what the caller is asked for.
        unsafe { core::slice::from_raw_parts(self.view.buf_ptr().cast::<u8>(), len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.view.len_bytes();
        if len == 0 {
            return &mut [];
        }
        // SAFETY: as above, and the view is one that may be written.
        unsafe { core::slice::from_raw_parts_mut(self.view.buf_ptr().cast::<u8>(), len) }
    }
}

/// Whether a format of the buffer protocol has objects of Python, of which there are addresses alone.
fn has_objects(format: &[u8]) -> bool {
    // Between colons are the names of fields.
    format.split(|byte| *byte == b':').step_by(2).any(|part| part.contains(&b'O'))
}

/// A key: bytes, text as UTF-8, or a whole number as 8 bytes, little-endian.
pub(crate) fn key(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let found = if let Ok(text) = object.cast::<PyString>() {
        text.to_str()?.as_bytes().to_vec()
    } else if let Ok(bytes) = object.cast::<PyBytes>() {
        bytes.as_bytes().to_vec()
    } else {
        match object.extract::<u64>() {
            Ok(number) => number.to_le_bytes().to_vec(),
            Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => {
                return Err(Error::Argument(Wrong::KeyNumber).into());
            }
            Err(_no_number) => {
                let lent = Lent::to_read(object);
                lent.map_err(|error| as_key(object, error))?.bytes().to_vec()
            }
        }
    };
    if found.is_empty() { Err(Error::Argument(Wrong::EmptyKey).into()) } else { Ok(found) }
}

/// What is told of something that is no key.
fn as_key(object: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyTypeError>(object.py()) {
        return error;
    }
    match object.get_type().name() {
        Ok(kind) => PyTypeError::new_err(format!("a key is bytes, text or a whole number, and no {kind}")),
        Err(_nameless) => error,
    }
}

/// Several keys: a list of them, or anything else that is gone through, but none that is a key itself.
pub(crate) fn keys(object: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
    let is_key = object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>();
    if is_key || !object.hasattr("__iter__")? {
        return Err(of_type("a list of keys is needed: [key] for one"));
    }
    object.try_iter()?.map(|one| key(&one?)).collect()
}

/// Bytes of a key that are shown at most: what tells keys apart is mostly there.
const SHOWN_BYTES_MAX: usize = 64;

/// A key as errors show it.
pub(crate) fn spelt(key: &[u8]) -> String {
    let (shown, rest) = match key.get(..SHOWN_BYTES_MAX) {
        Some(shown) if key.len() > SHOWN_BYTES_MAX => (shown, "…"),
        _ => (key, ""),
    };
    match core::str::from_utf8(shown) {
        Ok(text) if !text.chars().any(char::is_control) => format!("{text:?}{rest}"),
        _ => format!("b\"{}\"{rest}", shown.escape_ascii()),
    }
}

/// Bytes that were fetched, without a copy: ``memoryview(b)``, ``bytes(b)`` and ``numpy.frombuffer(b, dtype)`` take it.
///
/// It begins at a multiple of 4096 and can be written, which changes nothing in the pool. It may be used by any thread, but who
/// writes to it must see to it that nobody else does.
#[pyclass(frozen, module = "dolmen", name = "Buffer")]
pub(crate) struct Buffer {
    /// Looked at through `start` alone, but for its end.
    _owner: Box<dyn Send + Sync>,
    /// The address of its first byte.
    start: usize,
    len: usize,
}

impl Buffer {
    /// The first `len` of these bytes.
    pub(crate) fn new(mut bytes: IoBuf, len: usize) -> Self {
        assert!(len <= bytes.len());
        let start = bytes.as_mut_ptr().expose_provenance();
        Self { _owner: Box::new(bytes), start, len }
    }

    /// The bytes of these values.
    pub(crate) fn of_values(mut values: Values) -> Self {
        let bytes = values.as_mut_bytes();
        // Where they are does not change with the values' own place.
        let (start, len) = (bytes.as_mut_ptr().expose_provenance(), bytes.len());
        Self { _owner: Box::new(Again(Some(values))), start, len }
    }
}

/// Values whose memory is used again when nobody looks at it anymore.
struct Again(Option<Values>);

impl Drop for Again {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Values::spare);
    }
}

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.len
    }

    fn __repr__(&self) -> String {
        format!("<dolmen.Buffer of {} bytes>", self.len)
    }

    /// Lends the bytes; called by the interpreter.
    ///
    /// SAFETY: `view` is what the interpreter gives to be filled.
    unsafe fn __getbuffer__(slf: PyRef<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no view to fill"));
        }
        let start = core::ptr::with_exposed_provenance_mut::<c_void>(slf.start);
        let len = ffi::Py_ssize_t::try_from(slf.len).map_err(|_too_long| defect("a buffer is too long"))?;
        // SAFETY: the view is to be filled; the bytes stay where they are for as long as the object lives, to which the view gets
        // a reference; nothing else looks at them.
        let done = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 0, flags) };
        if done == 0 { Ok(()) } else { Err(pyo3::PyErr::fetch(slf.py())) }
    }
}

/// An object of Python with bytes that were fetched.
pub(crate) fn shown(py: Python<'_>, bytes: IoBuf, len: usize) -> PyResult<Py<Buffer>> {
    Py::new(py, Buffer::new(bytes, len))
}

/// Copies what was fetched to where the caller wants it.
pub(crate) fn copy_out(from: &[u8], to: &mut [u8]) -> Result<usize> {
    let Some(place) = to.get_mut(..from.len()) else {
        return Err(Error::Store(dolmen_types::Error::RecTooBig { needed_bytes: from.len() as u64 }));
    };
    place.copy_from_slice(from);
    Ok(from.len())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Buffer>()
}
