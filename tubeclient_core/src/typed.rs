//! Typed records: texts of a format to one column of structs. tubeclient.records has the rules.

use std::collections::HashMap;
use std::mem::take;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::cells::{Cells, Column, Patterns, Struct};
use crate::changes::{Rules, rows};
use crate::columns::Columns;
use crate::fields::Marks;
use crate::json::Json;
use crate::times::{Pattern, Zone};
use crate::values::{Meaning, read_struct};

const OFFSET_BYTES: usize = 4;

enum Format {
    Json,
    Csv(Marks),
    Kv(Marks),
    Debezium(Rules),
    Canal(Rules),
}

/// Reads records of one format and schema. A record that is not written as usual, or not good, is not its own: the
/// plain code decides.
#[pyclass(frozen, module = "tubeclient_core")]
pub struct RecordReader {
    format: Format,
    /// The column of records, without any.
    empty: Column,
    offset_s: Option<Py<PyAny>>,
    /// Offsets that were asked for.
    known: Mutex<HashMap<i64, Option<i64>>>,
}

#[pymethods]
impl RecordReader {
    #[new]
    fn new(
        kind: &str,
        fields: Vec<Bound<'_, PyAny>>,
        patterns: HashMap<String, Pattern>,
        offset_s: Option<Py<PyAny>>,
        more: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let format = match kind {
            "json" => Format::Json,
            "csv" => Format::Csv(more.extract()?),
            "kv" => Format::Kv(more.extract()?),
            "debezium-json" => Format::Debezium(more.extract()?),
            "canal-json" => Format::Canal(more.extract()?),
            _ => return Err(PyValueError::new_err(format!("there is no format {kind}"))),
        };
        let patterns: Patterns = patterns.into_iter().map(|(of, one)| (of, Arc::new(one))).collect();
        let columns = fields.iter().map(|one| Column::of(one, &patterns)).collect::<PyResult<_>>()?;
        let empty = match format {
            Format::Debezium(_) | Format::Canal(_) => rows(columns),
            _ => Column::new("records", true, Cells::Struct(Struct::of(columns))),
        };
        Ok(Self { format, empty, offset_s, known: Mutex::default() })
    }

    /// The records between the offsets, null where they are not ours, and the indexes of those.
    fn decode(&self, py: Python<'_>, data: PyBackedBytes, offsets: PyBackedBytes) -> PyResult<(Columns, Vec<usize>)> {
        let ask = self.offset_s.as_ref().map(|ask| ask.clone_ref(py));
        py.detach(|| {
            // Another thread may know others meanwhile; what is known is no more than what need not be asked again.
            let known = take(&mut *self.known.lock().unwrap_or_else(PoisonError::into_inner));
            let mut meaning = Meaning::new(Zone::of(ask, known), matches!(self.empty.cells, Cells::List(..)));
            let decoded = self.read(&data, &offsets, &mut meaning);
            *self.known.lock().unwrap_or_else(PoisonError::into_inner) = meaning.zone.known();
            decoded
        })
    }
}

impl RecordReader {
    fn read(&self, data: &[u8], offsets: &[u8], meaning: &mut Meaning) -> PyResult<(Columns, Vec<usize>)> {
        let ends = offsets.chunks_exact(OFFSET_BYTES).filter_map(|bytes| bytes.try_into().ok()).map(i32::from_le_bytes);
        let ends: Vec<usize> = ends.map(|end| usize::try_from(end).unwrap_or(usize::MAX)).collect();
        let (mut records, mut declined) = (self.empty.clone(), Vec::new());
        for (row, place) in ends.windows(2).enumerate() {
            let bytes = data.get(place[0]..place[1]).ok_or_else(|| PyValueError::new_err("an offset is beyond"))?;
            let text = std::str::from_utf8(bytes).ok();
            if text.and_then(|text| self.put(text, row, &mut records, meaning)).is_none() {
                if let Some(error) = meaning.zone.error.take() {
                    return Err(error);
                }
                records.cut(row);
                records.nothing();
                declined.push(row);
            }
        }
        let records = records.array().map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((Columns::of(vec![("records", records)])?, declined))
    }

    fn put(&self, text: &str, row: usize, records: &mut Column, meaning: &mut Meaning) -> Option<()> {
        meaning.begin(text)?;
        match (&self.format, &mut records.cells) {
            (Format::Json, Cells::Struct(all)) => {
                let mut json = Json::of(text);
                read_struct(&mut json, all, row, meaning)?;
                json.end()?;
            }
            (Format::Csv(marks), Cells::Struct(all)) => marks.read_csv(text, all, row, meaning)?,
            (Format::Kv(marks), Cells::Struct(all)) => marks.read_kv(text, all, row, meaning)?,
            (Format::Debezium(rules), Cells::List(ends, items)) => {
                rules.read_debezium(text, items, meaning)?;
                ends.push(i32::try_from(items.len()).ok()?);
            }
            (Format::Canal(rules), Cells::List(ends, items)) => {
                rules.read_canal(text, items, meaning)?;
                ends.push(i32::try_from(items.len()).ok()?);
            }
            _ => return None,
        }
        records.present.push(true);
        Some(())
    }
}
