//! Records of messages while they grow, as columns: what packs put.

use std::collections::HashMap;
use std::iter::repeat_n;
use std::sync::Arc;

use arrow_array::types::{BinaryType, Utf8Type};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, MapArray, StructArray};
use arrow_schema::{ArrowError, Field, Fields};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};

use crate::columns::{Columns, Values, offsets};

/// What a record takes besides its body and what it has from its message, and a pair of texts besides the texts.
const RECORD_BYTES: usize = 64;
const PAIR_BYTES: usize = 8;

/// What a message may hold: bytes unpacked, records, bytes that its records repeat. Then the size of columns that is
/// enough.
#[derive(Clone, Copy, FromPyObject)]
pub struct Limits(pub usize, pub usize, pub usize, pub usize);

pub type Pair<'a> = (&'a str, &'a str);
/// Group, stream, time.
type Origin<T> = (Option<T>, Option<T>, Option<i64>);
/// Of the plain code: origin, attributes, bodies.
type Segment = (Origin<PyBackedStr>, Vec<(PyBackedStr, PyBackedStr)>, Vec<PyBackedBytes>);

pub enum Wrapping {
    Raw,
    Objects,
    Pack,
}

/// What a message's own attributes say. `more` is the time of a single record, the compression of a protobuf pack.
pub struct Own {
    pub wrapping: Wrapping,
    pub group: Option<PyBackedStr>,
    pub stream: Option<PyBackedStr>,
    pub more: Option<PyBackedStr>,
}

/// Gives the milliseconds of a time as text; asks Python once for each text. None: it is no time, or Python raised.
pub struct Times {
    time_ms: Py<PyAny>,
    known: HashMap<String, Option<i64>>,
    pub error: Option<PyErr>,
}

impl Times {
    pub fn new(time_ms: Py<PyAny>) -> Self {
        Self { time_ms, known: HashMap::new(), error: None }
    }

    pub fn of(&mut self, text: &str) -> Option<i64> {
        if let Some(&time) = self.known.get(text) {
            return time;
        }
        let asked = Python::attach(|py| self.time_ms.call1(py, (text,))?.extract(py));
        let time = asked.unwrap_or_else(|error| {
            self.error = Some(error);
            None
        });
        self.known.insert(text.to_owned(), time);
        time
    }
}

/// Bodies are put first, then what the segment that they are has in common. What a message put can be cut off again.
#[derive(Default)]
pub struct Records {
    messages: Vec<i32>,
    indexes: Vec<i32>,
    of_segments: Vec<i32>,
    bodies: Values,
    groups: Values,
    streams: Values,
    times: Vec<Option<i64>>,
    map_ends: Vec<i32>,
    keys: Values,
    values: Values,
    /// Of all messages that ended, and of this one.
    size: usize,
    repeats: usize,
    most: usize,
    number: i32,
    of_message: usize,
    /// Where this message began: records, segments.
    start: (usize, usize),
}

impl Records {
    /// `most` is how much a message may repeat.
    pub fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    pub fn begin(&mut self, number: i32, of_message: usize) {
        self.start = (self.messages.len(), self.times.len());
        (self.number, self.of_message, self.repeats) = (number, of_message, 0);
    }

    pub fn body(&mut self, body: &[u8]) -> Option<()> {
        self.bodies.push(body)
    }

    /// Ends the segment that the bodies since the one before are. None: what the message's records have in common takes
    /// too much, or a column gets too long.
    pub fn segment(&mut self, (group, stream, time_ms): Origin<&str>, attributes: &[Pair]) -> Option<()> {
        let done = self.messages.len();
        let count = self.bodies.ends.len() - done;
        if count == 0 {
            return Some(()); // no record would have it, so no limit would hold
        }
        let characters = |text: &str| if text.is_ascii() { text.len() } else { text.chars().count() };
        let ids = characters(group.unwrap_or_default()) + characters(stream.unwrap_or_default());
        let pairs: usize = attributes.iter().map(|(key, value)| characters(key) + characters(value) + PAIR_BYTES).sum();
        let each = self.of_message.checked_add(ids + pairs)?;
        self.repeats = self.repeats.checked_add(count.checked_mul(each)?)?;
        if self.repeats > self.most {
            return None;
        }
        let index = i32::try_from(done - self.start.0).ok()?;
        self.messages.extend(repeat_n(self.number, count));
        self.indexes.extend(index..index.checked_add(i32::try_from(count).ok()?)?);
        self.of_segments.extend(repeat_n(i32::try_from(self.times.len()).ok()?, count));
        self.groups.push_option(group)?;
        self.streams.push_option(stream)?;
        self.times.push(time_ms);
        for (key, value) in attributes {
            self.keys.push(key.as_bytes())?;
            self.values.push(value.as_bytes())?;
        }
        self.map_ends.push(i32::try_from(self.keys.ends.len()).ok()?);
        Some(())
    }

    pub fn add(&mut self, ((group, stream, time_ms), attributes, bodies): &Segment) -> Option<()> {
        bodies.iter().try_for_each(|body| self.body(body))?;
        let attributes: Vec<Pair> = attributes.iter().map(|(key, value)| (&**key, &**value)).collect();
        self.segment((group.as_deref(), stream.as_deref(), *time_ms), &attributes)
    }

    /// Takes away what the message put.
    pub fn cut(&mut self) {
        let (records, segments) = self.start;
        for numbers in [&mut self.messages, &mut self.indexes, &mut self.of_segments] {
            numbers.truncate(records);
        }
        self.bodies.cut(records);
        self.groups.cut(segments);
        self.streams.cut(segments);
        self.times.truncate(segments);
        self.map_ends.truncate(segments);
        let pairs = self.map_ends.last().map_or(0, |&end| end as usize);
        self.keys.cut(pairs);
        self.values.cut(pairs);
        self.repeats = 0;
    }

    /// The size with this message, which ends.
    pub fn end(&mut self) -> usize {
        let start = self.start.0;
        let before = start.checked_sub(1).map_or(0, |last| self.bodies.ends[last] as usize);
        let bodies = self.bodies.bytes.len() - before;
        self.size += self.repeats + RECORD_BYTES * (self.messages.len() - start) + bodies;
        self.size
    }

    pub fn columns(self) -> PyResult<(Columns, Columns)> {
        let made = || -> Result<_, ArrowError> {
            let pairs = [("key", self.keys.column::<Utf8Type>()?), ("value", self.values.column::<Utf8Type>()?)];
            let fields = pairs.iter().map(|(name, one)| Field::new(*name, one.data_type().clone(), *name == "value"));
            let entries = StructArray::try_new(fields.collect::<Fields>(), pairs.map(|(_, one)| one).to_vec(), None)?;
            let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
            let records: Vec<(&str, ArrayRef)> = vec![
                ("message", Arc::new(Int32Array::from(self.messages))),
                ("index", Arc::new(Int32Array::from(self.indexes))),
                ("segment", Arc::new(Int32Array::from(self.of_segments))),
                ("body", self.bodies.column::<BinaryType>()?),
            ];
            let segments: Vec<(&str, ArrayRef)> = vec![
                ("group_id", self.groups.column::<Utf8Type>()?),
                ("stream_id", self.streams.column::<Utf8Type>()?),
                ("time_ms", Arc::new(Int64Array::from(self.times))),
                ("attributes", Arc::new(MapArray::try_new(field, offsets(self.map_ends), entries, None, false)?)),
            ];
            Ok((records, segments))
        };
        let (records, segments) = made().map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((Columns::of(records)?, Columns::of(segments)?))
    }
}
