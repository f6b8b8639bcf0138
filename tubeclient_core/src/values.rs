//! A value of JSON, or a text, into a column of its type. None is "not mine", and may leave parts of the value behind.

use crate::cells::{Cells, Column, Struct, Text};
use crate::json::{Json, Node, distinct};
use crate::numbers::{base64, decimal, float, whole};
use crate::times::{Pattern, SECONDS, Time, Written, Zone};

/// How many values a record may put for each of its bytes. A short list may have many columns.
const MOST_EACH: usize = 16;
const MOST_ALWAYS: usize = 4_096;
/// Fewer than the reference allows. A text of so many bytes has no more values in it than that.
const MOST: usize = 500_000;
const MOST_BYTES: usize = 2_000_000;

/// What values mean beside their types.
pub struct Meaning {
    pub zone: Zone,
    /// As changes have it: a decimal may lose no digit, and a number is no time.
    pub exact: bool,
    /// Whether what was read had fields that no column has.
    is_part: bool,
    /// How many values the record may still put in lists and rows.
    left: usize,
}

impl Meaning {
    pub fn new(zone: Zone, exact: bool) -> Self {
        Self { zone, exact, is_part: false, left: 0 }
    }

    /// None: the record is too long.
    pub fn begin(&mut self, text: &str) -> Option<()> {
        self.is_part = false;
        self.left = text.len().saturating_mul(MOST_EACH).saturating_add(MOST_ALWAYS).min(MOST);
        (text.len() <= MOST_BYTES).then_some(())
    }

    /// None: the record has too many values.
    pub fn take(&mut self, values: usize) -> Option<()> {
        self.left = self.left.checked_sub(values)?;
        Some(())
    }
}

pub fn read_json(json: &mut Json<'_>, column: &mut Column, meaning: &mut Meaning) -> Option<()> {
    let node = json.node()?;
    read_node(&node, json, column, meaning)
}

/// Of `json`'s newest node.
pub fn read_node(node: &Node<'_>, json: &mut Json<'_>, column: &mut Column, meaning: &mut Meaning) -> Option<()> {
    let start = json.start();
    let row = column.len();
    match (node, &mut column.cells) {
        (Node::Null, _) => return column.null(),
        (Node::Bool(value), Cells::Bool(values)) => values.push(*value),
        (Node::Number(text), Cells::Whole(values, kind)) => values.push(whole(text, *kind)?),
        (Node::Number(text), Cells::Float(values, single)) => values.push(float(text, *single)?),
        (Node::Number(text), Cells::Decimal(values, precision, scale)) => {
            values.push(decimal(text, *precision, *scale, meaning.exact)?);
        }
        (Node::Number(text), Cells::Time(values, Time::Timestamp, _)) if !meaning.exact => {
            let seconds: i64 = text.parse().ok().filter(|seconds| SECONDS.contains(seconds))?;
            values.push(seconds * 1_000_000);
        }
        (Node::Text(text), Cells::Decimal(values, precision, scale)) => {
            values.push(decimal(text, *precision, *scale, meaning.exact)?);
        }
        (Node::Text(text), Cells::Time(values, kind, pattern)) => {
            values.push(time(text, *kind, pattern.as_deref(), &mut meaning.zone)?);
        }
        (Node::Text(text), Cells::Text(values, Text::String)) => values.push(text.as_bytes())?,
        (Node::Text(text), Cells::Text(values, Text::Binary)) => values.push(&base64(text)?)?,
        (_, Cells::Text(values, kind @ (Text::String | Text::Variant))) => {
            json.skip_rest(node, *kind == Text::Variant)?;
            values.push(json.slice(start)?.as_bytes())?;
        }
        (Node::List, Cells::List(ends, items)) => {
            let width = items.width();
            json.list(|json| {
                meaning.take(width)?;
                read_json(json, items, meaning)
            })?;
            ends.push(i32::try_from(items.len()).ok()?);
        }
        (Node::Object, Cells::Map(ends, items)) => {
            read_map(json, items, meaning)?;
            ends.push(i32::try_from(items.len()).ok()?);
        }
        (Node::Object, Cells::Struct(all)) => read_struct(json, all, row, meaning)?,
        _ => return None,
    }
    column.present.push(true);
    Some(())
}

/// Puts the values of an object that is there, as those with number `row`.
pub fn read_struct(json: &mut Json<'_>, all: &mut Struct, row: usize, meaning: &mut Meaning) -> Option<()> {
    let (mut next, rescues) = (0, all.rescues());
    json.object(|json, name| match all.find(&name, &mut next) {
        Some(column) if column.len() == row => {
            let mut whole = json.clone();
            read_json(json, column, meaning)?;
            if meaning.is_part && rescues {
                meaning.is_part = false;
                all.rescue(&name, whole.raw()?)?;
            }
            Some(())
        }
        Some(_) => None, // it is there twice
        None if rescues => all.rescue(&name, json.raw()?),
        None => {
            meaning.is_part = true;
            json.skip(false)
        }
    })?;
    all.fill(row)
}

fn read_map(json: &mut Json<'_>, entries: &mut Column, meaning: &mut Meaning) -> Option<()> {
    let width = entries.width();
    let mut names = Vec::new();
    let Cells::Struct(all) = &mut entries.cells else { return None };
    let [keys, values] = all.columns.as_mut_slice() else { return None };
    // Keys of other types may be equal though their texts are not.
    let Cells::Text(texts, Text::String) = &mut keys.cells else { return None };
    json.object(|json, name| {
        meaning.take(width)?;
        texts.push(name.as_bytes())?;
        keys.present.push(true);
        names.push(name);
        read_json(json, values, meaning)?;
        entries.present.push(true);
        Some(())
    })?;
    distinct(names)
}

/// A field's text, which is no null.
pub fn read_text(text: &str, column: &mut Column, meaning: &mut Meaning) -> Option<()> {
    let trimmed = text.trim_matches(' ');
    match &mut column.cells {
        Cells::Text(values, Text::String) => values.push(text.as_bytes())?,
        Cells::Bool(values) if trimmed.eq_ignore_ascii_case("true") => values.push(true),
        Cells::Bool(values) if trimmed.eq_ignore_ascii_case("false") => values.push(false),
        // MySQL's booleans are numbers.
        Cells::Bool(values) if meaning.exact && ["0", "1"].contains(&trimmed) => values.push(trimmed == "1"),
        Cells::Whole(values, kind) => values.push(whole(trimmed, *kind)?),
        Cells::Float(values, single) => values.push(float(trimmed, *single)?),
        Cells::Decimal(values, precision, scale) => {
            values.push(decimal(trimmed, *precision, *scale, meaning.exact)?);
        }
        Cells::Time(values, kind, pattern) => {
            values.push(time(trimmed, *kind, pattern.as_deref(), &mut meaning.zone)?);
        }
        _ => return None,
    }
    column.present.push(true);
    Some(())
}

fn time(text: &str, kind: Time, pattern: Option<&Pattern>, zone: &mut Zone) -> Option<i64> {
    Written::of(text, pattern)?.value(kind, zone)
}
