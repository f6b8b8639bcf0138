//! Records of messages, as columns. tubeclient.inlong.records has the rules.

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyDict, PyString};

use crate::columns::Columns;
use crate::objects::read_objects;
use crate::packs::{has_magic, millis, read_pack};
use crate::record_columns::{Limits, Own, Records, Times, Wrapping};

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
        let mut found = Records::new(limits.2);
        let mut times = Times::new(time_ms);
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
