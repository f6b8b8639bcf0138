//! The messages of an answer, for Python: columns that are made when they are asked for.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::wire::{Answer, Message, read_answer};

/// Messages that do not match their checksums: number, the checksum that came, that of the payload.
type Damaged = Vec<(usize, i32, i32)>;

/// Messages in the order of their index entries. They hold the bytes of their answer.
#[pyclass(frozen, module = "tubeclient_core")]
pub struct Messages {
    stream: Arc<PyBackedBytes>,
    all: Arc<Vec<Message>>,
    count: usize,
    ids: PyOnceLock<Py<PyList>>,
}

impl Messages {
    fn cut(&self, count: usize) -> Self {
        Self { stream: self.stream.clone(), all: self.all.clone(), count, ids: PyOnceLock::new() }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Message, &[u8])> {
        self.all[..self.count].iter().map(|one| (one, &self.stream[one.payload.clone()]))
    }

    fn lists<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, [self.ids(py)?.clone(), self.payloads(py)?, self.flags(py)?])
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn bytes(&self) -> usize {
        self.all[..self.count].iter().map(|one| one.payload.len()).sum()
    }
}

#[pymethods]
impl Messages {
    /// The broker's ids.
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyList>> {
        let make = || PyList::new(py, self.iter().map(|(one, _)| one.id)).map(Bound::unbind);
        Ok(self.ids.get_or_try_init(py, make)?.bind(py))
    }

    #[getter]
    fn payloads<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let payloads: Vec<_> = self.iter().map(|(_, payload)| PyBytes::new(py, payload)).collect();
        PyList::new(py, payloads)
    }

    #[getter]
    fn flags<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.iter().map(|(one, _)| one.flag).collect::<Vec<_>>())
    }

    /// The bytes of all payloads together.
    #[getter]
    fn payload_bytes(&self) -> usize {
        self.bytes()
    }

    /// All of them, or the `first` ones, and the damaged ones of these.
    fn checked(slf: Bound<'_, Self>, first: Option<usize>) -> PyResult<(Bound<'_, Self>, Damaged)> {
        let py = slf.py();
        let some = match first {
            Some(count) if count < slf.get().count => Bound::new(py, slf.get().cut(count))?,
            _ => slf,
        };
        let messages = some.get();
        let damaged = py.detach(|| {
            let found = messages.iter().map(|(one, payload)| (one.checksum, checksum(payload)));
            found.enumerate().filter(|(_, (came, own))| came != own).map(|(at, (came, own))| (at, came, own)).collect()
        });
        Ok((some, damaged))
    }

    /// ids, payloads, flags
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.lists(py)?.try_iter().map(Bound::into_any)
    }

    /// As the same columns of the plain code are equal, or not.
    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        match other.cast::<Self>() {
            Ok(other) => self.lists(py)?.eq(other.get().lists(py)?),
            Err(_) => self.lists(py)?.eq(other),
        }
    }

    /// A copy in another process is of the plain code.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        Ok((py.import("tubeclient.wire.messages")?.getattr("Columns")?, self.lists(py)?))
    }
}

/// CRC-32 without its sign bit, as brokers store it.
pub fn checksum(payload: &[u8]) -> i32 {
    (crc32fast::hash(payload) & 0x7FFF_FFFF) as i32
}

/// The messages of a `GetMessageResponseB2C`, the bytes `start` to `end` of `stream`, and the bytes of all its other
/// fields. None if it is not written as protobuf writes it.
#[pyfunction]
pub fn take_messages(
    py: Python<'_>,
    stream: PyBackedBytes,
    start: usize,
    end: usize,
) -> Option<(Bound<'_, PyBytes>, Messages)> {
    if start > end || end > stream.len() {
        return None;
    }
    let Answer { messages, rest } = py.detach(|| read_answer(&stream, start..end))?;
    let count = messages.len();
    let messages = Messages { stream: Arc::new(stream), all: Arc::new(messages), count, ids: PyOnceLock::new() };
    Some((PyBytes::new(py, &rest), messages))
}
