//! Messages to Arrow columns: id, tag, time, value, attributes.

use std::collections::HashMap;
use std::mem::take;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::builder::{Int64Builder, MapBuilder, StringBuilder};
use arrow_array::ffi::to_ffi;
use arrow_array::types::ByteArrayType;
use arrow_array::{Array, ArrayRef, BinaryArray, GenericByteArray, Int64Array, StructArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, Field, Fields};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyString, PyTuple};

use crate::messages::Messages;

const ATTRIBUTE_FLAG: i32 = 1;
const LENGTH_BYTES: usize = 4;
const TAG_KEY: &str = "$msgType$";
const TIME_KEY: &str = "$msgTime$";
/// Of texts with more attributes the plain code takes care: here a repeated key is found by looking at all.
const MOST_ATTRIBUTES: usize = 64;
const KNOWN_TIMES: usize = 4096;

/// Columns of one length, for Arrow's `PyCapsule` interface.
#[pyclass(frozen, module = "tubeclient_core")]
pub struct Columns(StructArray);

#[pymethods]
impl Columns {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema; // a consumer casts if it wants other types
        let (array, schema) = to_ffi(&self.0.to_data()).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let schema = PyCapsule::new_with_value(py, schema, c"arrow_schema")?;
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        PyTuple::new(py, [schema, array])
    }
}

impl Columns {
    pub fn of(columns: Vec<(&str, ArrayRef)>) -> PyResult<Self> {
        let fields: Fields =
            columns.iter().map(|(name, one)| Field::new(*name, one.data_type().clone(), true)).collect();
        let arrays = columns.into_iter().map(|(_, one)| one).collect();
        let whole = StructArray::try_new(fields, arrays, None);
        whole.map(Self).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// A column of bytes or texts.
#[derive(Clone, Default)]
pub struct Values {
    pub ends: Vec<i32>,
    pub bytes: Vec<u8>,
    /// Empty if all are there.
    present: Vec<bool>,
}

impl Values {
    pub fn push(&mut self, value: &[u8]) -> Option<()> {
        self.bytes.extend_from_slice(value);
        self.ends.push(i32::try_from(self.bytes.len()).ok()?);
        Some(())
    }

    /// Puts a part of a value. The next `push` ends it, and `cut` takes it away.
    pub fn begin(&mut self, part: &[u8]) {
        self.bytes.extend_from_slice(part);
    }

    pub fn is_begun(&self) -> bool {
        self.bytes.len() > self.ends.last().map_or(0, |&end| end as usize)
    }

    /// An empty one.
    pub fn push_empty(&mut self) {
        self.ends.push(self.ends.last().copied().unwrap_or(0));
    }

    pub fn push_option(&mut self, text: Option<&str>) -> Option<()> {
        self.present.push(text.is_some());
        self.push(text.unwrap_or_default().as_bytes())
    }

    pub fn cut(&mut self, count: usize) {
        self.ends.truncate(count);
        self.present.truncate(count);
        self.bytes.truncate(self.ends.last().map_or(0, |&end| end as usize));
    }

    pub fn column<T: ByteArrayType<Offset = i32>>(mut self) -> Result<ArrayRef, ArrowError> {
        let nulls = (!self.present.is_empty()).then(|| NullBuffer::from(take(&mut self.present)));
        self.array::<T>(nulls)
    }

    pub fn array<T: ByteArrayType<Offset = i32>>(self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let values = Buffer::from_vec(self.bytes);
        Ok(Arc::new(GenericByteArray::<T>::try_new(offsets(self.ends), values, nulls)?))
    }
}

/// Arrow's offsets, by where each value ends.
pub fn offsets(mut ends: Vec<i32>) -> OffsetBuffer<i32> {
    ends.insert(0, 0);
    OffsetBuffer::new(ScalarBuffer::from(ends))
}

/// Makes columns of messages. `time_us` gives the microseconds since 1970 of a text, None if it is no time; it is
/// called once for each text, as they repeat.
#[pyclass(frozen, module = "tubeclient_core")]
pub struct Texts {
    time_us: Py<PyAny>,
    known: Mutex<HashMap<String, Option<i64>>>,
}

#[pymethods]
impl Texts {
    #[new]
    fn new(time_us: Py<PyAny>) -> Self {
        Self { time_us, known: Mutex::default() }
    }

    /// The columns id, tag, `time_us`, value, and attributes if they are wanted, of the messages of several answers. None
    /// if the attributes of one are not written as clients write them.
    fn columns(&self, py: Python<'_>, packs: Vec<Py<Messages>>, with_attributes: bool) -> PyResult<Option<Columns>> {
        py.detach(|| {
            let packs: Vec<&Messages> = packs.iter().map(Py::get).collect();
            self.build(&packs, with_attributes)
        })
    }
}

impl Texts {
    fn build(&self, packs: &[&Messages], with_attributes: bool) -> PyResult<Option<Columns>> {
        let rows: usize = packs.iter().map(|one| one.count()).sum();
        let bytes: usize = packs.iter().map(|one| one.bytes()).sum();
        if i32::try_from(bytes).is_err() {
            return Ok(None);
        }
        let mut ids = Vec::with_capacity(rows);
        let mut ends = Vec::with_capacity(rows + 1);
        let mut values = Vec::with_capacity(bytes);
        let mut tags = StringBuilder::with_capacity(rows, 0);
        let mut times = Int64Builder::with_capacity(rows);
        let mut maps = with_attributes.then(|| MapBuilder::new(None, StringBuilder::new(), StringBuilder::new()));
        for (message, payload) in packs.iter().flat_map(|one| one.iter()) {
            let mut found = Attributes::default();
            let mut body = payload;
            if message.flag & ATTRIBUTE_FLAG != 0 {
                let Some((text, rest)) = split(payload) else { return Ok(None) };
                let Some(parsed) = Attributes::of(text) else { return Ok(None) };
                (found, body) = (parsed, rest);
            }
            ids.push(message.id);
            values.extend_from_slice(body);
            ends.push(values.len() as i32);
            tags.append_option((!found.tag.is_empty()).then_some(found.tag));
            times.append_option(if found.time.is_empty() { None } else { self.time(found.time)? });
            if let Some(maps) = &mut maps {
                for (key, value) in found.others {
                    maps.keys().append_value(key);
                    maps.values().append_value(value);
                }
                maps.append(true).map_err(|error| PyValueError::new_err(error.to_string()))?;
            }
        }
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            ("id", Arc::new(Int64Array::from(ids))),
            ("tag", Arc::new(tags.finish())),
            ("time_us", Arc::new(times.finish())),
            ("value", Arc::new(BinaryArray::new(offsets(ends), Buffer::from_vec(values), None))),
        ];
        if let Some(mut maps) = maps {
            columns.push(("attributes", Arc::new(maps.finish())));
        }
        Columns::of(columns).map(Some)
    }

    fn time(&self, text: &str) -> PyResult<Option<i64>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&time) = known.get(text) {
            return Ok(time);
        }
        let time = Python::attach(|py| self.time_us.call1(py, (PyString::new(py, text),))?.extract(py))?;
        if known.len() >= KNOWN_TIMES {
            known.clear();
        }
        known.insert(text.to_owned(), time);
        Ok(time)
    }
}

/// Attribute text and body of a payload that has both.
fn split(payload: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = payload.split_first_chunk::<LENGTH_BYTES>()?;
    let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
    let (text, body) = rest.split_at_checked(length)?;
    Some((std::str::from_utf8(text).ok()?, body))
}

/// TubeMQ's own attributes, "" where there is none, and the others in their order.
#[derive(Default)]
struct Attributes<'a> {
    tag: &'a str,
    time: &'a str,
    others: Vec<(&'a str, &'a str)>,
}

impl<'a> Attributes<'a> {
    /// As `tubeclient.wire.payload.parse_attributes`: empty values of a repeated key do not count; the last one of
    /// TubeMQ's own does, and the first of others.
    fn of(text: &'a str) -> Option<Self> {
        let mut found = Self::default();
        for piece in text.split(',').filter(|piece| !piece.is_empty()) {
            let (key, value) = piece.split_once('=').unwrap_or((piece, ""));
            match key {
                TAG_KEY if !value.is_empty() => found.tag = value,
                TIME_KEY if !value.is_empty() => found.time = value,
                TAG_KEY | TIME_KEY => (),
                _ => match found.others.iter().position(|(known, _)| *known == key) {
                    Some(at) if found.others[at].1.is_empty() => found.others[at].1 = value,
                    Some(_) => (),
                    None if found.others.len() < MOST_ATTRIBUTES => found.others.push((key, value)),
                    None => return None,
                },
            }
        }
        Some(found)
    }
}
