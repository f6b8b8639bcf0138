//! Columns of any type while they grow. What a record put can be cut off again.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, BinaryType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimestampMicrosecondType, Utf8Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, ListArray, MapArray, PrimitiveArray, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, Field, Fields};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::columns::{Values, offsets};
use crate::json::is_bare;
use crate::times::{Pattern, Time};

/// By kinds of columns.
pub type Patterns = HashMap<String, Arc<Pattern>>;

#[derive(Clone)]
pub struct Column {
    pub name: String,
    /// Whether it is NOT NULL.
    required: bool,
    pub present: Vec<bool>,
    pub cells: Cells,
}

/// The values, with the least of a type where there is none.
#[derive(Clone)]
pub enum Cells {
    Bool(Vec<bool>),
    Whole(Vec<i64>, Whole),
    Time(Vec<i64>, Time, Option<Arc<Pattern>>),
    /// Whether it is rounded to 32 bits.
    Float(Vec<f64>, bool),
    /// Precision and scale.
    Decimal(Vec<i128>, u8, i8),
    Text(Values, Text),
    List(Vec<i32>, Box<Column>),
    /// The entries are a struct of two columns.
    Map(Vec<i32>, Box<Column>),
    Struct(Struct),
}

#[derive(Clone, Copy, PartialEq)]
pub enum Whole {
    Int8,
    Int16,
    Int32,
    Int64,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Text {
    String,
    Binary,
    Variant,
    /// JSON of what no other column takes. It is the last one, and no field's.
    Rescued,
}

#[derive(Clone)]
pub struct Struct {
    pub columns: Vec<Column>,
    places: HashMap<String, usize>,
}

impl Struct {
    pub fn of(columns: Vec<Column>) -> Self {
        let named = columns.iter().enumerate().filter(|(_, one)| !one.is_rescued());
        let places = named.map(|(at, one)| (one.name.clone(), at)).collect();
        Self { columns, places }
    }

    fn rescued(&mut self) -> Option<(&mut Vec<bool>, &mut Values)> {
        match self.columns.last_mut() {
            Some(Column { present, cells: Cells::Text(values, Text::Rescued), .. }) => Some((present, values)),
            _ => None,
        }
    }

    pub fn rescues(&self) -> bool {
        self.columns.last().is_some_and(Column::is_rescued)
    }

    /// Adds a field that no column has, its value in JSON. None: it has no column, or its name needs escapes.
    pub fn rescue(&mut self, name: &str, value: &str) -> Option<()> {
        let (_, values) = self.rescued()?;
        let open = if values.is_begun() { ",\"" } else { "{\"" };
        is_bare(name).then(|| [open, name, "\":", value].iter().for_each(|part| values.begin(part.as_bytes())))
    }

    /// Where the column of a name is. Mostly it is `next`, behind the one that was found before.
    pub fn place(&self, name: &str, next: &mut usize) -> Option<usize> {
        let at = match self.columns.get(*next) {
            Some(one) if *next < self.places.len() && one.name == name => *next,
            _ => *self.places.get(name)?,
        };
        *next = at + 1;
        Some(at)
    }

    pub fn find(&mut self, name: &str, next: &mut usize) -> Option<&mut Column> {
        let at = self.place(name, next)?;
        self.columns.get_mut(at)
    }

    /// Puts nulls where the columns have no value with number `row` yet.
    pub fn fill(&mut self, row: usize) -> Option<()> {
        if let Some((present, values)) = self.rescued()
            && values.is_begun()
        {
            values.push(b"}")?;
            present.push(true);
        }
        self.columns.iter_mut().filter(|one| one.len() <= row).try_for_each(Column::null)
    }
}

impl Column {
    pub fn new(name: &str, required: bool, cells: Cells) -> Self {
        Self { name: name.to_owned(), required, present: Vec::new(), cells }
    }

    /// The column of a `Field` of __init__.pyi.
    pub fn of(plan: &Bound<'_, PyAny>, patterns: &Patterns) -> PyResult<Self> {
        let (name, required, kind, size, parts): (String, bool, String, Vec<u8>, Vec<Bound<'_, PyAny>>) =
            plan.extract()?;
        let columns = parts.iter().map(|one| Self::of(one, patterns)).collect::<PyResult<Vec<_>>>()?;
        let time = |of| Cells::Time(Vec::new(), of, patterns.get(&kind).cloned());
        let cells = match (&*kind, &*size) {
            ("bool", []) => Cells::Bool(Vec::new()),
            ("int", [8]) => Cells::Whole(Vec::new(), Whole::Int8),
            ("int", [16]) => Cells::Whole(Vec::new(), Whole::Int16),
            ("int", [32]) => Cells::Whole(Vec::new(), Whole::Int32),
            ("int", [64]) => Cells::Whole(Vec::new(), Whole::Int64),
            ("float", [bits]) => Cells::Float(Vec::new(), *bits == 32),
            ("decimal", &[precision, scale]) => Cells::Decimal(Vec::new(), precision, scale as i8),
            ("string", []) => Cells::Text(Values::default(), Text::String),
            ("binary", []) => Cells::Text(Values::default(), Text::Binary),
            ("variant", []) => Cells::Text(Values::default(), Text::Variant),
            ("rescued", []) => Cells::Text(Values::default(), Text::Rescued),
            ("date", []) => time(Time::Date),
            ("timestamp", []) => time(Time::Timestamp),
            ("timestamp_ntz", []) => time(Time::Local),
            ("list", []) => {
                let [item] = parts_of(columns)?;
                Cells::List(Vec::new(), Box::new(Self { name: "item".to_owned(), ..item }))
            }
            ("map", []) => {
                let [key, value] = parts_of(columns)?;
                let pair = vec![Self::new("key", true, key.cells), Self { name: "value".to_owned(), ..value }];
                Cells::Map(Vec::new(), Box::new(Self::new("entries", true, Cells::Struct(Struct::of(pair)))))
            }
            ("struct", []) => Cells::Struct(Struct::of(columns)),
            _ => return Err(PyValueError::new_err(format!("there is no kind {kind} of size {size:?}"))),
        };
        Ok(Self::new(&name, required, cells))
    }

    pub fn len(&self) -> usize {
        self.present.len()
    }

    fn is_rescued(&self) -> bool {
        matches!(self.cells, Cells::Text(_, Text::Rescued))
    }

    /// How many values a value of the column holds, with itself and without elements of lists.
    pub fn width(&self) -> usize {
        match &self.cells {
            Cells::Struct(all) => 1 + all.columns.iter().map(Self::width).sum::<usize>(),
            _ => 1,
        }
    }

    /// A null, where one may be.
    pub fn null(&mut self) -> Option<()> {
        (!self.required).then(|| self.nothing())
    }

    /// A null within one, or where one may be.
    pub fn nothing(&mut self) {
        self.present.push(false);
        match &mut self.cells {
            Cells::Bool(values) => values.push(false),
            Cells::Whole(values, _) | Cells::Time(values, ..) => values.push(0),
            Cells::Float(values, _) => values.push(0.0),
            Cells::Decimal(values, ..) => values.push(0),
            Cells::Text(values, _) => values.push_empty(),
            Cells::List(ends, _) | Cells::Map(ends, _) => ends.push(ends.last().copied().unwrap_or(0)),
            Cells::Struct(all) => all.columns.iter_mut().for_each(Self::nothing),
        }
    }

    /// None: it is no such column, or too long.
    pub fn put_whole(&mut self, value: Option<i64>) -> Option<()> {
        let Some(value) = value else { return self.null() };
        let Cells::Whole(values, _) = &mut self.cells else { return None };
        values.push(value);
        self.present.push(true);
        Some(())
    }

    pub fn put_text(&mut self, value: Option<&str>) -> Option<()> {
        let Some(value) = value else { return self.null() };
        let Cells::Text(values, _) = &mut self.cells else { return None };
        values.push(value.as_bytes())?;
        self.present.push(true);
        Some(())
    }

    pub fn put_list<T>(&mut self, all: Option<&Vec<T>>, put: impl Fn(&mut Self, &T) -> Option<()>) -> Option<()> {
        let Some(all) = all else { return self.null() };
        let Cells::List(ends, items) = &mut self.cells else { return None };
        all.iter().try_for_each(|one| put(items, one))?;
        ends.push(i32::try_from(items.len()).ok()?);
        self.present.push(true);
        Some(())
    }

    /// Takes away what is behind the first `count` values, also the parts of one that is not whole.
    pub fn cut(&mut self, count: usize) {
        self.present.truncate(count);
        match &mut self.cells {
            Cells::Bool(values) => values.truncate(count),
            Cells::Whole(values, _) | Cells::Time(values, ..) => values.truncate(count),
            Cells::Float(values, _) => values.truncate(count),
            Cells::Decimal(values, ..) => values.truncate(count),
            Cells::Text(values, _) => values.cut(count),
            Cells::List(ends, items) | Cells::Map(ends, items) => {
                ends.truncate(count);
                items.cut(ends.last().map_or(0, |&end| end as usize));
            }
            Cells::Struct(all) => all.columns.iter_mut().for_each(|one| one.cut(count)),
        }
    }

    pub fn array(self) -> Result<ArrayRef, ArrowError> {
        let count = self.present.len();
        let nulls = self.present.contains(&false).then(|| NullBuffer::from(self.present));
        Ok(match self.cells {
            Cells::Bool(values) => Arc::new(BooleanArray::new(values.into(), nulls)),
            Cells::Whole(values, Whole::Int8) => primitive::<Int8Type>(values.into_iter().map(|one| one as i8), nulls)?,
            Cells::Whole(values, Whole::Int16) => {
                primitive::<Int16Type>(values.into_iter().map(|one| one as i16), nulls)?
            }
            Cells::Whole(values, Whole::Int32) => {
                primitive::<Int32Type>(values.into_iter().map(|one| one as i32), nulls)?
            }
            Cells::Whole(values, Whole::Int64) => primitive::<Int64Type>(values, nulls)?,
            Cells::Time(values, Time::Date, _) => {
                primitive::<Date32Type>(values.into_iter().map(|one| one as i32), nulls)?
            }
            Cells::Time(values, kind, _) => {
                let times = PrimitiveArray::<TimestampMicrosecondType>::try_new(values.into(), nulls)?;
                Arc::new(if kind == Time::Timestamp { times.with_timezone("UTC") } else { times })
            }
            Cells::Float(values, true) => primitive::<Float32Type>(values.into_iter().map(|one| one as f32), nulls)?,
            Cells::Float(values, false) => primitive::<Float64Type>(values, nulls)?,
            Cells::Decimal(values, precision, scale) => {
                let values = PrimitiveArray::<Decimal128Type>::try_new(values.into(), nulls)?;
                Arc::new(values.with_precision_and_scale(precision, scale)?)
            }
            Cells::Text(values, Text::Binary) => values.array::<BinaryType>(nulls)?,
            Cells::Text(values, _) => values.array::<Utf8Type>(nulls)?,
            Cells::List(ends, items) => {
                let (field, items) = items.pair()?;
                Arc::new(ListArray::try_new(Arc::new(field), offsets(ends), items, nulls)?)
            }
            Cells::Map(ends, items) => {
                let (field, items) = items.pair()?;
                let entries = StructArray::from(items.to_data());
                Arc::new(MapArray::try_new(Arc::new(field), offsets(ends), entries, nulls, false)?)
            }
            Cells::Struct(all) => {
                let pairs = all.columns.into_iter().map(Self::pair).collect::<Result<Vec<_>, _>>()?;
                let (fields, arrays): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
                Arc::new(StructArray::try_new_with_length(Fields::from(fields), arrays, nulls, count)?)
            }
        })
    }

    fn pair(self) -> Result<(Field, ArrayRef), ArrowError> {
        let (name, required) = (self.name.clone(), self.required);
        let array = self.array()?;
        Ok((Field::new(name, array.data_type().clone(), !required), array))
    }
}

fn parts_of<const N: usize>(columns: Vec<Column>) -> PyResult<[Column; N]> {
    columns.try_into().map_err(|_| PyValueError::new_err(format!("it must have {N} parts")))
}

fn primitive<T: ArrowPrimitiveType>(
    values: impl IntoIterator<Item = T::Native>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    Ok(Arc::new(PrimitiveArray::<T>::try_new(values.into_iter().collect(), nulls)?))
}
