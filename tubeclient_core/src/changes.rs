//! Changes of a database's rows: messages of Debezium and Canal that insert, update or delete rows and leave their keys
//! as they are. tubeclient.records has the rules; what else there is, is not ours.

use std::borrow::Cow;
use std::collections::HashSet;

use pyo3::prelude::*;

use crate::cells::{Cells, Column, Struct, Text, Whole};
use crate::json::{Json, Node, distinct};
use crate::places::{Order, of_canal, of_debezium};
use crate::records::Values;
use crate::values::{Meaning, read_json, read_text};

/// What rows must have, and what stands for a value that the database did not give.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Rules {
    keys: Vec<String>,
    required: Vec<String>,
    placeholder: Placeholder,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Placeholder {
    text: String,
    /// Its forms as a text, and as the one item of a list.
    texts: HashSet<String>,
    items: HashSet<String>,
    bytes: usize,
}

/// The fields of an object as they are written. No name is there twice.
pub struct Fields<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Fields<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (mut json, mut found) = (Json::of(text), Vec::new());
        json.object(|json, name| {
            found.push((name, json.raw()?));
            Some(())
        })?;
        json.end()?;
        distinct(found.iter().map(|(name, _)| Cow::Borrowed(&**name)).collect())?;
        Some(Self(found))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn given(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(one, _)| one == name).map(|(_, raw)| *raw)
    }

    /// None of null too.
    pub fn raw(&self, name: &str) -> Option<&'a str> {
        self.given(name).filter(|raw| *raw != "null")
    }

    /// A text, the digits of a number, or an empty one of anything else.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        let Some(raw) = self.raw(name) else { return Some(Cow::default()) };
        Some(match Json::of(raw).node()? {
            Node::Text(text) => text,
            Node::Number(digits) => Cow::Borrowed(digits),
            _ => Cow::default(),
        })
    }

    /// The outer None is no whole number.
    pub fn number(&self, name: &str) -> Option<Option<i64>> {
        if self.raw(name).is_none() {
            return Some(None);
        }
        let text = self.text(name)?;
        let is_usual = !text.starts_with('+') && text.len() < 20;
        text.parse().ok().filter(|_| is_usual).map(Some)
    }

    /// An object within.
    fn fields(&self, name: &str) -> Option<Option<Self>> {
        self.raw(name).map(Self::of).map_or(Some(None), |found| found.map(Some))
    }
}

impl Rules {
    /// Puts the row of an event of Debezium's.
    pub fn read_debezium(&self, text: &str, items: &mut Column, meaning: &mut Meaning) -> Option<()> {
        let mut event = Fields::of(text)?;
        if let Some(payload) = event.given("payload") {
            if event.given("op").is_some() || event.raw("schema").is_some() {
                return None;
            }
            event = Fields::of(payload)?;
        }
        let operation = match &*event.text("op")? {
            "c" => "insert",
            "r" => "snapshot",
            "u" => "update",
            "d" => "delete",
            _ => return None,
        };
        let order = of_debezium(&event, &event.fields("source")?.unwrap_or(Fields(Vec::new())), operation)?;
        let (before, after) = (event.fields("before")?, event.fields("after")?);
        let image = if operation == "delete" { before.as_ref() } else { after.as_ref() }?;
        if let ("update", Some(before)) = (operation, &before) {
            self.check_key(before, image)?;
        }
        self.put(image, (operation, &order, 0), items, meaning, |raw, column, meaning| {
            // What stands for another value leaves the column as it is without one.
            if self.placeholder.is_it(raw)? { Some(()) } else { read_json(&mut Json::of(raw), column, meaning) }
        })
    }

    /// Puts the rows of a message of Canal's.
    pub fn read_canal(&self, text: &str, items: &mut Column, meaning: &mut Meaning) -> Option<()> {
        let message = Fields::of(text)?;
        let kind = message.text("type")?.to_ascii_lowercase();
        let operation = ["insert", "update", "delete"].into_iter().find(|one| *one == kind)?;
        if [message.raw("isDdl"), message.raw("ddl")].into_iter().any(|raw| !matches!(raw, None | Some("false"))) {
            return None;
        }
        let order = of_canal(&message)?;
        let old = if operation == "update" { elements(message.raw("old").unwrap_or("[]"))? } else { Vec::new() };
        let rows = elements(message.raw("data")?)?;
        for (number, raw) in rows.iter().enumerate() {
            let image = Fields::of(raw)?;
            if let Some(before) = old.get(number).filter(|raw| **raw != "null") {
                self.check_key(&Fields::of(before)?, &image)?;
            }
            let change = (operation, &order, i32::try_from(number).ok()?);
            self.put(&image, change, items, meaning, |raw, column, meaning| match Json::of(raw).node()? {
                Node::Null => column.null(),
                Node::Text(text) => read_text(&text, column, meaning),
                _ => read_text(raw, column, meaning),
            })?;
        }
        (!rows.is_empty()).then_some(())
    }

    /// None if the row may have had another key.
    fn check_key(&self, before: &Fields<'_>, after: &Fields<'_>) -> Option<()> {
        let is_kept = |key: &String| match before.raw(key) {
            None => true,
            known => known == after.raw(key),
        };
        self.keys.iter().all(is_kept).then_some(())
    }

    fn put<'a>(
        &self,
        image: &Fields<'a>,
        (operation, order, number): (&str, &Order, i32),
        items: &mut Column,
        meaning: &mut Meaning,
        value: impl Fn(&'a str, &mut Column, &mut Meaning) -> Option<()>,
    ) -> Option<()> {
        let row = items.len();
        meaning.take(2 * items.width())?;
        let Cells::Struct(all) = &mut items.cells else { return None };
        let mut next = 0;
        for (name, raw) in &image.0 {
            if let Some(column) = all.find(name, &mut next) {
                value(raw, column, meaning)?;
            }
        }
        let (change, columns) = all.columns.split_last_mut()?;
        let mut absent = Vec::new();
        for column in columns {
            let is_absent = column.len() == row;
            if is_absent {
                column.nothing();
                absent.push(&*column.name);
            }
            if column.present.last() == Some(&false) {
                let may_miss = operation == "delete" || is_absent && operation == "update";
                if self.keys.contains(&column.name) || !may_miss && self.required.contains(&column.name) {
                    return None;
                }
            }
        }
        let Cells::Struct(all) = &mut change.cells else { return None };
        let [of_operation, of_absent, of_order] = all.columns.as_mut_slice() else { return None };
        of_operation.put_text(Some(operation))?;
        of_absent.put_list((!absent.is_empty()).then_some(&absent), |names, name| names.put_text(Some(*name)))?;
        order.put(of_order, number)?;
        change.present.push(true);
        items.present.push(true);
        Some(())
    }
}

impl Placeholder {
    /// Whether a value stands for another one. None: perhaps.
    fn is_it(&self, raw: &str) -> Option<bool> {
        let mut json = Json::of(raw);
        match json.node()? {
            Node::Text(text) => Some(self.texts.contains(&*text)),
            Node::Object => {
                let (mut count, mut is_text) = (0, false);
                json.object(|json, name| {
                    count += 1;
                    let raw = json.raw()?;
                    is_text = name == self.text.as_str() && matches!(Json::of(raw).node()?, Node::Text(one) if one == self.text.as_str());
                    Some(())
                })?;
                Some(count == 1 && is_text)
            }
            Node::List => {
                let (mut count, mut is_item) = (0, false);
                json.list(|json| {
                    count += 1;
                    let raw = json.raw()?;
                    is_item = matches!(Json::of(raw).node()?, Node::Text(one) if self.items.contains(&*one));
                    Some(())
                })?;
                (count != self.bytes).then_some(count == 1 && is_item)
            }
            _ => Some(false),
        }
    }
}

fn elements(raw: &str) -> Option<Vec<&str>> {
    let mut found = Vec::new();
    Json::of(raw).list(|json| {
        found.push(json.raw()?);
        Some(())
    })?;
    Some(found)
}

/// The column of lists of rows, each with its change.
pub fn rows(columns: Vec<Column>) -> Column {
    let all = |names: Vec<Column>| Cells::Struct(Struct::of(names));
    let whole = |name, kind| Column::new(name, false, Cells::Whole(Vec::new(), kind));
    let text = |name| Column::new(name, false, Cells::Text(Values::default(), Text::String));
    let list = |name, items: Column| Column::new(name, false, Cells::List(Vec::new(), Box::new(items)));
    let sequence = vec![
        whole("time", Whole::Int64),
        text("log"),
        list("position", whole("item", Whole::Int64)),
        whole("round", Whole::Int64),
        whole("place", Whole::Int64),
        whole("row", Whole::Int32),
    ];
    let change = vec![text("operation"), list("absent", text("item")), Column::new("sequence", false, all(sequence))];
    // It is behind those that a message may name.
    let mut rows = Struct::of(columns);
    rows.columns.push(Column::new("change", false, all(change)));
    list("records", Column::new("item", false, Cells::Struct(rows)))
}
