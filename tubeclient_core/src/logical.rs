//! Values that an envelope's schema of Debezium's gives a meaning: days, pieces of a second, bytes of decimals.
//! `tubeclient.records.logical_types` has the rules.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;

use crate::cells::{Cells, Column};
use crate::json::{Json, Node};
use crate::numbers::{base64, scaled};
use crate::times::{DAYS, Time, Written};
use crate::values::{Meaning, read_node};

const KNOWN_SCHEMAS: usize = 100;
/// Of a decimal.
const MOST_SCALE: i64 = 100;

/// By a row's columns.
pub type Types = HashMap<String, Logical>;

pub enum Logical {
    /// The JSON says all.
    None,
    Date,
    /// Pieces in a second.
    Moment(i64),
    /// Scale.
    Decimal(i32),
    Other,
}

/// Asks Python for the types of a schema's text, once each. None: it has some that are not ours.
pub struct Schemas {
    ask: Py<PyAny>,
    known: Mutex<HashMap<String, Option<Arc<Types>>>>,
}

impl<'a, 'py> FromPyObject<'a, 'py> for Schemas {
    type Error = PyErr;

    fn extract(ask: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self { ask: ask.to_owned().unbind(), known: Mutex::default() })
    }
}

impl Schemas {
    pub fn types(&self, schema: &str, meaning: &mut Meaning) -> Option<Arc<Types>> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(types) = known().get(schema) {
            return types.clone();
        }
        let asked: PyResult<Option<HashMap<String, (String, i64)>>> =
            Python::attach(|py| self.ask.call1(py, (schema,))?.extract(py));
        let found = asked.unwrap_or_else(|error| {
            meaning.zone.error = Some(error);
            None
        });
        let types =
            found.map(|found| Arc::new(found.into_iter().map(|(name, one)| (name, Logical::of(one))).collect()));
        let mut known = known();
        if known.len() >= KNOWN_SCHEMAS {
            known.clear();
        }
        known.insert(schema.to_owned(), types.clone());
        types
    }
}

impl Logical {
    fn of((kind, size): (String, i64)) -> Self {
        match &*kind {
            "date" => Self::Date,
            "moment" if size > 0 => Self::Moment(size),
            "decimal" if size.abs() <= MOST_SCALE => Self::Decimal(size as i32),
            _ => Self::Other,
        }
    }

    /// Puts the value of `json`'s newest node.
    pub fn read(&self, node: &Node<'_>, json: &mut Json<'_>, column: &mut Column, meaning: &mut Meaning) -> Option<()> {
        match (self, node, &mut column.cells) {
            (_, Node::Null, _) => return column.null(),
            (Self::None, ..)
            | (
                Self::Date | Self::Moment(_),
                Node::Number(_),
                Cells::Whole(..) | Cells::Float(..) | Cells::Decimal(..),
            ) => return read_node(node, json, column, meaning),
            (Self::Date, Node::Number(digits), Cells::Time(values, Time::Date, _)) => {
                values.push(digits.parse().ok().filter(|day| DAYS.contains(day))?);
            }
            (Self::Moment(pieces), Node::Number(digits), Cells::Time(values, kind, _)) => {
                let written = Written::of_pieces(digits.parse().ok()?, *pieces)?;
                values.push(written.value(*kind, &mut meaning.zone)?);
            }
            (Self::Decimal(own), Node::Text(text), Cells::Decimal(values, precision, scale)) => {
                let bytes = base64(text).filter(|bytes| (1..=16).contains(&bytes.len()))?;
                let sign = if bytes.first()? & 0x80 == 0 { 0 } else { u8::MAX };
                let mut number = [sign; 16];
                number.get_mut(16 - bytes.len()..)?.copy_from_slice(&bytes);
                values.push(scaled(i128::from_be_bytes(number), i32::from(*scale) - own, *precision, true)?);
            }
            _ => return None,
        }
        column.present.push(true);
        Some(())
    }
}
