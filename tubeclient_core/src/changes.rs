//! Changes of a database's rows: messages of Debezium and Canal that insert, update or delete rows and leave their keys
//! as they are. tubeclient.records has the rules; what else there is, is not ours.

use pyo3::prelude::*;

use crate::cells::{Cells, Column, Struct, Text, Whole};
use crate::columns::Values;
use crate::json::{Fields, Json, Node};
use crate::logical::{Logical, Schemas, Types};
use crate::places::{Order, of_canal, of_debezium};
use crate::values::{Meaning, read_text};

/// What rows must have, and what stands for a value that the database did not give.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Rules {
    keys: Vec<String>,
    required: Vec<String>,
    placeholder: Placeholder,
    schemas: Schemas,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Placeholder {
    text: String,
    /// Its forms as a text, and as the one item of a list.
    texts: Vec<String>,
    items: Vec<String>,
    bytes: usize,
}

/// What was done, when, and the row's place in the message.
type Change<'a> = (&'static str, &'a Order, i32);
/// The values of the keys in a row as they are written.
type Keys<'a> = Vec<Option<&'a str>>;

impl Rules {
    /// Puts the row of an event of Debezium's.
    pub fn read_debezium(&self, text: &str, items: &mut Column, meaning: &mut Meaning) -> Option<()> {
        let mut event = Fields::of(text)?;
        let mut types = None;
        if let Some(payload) = event.given("payload") {
            if event.given("op").is_some() {
                return None;
            }
            if let Some(schema) = event.raw("schema") {
                types = Some(self.schemas.types(schema, meaning)?);
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
        let source = Fields::of(event.raw("source").unwrap_or("{}"))?;
        let order = of_debezium(&event, &source, operation)?;
        let images = (event.raw("before"), event.raw("after"));
        let (image, other) = if operation == "delete" { images } else { (images.1, images.0) };
        let types: Option<&Types> = types.as_deref();
        let keys = self.put(image?, (operation, &order, 0), items, meaning, |node, json, column, meaning| {
            let logical = types.and_then(|types| types.get(&column.name));
            let is_other = self.placeholder.is_it(node, json)?;
            if !is_other {
                logical.unwrap_or(&Logical::None).read(node, json, column, meaning)?;
            }
            Some(is_other)
        })?;
        let Some(other) = other else { return Some(()) };
        let known = self.keys_of(other, items)?;
        (operation != "update" || are_kept(&known, &keys)).then_some(())
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
        for (number, image) in rows.iter().enumerate() {
            let change = (operation, &order, i32::try_from(number).ok()?);
            let keys = self.put(image, change, items, meaning, |node, json, column, meaning| {
                let start = json.start();
                match node {
                    Node::Null => column.null()?,
                    Node::Text(text) => read_text(text, column, meaning)?,
                    other => {
                        json.skip_rest(other, false)?;
                        read_text(json.slice(start)?, column, meaning)?;
                    }
                }
                Some(false)
            })?;
            if let Some(before) = old.get(number).filter(|raw| **raw != "null")
                && !are_kept(&self.keys_of(before, items)?, &keys)
            {
                return None;
            }
        }
        (!rows.is_empty()).then_some(())
    }

    /// The keys of a row that is not put.
    fn keys_of<'a>(&self, image: &'a str, items: &Column) -> Option<Keys<'a>> {
        let Cells::Struct(all) = &items.cells else { return None };
        let (mut json, mut next) = (Json::of(image), 0);
        let (mut keys, mut seen) = (vec![None; self.keys.len()], vec![false; all.columns.len()]);
        json.object(|json, name| {
            if let Some(at) = all.place(&name, &mut next) {
                let seen = seen.get_mut(at).filter(|seen| !**seen)?;
                *seen = true;
            }
            let raw = json.raw()?;
            self.keys.iter().zip(&mut keys).filter(|(key, _)| **key == name).for_each(|(_, value)| *value = Some(raw));
            Some(())
        })?;
        Some(keys)
    }

    /// Puts a row; gives its keys. `value` says whether it is none, but stands for one that the database did not give.
    fn put<'a>(
        &self,
        image: &'a str,
        (operation, order, number): Change<'_>,
        items: &mut Column,
        meaning: &mut Meaning,
        value: impl Fn(&Node<'a>, &mut Json<'a>, &mut Column, &mut Meaning) -> Option<bool>,
    ) -> Option<Keys<'a>> {
        let row = items.len();
        meaning.take(2 * items.width())?;
        let Cells::Struct(all) = &mut items.cells else { return None };
        let (mut json, mut next) = (Json::of(image), 0);
        let (mut keys, mut unknown) = (vec![None; self.keys.len()], Vec::new());
        json.object(|json, name| {
            let Some(column) = all.find(&name, &mut next) else { return json.skip(false) };
            let node = json.node().filter(|_| column.len() == row)?;
            let start = json.start();
            if value(&node, json, column, meaning)? {
                json.skip_rest(&node, false)?;
                column.nothing();
                unknown.push(column.name.clone());
            }
            let raw = json.slice(start);
            self.keys.iter().zip(&mut keys).filter(|(key, _)| **key == name).for_each(|(_, value)| *value = raw);
            Some(())
        })?;
        let (change, columns) = all.columns.split_last_mut()?;
        let mut absent = Vec::new();
        for column in columns {
            let is_absent = column.len() == row || unknown.contains(&column.name);
            if column.len() == row {
                column.nothing();
            }
            if is_absent {
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
        Some(keys)
    }
}

impl Placeholder {
    /// Whether `json`'s newest node stands for another value. None: perhaps.
    fn is_it(&self, node: &Node<'_>, json: &Json<'_>) -> Option<bool> {
        let (mut ahead, mut count, mut is_it) = (json.clone(), 0, false);
        match node {
            Node::Text(text) => return Some(self.texts.iter().any(|one| one == text)),
            Node::Object => ahead.object(|json, name| {
                count += 1;
                let is_name = name == self.text.as_str();
                let node = json.node()?;
                is_it = is_name && matches!(&node, Node::Text(one) if one == self.text.as_str());
                json.skip_rest(&node, false)
            })?,
            Node::List => {
                ahead.list(|json| {
                    count += 1;
                    let node = json.node()?;
                    is_it = matches!(&node, Node::Text(one) if self.items.iter().any(|item| item == one));
                    json.skip_rest(&node, false)
                })?;
                if count == self.bytes {
                    return None;
                }
            }
            _ => (),
        }
        Some(count == 1 && is_it)
    }
}

/// Whether a row has the key that it had before. What is not known of that is as it was.
fn are_kept(before: &Keys<'_>, after: &Keys<'_>) -> bool {
    before.iter().zip(after).all(|(before, after)| matches!(before, None | Some("null")) || before == after)
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
    let all = |columns| Cells::Struct(Struct::of(columns));
    let whole = |name, kind| Column::new(name, false, Cells::Whole(Vec::new(), kind));
    let text = |name| Column::new(name, false, Cells::Text(Values::default(), Text::String));
    let list = |name, items| Column::new(name, false, Cells::List(Vec::new(), Box::new(items)));
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
