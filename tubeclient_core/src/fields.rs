//! csv and kv: texts between separators. What has the escape character is not ours.

use crate::cells::Struct;
use crate::values::{Meaning, read_text};

/// The bound of the reference, which counts them.
const MOST_SEPARATORS: usize = 250_000;
/// The byte order mark.
const MARK: char = '\u{FEFF}';

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Marks {
    /// Between fields, and between pairs.
    separator: char,
    /// Between a key and its value.
    kv_separator: char,
    quote: Option<char>,
    escape: Option<char>,
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
        let mut next = 0;
        for part in self.usual(text)?.split(self.separator).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once(self.kv_separator)?;
            match all.find(key, &mut next) {
                Some(column) if column.len() > row => return None, // it is there twice
                Some(column) if self.is_null(value) => column.null()?,
                Some(column) => read_text(value, column, meaning)?,
                None => (),
            }
        }
        all.fill(row)
    }

    /// A text without the line ends behind it.
    fn usual<'a>(&self, text: &'a str) -> Option<&'a str> {
        let ends = ['\r', '\n'];
        let is_odd = text.len() > MOST_SEPARATORS || text.starts_with(MARK) || ends.contains(&self.separator);
        let is_usual = !is_odd && !self.escape.is_some_and(|escape| text.contains(escape));
        is_usual.then(|| text.trim_end_matches(ends)).filter(|text| !text.is_empty())
    }

    fn is_null(&self, text: &str) -> bool {
        text.is_empty() || text == self.null
    }

    /// The field at the beginning, None for a null, and what is behind its separator.
    fn field<'a>(&self, text: &'a str) -> Option<(Option<&'a str>, Option<&'a str>)> {
        if let Some(quote) = self.quote
            && let Some(quoted) = text.strip_prefix(quote)
        {
            let (field, behind) = quoted.split_once(quote)?;
            // Of a quoted text that is empty, or would be null, the reference knows more.
            let is_usual = !self.is_null(field) && !field.contains('\\');
            let behind = if behind.is_empty() { None } else { Some(behind.strip_prefix(self.separator)?) };
            return is_usual.then_some((Some(field), behind));
        }
        let (field, behind) = match text.split_once(self.separator) {
            Some((field, behind)) => (field, Some(behind)),
            None => (text, None),
        };
        let is_usual = !field.contains(['\r', '\n']) && !self.quote.is_some_and(|quote| field.contains(quote));
        is_usual.then_some((Some(field).filter(|field| !self.is_null(field)), behind))
    }
}
