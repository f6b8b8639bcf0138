//! Records of messages, as columns. tubeclient.inlong.records has the rules.

use std::collections::HashMap;
use std::iter::repeat_n;
use std::mem::take;
use std::sync::Arc;

use arrow_array::types::{BinaryType, ByteArrayType, Utf8Type};
use arrow_array::{Array, ArrayRef, GenericByteArray, Int32Array, Int64Array, MapArray, StructArray};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::{ArrowError, Field, Fields};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyDict, PyString};

use crate::columns::{Columns, offsets};
use crate::objects::read_objects;
use crate::packs::{has_magic, millis, read_pack};

/// What a record takes besides its body and what it has from its message, and a pair of texts besides the texts.
const RECORD_BYTES: usize = 64;
const PAIR_BYTES: usize = 8;

/// What a message may hold: bytes unpacked, records, bytes that its records repeat. Then the size of columns that is
/// enough.
#[derive(Clone, Copy, FromPyObject)]
pub struct Limits(pub usize, pub usize, usize, usize);

pub type Pair<'a> = (&'a str, &'a str);
/// Group, stream, time.
type Origin<T> = (Option<T>, Option<T>, Option<i64>);
/// Of the plain code: origin, attributes, bodies.
type Segment = (Origin<PyBackedStr>, Vec<(PyBackedStr, PyBackedStr)>, Vec<PyBackedBytes>);

enum Wrapping {
    Raw,
    Objects,
    Pack,
}

/// What a message's own attributes say. `more` is the time of a single record, the compression of a protobuf pack.
pub struct Own {
    wrapping: Wrapping,
    pub group: Option<PyBackedStr>,
    pub stream: Option<PyBackedStr>,
    pub more: Option<PyBackedStr>,
}

impl Own {
    /// None: the plain code knows what is wrong.
    fn of(attributes: &Bound<'_, PyAny>, pack: &[u8], auto: bool) -> Option<Self> {
        let (py, all) = (attributes.py(), attributes.cast::<PyDict>().ok()?);
        let find = |name: &Bound<'_, PyString>| -> Option<Option<PyBackedStr>> {
            match all.get_item(name).ok()? {
                Some(text) => Some(Some(text.extract().ok()?)),
                None => Some(None),
            }
        };
        let (encoding, group) = (find(intern!(py, "msgEnType"))?, find(intern!(py, "inlongGroupId"))?);
        let dataproxys = !auto || encoding.is_some() || group.is_some();
        let named = if dataproxys { find(intern!(py, "version"))?.or(encoding) } else { None };
        let wrapping = match named.as_deref() {
            Some("0") => Wrapping::Raw,
            Some("1") => Wrapping::Objects,
            Some("2") => Wrapping::Pack,
            Some(_) => return None,
            None if auto && !has_magic(pack) => Wrapping::Raw,
            None => Wrapping::Pack,
        };
        let more = match wrapping {
            Wrapping::Raw => find(intern!(py, "msgTime"))?,
            Wrapping::Objects => find(intern!(py, "compressType"))?,
            Wrapping::Pack => None,
        };
        Some(Self { wrapping, group, stream: find(intern!(py, "inlongStreamId"))?, more })
    }
}

/// Gives the milliseconds of a time as text; asks Python once for each text. None: it is no time, or Python raised.
pub struct Times {
    time_ms: Py<PyAny>,
    known: HashMap<String, Option<i64>>,
    error: Option<PyErr>,
}

impl Times {
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

/// The records of messages: body, attributes, and what the caller repeats of the message in each record, in bytes. Gives
/// how many messages these are; of each record its message (from `first` on), its index there, its segment and its body;
/// of segments group, stream, time and attributes. Ends after the message with which the columns have their size.
///
/// `time_ms` gives the time of a text, or None. `plain` gives the segments, one by one, of the message with that number, which is not
/// written as usual, or past a limit; None: it is bad, and has no record.
#[pyfunction]
pub fn take_records(
    py: Python<'_>,
    messages: Vec<(PyBackedBytes, Bound<'_, PyAny>, usize)>,
    first: usize,
    auto: bool,
    limits: Limits,
    time_ms: Py<PyAny>,
    plain: Py<PyAny>,
) -> PyResult<(usize, Columns, Columns)> {
    let known = |(pack, attributes, repeated): (PyBackedBytes, Bound<'_, PyAny>, usize)| {
        let own = Own::of(&attributes, &pack, auto);
        (pack, own, repeated)
    };
    let messages: Vec<_> = messages.into_iter().map(known).collect();
    py.detach(|| {
        let mut found = Records { most: limits.2, ..Records::default() };
        let mut times = Times { time_ms, known: HashMap::new(), error: None };
        let mut count = 0;
        for (pack, own, repeated) in &messages {
            let number = first + count;
            found.begin(i32::try_from(number)?, *repeated);
            if own.as_ref().and_then(|own| read(pack, own, limits, &mut times, &mut found)).is_none() {
                found.cut();
                if let Some(error) = times.error.take() {
                    return Err(error);
                }
                Python::attach(|py| {
                    let segments: Option<Bound<'_, PyAny>> = plain.call1(py, (number,))?.extract(py)?;
                    let Some(segments) = segments else { return Ok(()) };
                    for one in segments.try_iter()? {
                        let added = found.add(&one?.extract()?);
                        added.ok_or_else(|| PyValueError::new_err("columns of more than 2 GiB"))?;
                    }
                    Ok::<_, PyErr>(())
                })?;
            }
            count += 1;
            if found.end() >= limits.3 {
                break;
            }
        }
        let (records, segments) = found.columns()?;
        Ok((count, records, segments))
    })
}

fn read(pack: &[u8], own: &Own, limits: Limits, times: &mut Times, found: &mut Records) -> Option<()> {
    match own.wrapping {
        Wrapping::Pack => read_pack(pack, own, limits, times, found),
        Wrapping::Objects => read_objects(pack, own, limits, found),
        Wrapping::Raw => {
            found.body(pack)?;
            if own.group.is_none() {
                return found.segment((None, None, None), &[]);
            }
            let time_ms = match own.more.as_deref() {
                Some(text) => Some(millis(text)?),
                None => None,
            };
            found.segment((own.group.as_deref(), own.stream.as_deref(), time_ms), &[])
        }
    }
}

/// A column of bytes or texts.
#[derive(Clone, Default)]
pub struct Values {
    ends: Vec<i32>,
    bytes: Vec<u8>,
    /// Empty if all are there.
    present: Vec<bool>,
}

impl Values {
    pub fn push(&mut self, value: &[u8]) -> Option<()> {
        self.bytes.extend_from_slice(value);
        self.ends.push(i32::try_from(self.bytes.len()).ok()?);
        Some(())
    }

    /// An empty one.
    pub fn push_empty(&mut self) {
        self.ends.push(self.ends.last().copied().unwrap_or(0));
    }

    fn push_option(&mut self, text: Option<&str>) -> Option<()> {
        self.present.push(text.is_some());
        self.push(text.unwrap_or_default().as_bytes())
    }

    pub fn cut(&mut self, count: usize) {
        self.ends.truncate(count);
        self.present.truncate(count);
        self.bytes.truncate(self.ends.last().map_or(0, |&end| end as usize));
    }

    fn column<T: ByteArrayType<Offset = i32>>(mut self) -> Result<ArrayRef, ArrowError> {
        let nulls = (!self.present.is_empty()).then(|| NullBuffer::from(take(&mut self.present)));
        self.array::<T>(nulls)
    }

    pub fn array<T: ByteArrayType<Offset = i32>>(self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let values = Buffer::from_vec(self.bytes);
        Ok(Arc::new(GenericByteArray::<T>::try_new(offsets(self.ends), values, nulls)?))
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
    /// How much a message may repeat.
    most: usize,
    number: i32,
    of_message: usize,
    /// Where this message began: records, segments.
    start: (usize, usize),
}

impl Records {
    fn begin(&mut self, number: i32, of_message: usize) {
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

    fn add(&mut self, ((group, stream, time_ms), attributes, bodies): &Segment) -> Option<()> {
        bodies.iter().try_for_each(|body| self.body(body))?;
        let attributes: Vec<Pair> = attributes.iter().map(|(key, value)| (&**key, &**value)).collect();
        self.segment((group.as_deref(), stream.as_deref(), *time_ms), &attributes)
    }

    /// Takes away what the message put.
    fn cut(&mut self) {
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
    fn end(&mut self) -> usize {
        let start = self.start.0;
        let before = start.checked_sub(1).map_or(0, |last| self.bodies.ends[last] as usize);
        let bodies = self.bodies.bytes.len() - before;
        self.size += self.repeats + RECORD_BYTES * (self.messages.len() - start) + bodies;
        self.size
    }

    fn columns(self) -> PyResult<(Columns, Columns)> {
        let made = || -> Result<_, ArrowError> {
            let pairs = [("key", self.keys.column::<Utf8Type>()?), ("value", self.values.column::<Utf8Type>()?)];
            let fields = pairs.iter().map(|(name, one)| Field::new(*name, one.data_type().clone(), *name == "value"));
            let entries = StructArray::try_new(Fields::from_iter(fields), pairs.map(|(_, one)| one).to_vec(), None)?;
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
