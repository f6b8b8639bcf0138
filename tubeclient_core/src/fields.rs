//! csv and kv: texts between separators. What has the escape character is not ours.

use pyo3::prelude::*;

use crate::cells::Struct;
use crate::json::is_bare;
use crate::values::{Meaning, read_text};

/// The bound of the reference, which counts them.
const MOST_SEPARATORS: usize = 250_000;
/// The byte order mark.
const MARK: char = '\u{FEFF}';

/// Each is a character of ASCII.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Marks {
    /// Between fields, and between pairs.
    separator: u8,
    /// Between a key and its value.
    kv_separator: u8,
    quote: Option<u8>,
    escape: Option<u8>,
    /// The text of a null, beside the empty one.
    null: String,
}

impl Marks {
    /// Puts the values of one line, as those with number `row`.
    pub fn read_csv(&self, text: &str, all: &mut Struct, row: usize, meaning: &mut Meaning) -> Option<()> {
        let mut rest = Some(self.usual(text)?);
        for column in &mut all.columns {
            let (field, behind) = self.field(rest?)?;
            match field {
                Some(field) => read_text(field, column, meaning)?,
                None => column.null()?,
            }
            rest = behind;
        }
        rest.is_none().then(|| all.fill(row))?
    }

    /// Puts the values of pairs, as those with number `row`.
    pub fn read_kv(&self, text: &str, all: &mut Struct, row: usize, meaning: &mut Meaning) -> Option<()> {
        let (mut next, mut rest, rescues) = (0, Some(self.usual(text)?), all.rescues());
        while let Some(text) = rest {
            let end = find(text, |byte| byte == self.separator);
            let part = text.get(..end)?;
            rest = text.get(end + 1..);
            if part.is_empty() {
                continue;
            }
            let end = find(part, |byte| byte == self.kv_separator);
            let (key, value) = (part.get(..end)?, part.get(end + 1..)?);
            match all.find(key, &mut next) {
                Some(column) if column.len() > row => return None, // it is there twice
                Some(column) if self.is_null(value) => column.null()?,
                Some(column) => read_text(value, column, meaning)?,
                None if !rescues => (),
                None if is_bare(value) => all.rescue(key, &format!("\"{value}\""))?,
                None => return None,
            }
        }
        all.fill(row)
    }

    /// A text without the line ends behind it.
    fn usual<'a>(&self, text: &'a str) -> Option<&'a str> {
        let is_odd = text.len() > MOST_SEPARATORS || text.starts_with(MARK) || b"\r\n".contains(&self.separator);
        let is_usual = !is_odd && !self.escape.is_some_and(|escape| text.as_bytes().contains(&escape));
        is_usual.then(|| text.trim_end_matches(['\r', '\n'])).filter(|text| !text.is_empty())
    }

    fn is_null(&self, text: &str) -> bool {
        text.is_empty() || text == self.null
    }

    /// The field at the beginning, None for a null, and what is behind its separator.
    fn field<'a>(&self, text: &'a str) -> Option<(Option<&'a str>, Option<&'a str>)> {
        let is_quoted = self.quote.is_some() && text.as_bytes().first().copied() == self.quote;
        if is_quoted {
            let quoted = text.get(1..)?;
            // Of a quoted text that is empty, or would be null, the reference knows more.
            let end = find(quoted, |byte| Some(byte) == self.quote || byte == b'\\');
            let field = quoted.get(..end).filter(|field| !self.is_null(field))?;
            return match *quoted.as_bytes().get(end..)? {
                [quote] if Some(quote) == self.quote => Some((Some(field), None)),
                [quote, separator, ..] if Some(quote) == self.quote && separator == self.separator => {
                    Some((Some(field), quoted.get(end + 2..)))
                }
                _ => None,
            };
        }
        let is_end = |byte| byte == self.separator || byte == b'\r' || byte == b'\n' || Some(byte) == self.quote;
        let end = find(text, is_end);
        let is_usual = text.as_bytes().get(end).is_none_or(|byte| *byte == self.separator);
        let field = text.get(..end).filter(|_| is_usual)?;
        Some(((!self.is_null(field)).then_some(field), text.get(end + 1..)))
    }
}

/// Where the first such byte is, or the end.
fn find(text: &str, is_it: impl Fn(u8) -> bool) -> usize {
    text.bytes().position(is_it).unwrap_or(text.len())
}
