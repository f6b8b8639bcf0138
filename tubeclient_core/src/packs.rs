//! InLongMsg, versions 1 and 2: the packs that DataProxy writes. tubeclient.inlong.packs has the format, and the limits.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, MapBuilder, StringBuilder};
use arrow_array::{ArrayRef, Int32Array};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use snap::raw::{Decoder, decompress_len};

use crate::columns::{Columns, binary};

const MAGIC: u8 = 0x0F;
const MAGIC_BYTES: usize = 2;
/// What a record takes besides its body and what it has from its message, and a pair of texts besides the texts.
const RECORD_BYTES: usize = 64;
const PAIR_BYTES: usize = 8;
/// Of packs with more attributes the plain code takes care.
const MOST_ATTRIBUTES: usize = 64;
const MAX_MILLIS: i64 = i64::MAX / 1000;

/// What a pack may hold, and what is left of it while it is read.
#[derive(Clone, Copy, FromPyObject)]
pub struct Limits(usize, usize, usize);

type Names = (Option<String>, Option<String>);

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<usize> {
        Some(usize::from(u16::from_be_bytes(self.take(2)?.try_into().ok()?)))
    }

    fn u32(&mut self) -> Option<usize> {
        usize::try_from(u32::from_be_bytes(self.take(4)?.try_into().ok()?)).ok()
    }
}

/// Consecutive records with the same attributes.
struct Segment<'a> {
    group_id: &'a str,
    stream_id: &'a str,
    time_ms: Option<i64>,
    attributes: Vec<(&'a str, &'a str)>,
    block: Vec<u8>,
    /// Where bodies begin and end in the block.
    bodies: Vec<(usize, usize)>,
}

/// The records of packs: of each, its message (from `first` on), its index there, its segment and its body; then the
/// segments: group, stream, time, attributes. Ends after the message with which the columns have `batch_bytes`; says
/// how many messages that are. None if one is not such a pack, is damaged, or past a limit: the plain code knows which.
///
/// `names` are group and stream of the message's own attributes, `repeated` what each record has of its message, bytes.
#[pyfunction]
pub fn take_packs(
    py: Python<'_>,
    packs: Vec<PyBackedBytes>,
    names: Vec<Names>,
    repeated: Vec<usize>,
    first: i32,
    limits: Limits,
    batch_bytes: usize,
) -> PyResult<Option<(usize, Columns, Columns)>> {
    py.detach(|| {
        let mut found = Records::default();
        let mut count = 0;
        for ((pack, outer), of_message) in packs.iter().zip(&names).zip(&repeated) {
            let Some(segments) = read_pack(pack, outer, limits) else { return Ok(None) };
            if found.add(first, count, &segments, *of_message, limits).is_none() {
                return Ok(None);
            }
            count += 1;
            if found.size >= batch_bytes {
                break;
            }
        }
        let (records, segments) = found.columns()?;
        Ok(Some((count, records, segments)))
    })
}

fn read_pack<'a>(pack: &'a [u8], outer: &'a Names, limits: Limits) -> Option<Vec<Segment<'a>>> {
    let (magic, rest) = pack.split_at_checked(MAGIC_BYTES)?;
    let (inner, end) = rest.split_at_checked(rest.len().checked_sub(MAGIC_BYTES)?)?;
    let version = magic[1];
    if magic != end || magic[0] != MAGIC || !(1..=2).contains(&version) {
        return None;
    }
    let mut reader = Reader(inner);
    reader.take(if version == 1 { 8 } else { 12 })?; // when it was made, and records
    let Limits(mut bytes, mut records, _) = limits;
    let mut segments = Vec::new();
    for _ in 0..reader.u32()? {
        let length = reader.u16()?;
        let text = std::str::from_utf8(reader.take(length)?).ok()?;
        if version == 2 {
            reader.take(4)?;
        }
        let length = reader.u32()?;
        let (&packing, block) = reader.take(length)?.split_first()?;
        let block = unpack(packing, block, bytes)?;
        let bodies = bodies(&block, records)?;
        bytes -= block.len();
        records -= bodies.len();
        let attributes = pairs(text)?;
        let of = |name: &str| attributes.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        if of("t").is_some() {
            return None; // a time as text, in a zone
        }
        let group_id = of("groupId").or(outer.0.as_deref())?;
        let stream_id = of("streamId").or(outer.1.as_deref())?;
        let time_ms = match of("dt") {
            Some(text) => Some(millis(text)?),
            None => None,
        };
        segments.push(Segment { group_id, stream_id, time_ms, attributes, block, bodies });
    }
    reader.0.is_empty().then_some(segments)
}

fn unpack(packing: u8, block: &[u8], most: usize) -> Option<Vec<u8>> {
    if packing == 0 {
        return (block.len() <= most).then(|| block.to_vec());
    }
    let length = decompress_len(block).ok()?;
    // The densest element of a snappy block takes 3 bytes and copies 64.
    if packing != 1 || length > most || length / 64 > block.len() / 3 {
        return None;
    }
    Decoder::new().decompress_vec(block).ok()
}

fn bodies(block: &[u8], most: usize) -> Option<Vec<(usize, usize)>> {
    let mut found = Vec::new();
    let mut reader = Reader(block);
    while !reader.0.is_empty() {
        let length = reader.u32()?;
        let start = block.len() - reader.0.len();
        reader.take(length)?;
        if found.len() == most {
            return None;
        }
        found.push((start, start + length));
    }
    Some(found)
}

/// The pairs of a text; the last value of a repeated key counts.
fn pairs(text: &str) -> Option<Vec<(&str, &str)>> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    for piece in text.split('&').filter(|piece| !piece.is_empty()) {
        let (key, value) = piece.split_once('=')?;
        match found.iter_mut().find(|(known, _)| *known == key) {
            Some(known) => known.1 = value,
            None => found.push((key, value)),
        }
        if found.len() > MOST_ATTRIBUTES {
            return None;
        }
    }
    Some(found)
}

/// A number as it is usually written; Python takes more.
fn millis(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || digits.len() > 18 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|millis: &i64| millis.abs() < MAX_MILLIS)
}

type Maps = MapBuilder<StringBuilder, StringBuilder>;

fn new_maps() -> Maps {
    MapBuilder::new(None, StringBuilder::new(), StringBuilder::new())
}

#[derive(Default)]
struct Records {
    size: usize,
    messages: Vec<i32>,
    indexes: Vec<i32>,
    of_segments: Vec<i32>,
    ends: Vec<i32>,
    values: Vec<u8>,
    groups: StringBuilder,
    streams: StringBuilder,
    times: Int64Builder,
    maps: Option<Maps>,
    segments: i32,
}

impl Records {
    /// None: what the records of the message have in common takes too much, or a column gets too long.
    fn add(&mut self, first: i32, number: usize, found: &[Segment], of_message: usize, limits: Limits) -> Option<()> {
        let message = first.checked_add(i32::try_from(number).ok()?)?;
        let mut repeats = 0_usize;
        let mut index = 0;
        for one in found {
            let characters = |text: &str| text.chars().count();
            let pairs = one.attributes.iter().map(|(key, value)| characters(key) + characters(value) + PAIR_BYTES);
            let each = of_message + characters(one.group_id) + characters(one.stream_id) + pairs.sum::<usize>();
            repeats = repeats.checked_add(one.bodies.len().checked_mul(each)?)?;
            if repeats > limits.2 {
                return None;
            }
        }
        self.size += repeats;
        for one in found {
            for &(start, end) in &one.bodies {
                self.messages.push(message);
                self.indexes.push(index);
                self.of_segments.push(self.segments);
                self.values.extend_from_slice(&one.block[start..end]);
                self.ends.push(i32::try_from(self.values.len()).ok()?);
                self.size += RECORD_BYTES + end - start;
                index += 1;
            }
            self.groups.append_value(one.group_id);
            self.streams.append_value(one.stream_id);
            self.times.append_option(one.time_ms);
            let maps = self.maps.get_or_insert_with(new_maps);
            for (key, value) in &one.attributes {
                maps.keys().append_value(key);
                maps.values().append_value(value);
            }
            maps.append(true).ok()?;
            self.segments += 1;
        }
        Some(())
    }

    fn columns(mut self) -> PyResult<(Columns, Columns)> {
        let records: Vec<(&str, ArrayRef)> = vec![
            ("message", Arc::new(Int32Array::from(self.messages))),
            ("index", Arc::new(Int32Array::from(self.indexes))),
            ("segment", Arc::new(Int32Array::from(self.of_segments))),
            ("body", binary(self.ends, self.values)),
        ];
        let segments: Vec<(&str, ArrayRef)> = vec![
            ("group_id", Arc::new(self.groups.finish())),
            ("stream_id", Arc::new(self.streams.finish())),
            ("time_ms", Arc::new(self.times.finish())),
            ("attributes", Arc::new(self.maps.unwrap_or_else(new_maps).finish())),
        ];
        Ok((Columns::of(records)?, Columns::of(segments)?))
    }
}
