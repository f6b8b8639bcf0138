//! InLongMsg, versions 1 to 4. tubeclient.inlong.packs has the formats, and the limits.

use std::borrow::Cow;

use snap::raw::{Decoder, decompress_len};

use crate::record_columns::{Limits, Own, Pair, Records, Times};

const MAGIC: u8 = 0x0F;
const MAGIC_BYTES: usize = 2;
/// Version 4: the mark at its end, and flags: each record is followed by its own attributes; group and stream are names.
const END_MARK: usize = 0xEE01;
const OWN_ATTRIBUTES: usize = 1;
const NAMES_NOT_NUMBERS: usize = 4;
/// Of packs with more attributes the plain code takes care: here a repeated key is found by looking at all.
const MOST_ATTRIBUTES: usize = 64;
const MAX_MILLIS: u64 = (i64::MAX / 1000) as u64;

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

    fn text(&mut self) -> Option<&'a str> {
        let length = self.u16()?;
        std::str::from_utf8(self.take(length)?).ok()
    }

    /// A length, and so many bytes.
    fn entry(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(length)
    }
}

/// Attributes, and the unpacked block of the records that have them.
struct Group<'a> {
    attributes: Vec<(&'a str, Cow<'a, str>)>,
    block: Cow<'a, [u8]>,
    /// What the block is: records, pairs of a record and its own attributes, or entries of such pairs.
    holds: Holds,
}

#[derive(Clone, Copy, PartialEq)]
enum Holds {
    Records,
    Pairs,
    EntriesOfPairs,
}

pub fn has_magic(pack: &[u8]) -> bool {
    version_of(pack).is_some()
}

fn version_of(pack: &[u8]) -> Option<u8> {
    let ends = pack.first_chunk::<MAGIC_BYTES>()? == pack.last_chunk::<MAGIC_BYTES>()?;
    let version = pack[1];
    (ends && pack.len() >= 2 * MAGIC_BYTES && pack[0] == MAGIC && (1..=4).contains(&version)).then_some(version)
}

/// Puts the records of a pack. None: it is damaged, past a limit, or not written as usual.
pub fn read_pack(pack: &[u8], own: &Own, limits: Limits, times: &mut Times, found: &mut Records) -> Option<()> {
    let version = version_of(pack)?;
    let inner = &pack[MAGIC_BYTES..pack.len() - MAGIC_BYTES];
    let groups =
        if version == 4 { vec![read_binary(inner, own, limits.0)?] } else { read_groups(version, inner, limits.0)? };
    let mut left = limits.1;
    for group in &groups {
        let common: Vec<Pair> = group.attributes.iter().map(|(key, value)| (*key, &**value)).collect();
        let mut block = Reader(&group.block);
        if group.holds == Holds::Records {
            while !block.0.is_empty() {
                left = left.checked_sub(1)?;
                found.body(block.entry()?)?;
            }
            put_segment(&common, own, times, found)?;
            continue;
        }
        let own_counts = group.holds == Holds::EntriesOfPairs;
        let mut merged = Vec::new();
        let mut entries = left;
        while !block.0.is_empty() {
            let mut pairs = Reader(block.0);
            if own_counts {
                entries = entries.checked_sub(1)?;
                pairs = Reader(block.entry()?);
            } else {
                block = Reader(&[]);
            }
            while !pairs.0.is_empty() {
                left = left.checked_sub(1)?;
                found.body(pairs.entry()?)?;
                let text = std::str::from_utf8(pairs.entry()?).ok()?;
                merged.clear();
                if own_counts {
                    merged.extend_from_slice(&common);
                }
                put_pairs(&mut merged, text)?;
                if !own_counts {
                    common.iter().try_for_each(|(key, value)| put(&mut merged, key, *value))?;
                }
                put_segment(&merged, own, times, found)?;
            }
        }
    }
    Some(())
}

/// Versions 1 to 3.
fn read_groups(version: u8, inner: &[u8], mut bytes: usize) -> Option<Vec<Group<'_>>> {
    let mut reader = Reader(inner);
    reader.take(if version == 1 { 8 } else { 12 })?; // when it was made, and records
    let mut groups = Vec::new();
    for _ in 0..reader.u32()? {
        let text = reader.text()?;
        if version == 2 {
            reader.take(4)?;
        }
        let (&packing, block) = reader.entry()?.split_first()?;
        let block = unpack(packing, block, bytes)?;
        bytes -= block.len();
        let mut attributes = Vec::new();
        put_pairs(&mut attributes, text)?;
        let holds = if version == 3 { Holds::EntriesOfPairs } else { Holds::Records };
        groups.push(Group { attributes, block, holds });
    }
    reader.0.is_empty().then_some(groups)
}

/// Version 4.
fn read_binary<'a>(inner: &'a [u8], own: &'a Own, bytes: usize) -> Option<Group<'a>> {
    let mut reader = Reader(inner);
    let total = reader.u32()?;
    let kind = reader.take(1)?[0];
    let (group, stream, flags) = (reader.u16()?, reader.u16()?, reader.u16()?);
    let seconds = reader.u32()?;
    reader.take(6)?; // records, a number
    let block = reader.entry()?;
    let text = reader.text()?;
    if reader.u16()? != END_MARK || !reader.0.is_empty() || total + 4 != inner.len() {
        return None;
    }
    let mut attributes = Vec::new();
    put_pairs(&mut attributes, text)?;
    put(&mut attributes, "dt", Cow::from((seconds * 1000).to_string()))?;
    if flags & NAMES_NOT_NUMBERS == 0 {
        let name = |known: &'a Option<_>, number: usize| match known.as_deref() {
            Some(name) => Cow::from(name),
            None => Cow::from(number.to_string()),
        };
        put(&mut attributes, "groupId", name(&own.group, group))?;
        put(&mut attributes, "streamId", name(&own.stream, stream))?;
    }
    let holds = if flags & OWN_ATTRIBUTES == 0 { Holds::Records } else { Holds::Pairs };
    Some(Group { attributes, block: unpack(kind >> 5, block, bytes)?, holds })
}

fn put_segment(attributes: &[Pair], own: &Own, times: &mut Times, found: &mut Records) -> Option<()> {
    let (mut group, mut stream, mut dt, mut t) = (own.group.as_deref(), own.stream.as_deref(), None, None);
    for &(key, value) in attributes {
        match key {
            "groupId" => group = Some(value),
            "streamId" => stream = Some(value),
            "dt" => dt = Some(value),
            "t" => t = Some(value),
            _ => (),
        }
    }
    let time_ms = match (t, dt) {
        (Some(text), _) => Some(times.of(text)?),
        (None, Some(text)) => Some(millis(text)?),
        (None, None) => None,
    };
    found.segment((Some(group?), Some(stream?), time_ms), attributes)
}

/// The content of a block that is packed in way 0, not at all, or 1, raw snappy.
pub fn unpack(packing: u8, block: &[u8], most: usize) -> Option<Cow<'_, [u8]>> {
    if packing == 0 {
        return (block.len() <= most).then_some(Cow::from(block));
    }
    let length = decompress_len(block).ok()?;
    // The densest element of a snappy block takes 3 bytes and copies 64.
    if packing != 1 || length > most || length / 64 > block.len() / 3 {
        return None;
    }
    Decoder::new().decompress_vec(block).ok().map(Cow::from)
}

/// Sets a pair; the last value of a repeated key counts, in the place of the first.
pub fn put<'a, V>(found: &mut Vec<(&'a str, V)>, key: &'a str, value: V) -> Option<()> {
    match found.iter().position(|(known, _)| *known == key) {
        Some(at) => found[at].1 = value,
        None if found.len() < MOST_ATTRIBUTES => found.push((key, value)),
        None => return None,
    }
    Some(())
}

fn put_pairs<'a, V: From<&'a str>>(found: &mut Vec<(&'a str, V)>, text: &'a str) -> Option<()> {
    for piece in text.split('&').filter(|piece| !piece.is_empty()) {
        let (key, value) = piece.split_once('=')?;
        put(found, key, V::from(value))?;
    }
    Some(())
}

/// A number of usual length; Python's longest is no i64.
pub fn millis(text: &str) -> Option<i64> {
    text.parse().ok().filter(|millis| text.len() < 20 && is_time(*millis))
}

/// Whether Spark's timestamps can be so many milliseconds.
pub fn is_time(millis: i64) -> bool {
    millis.unsigned_abs() < MAX_MILLIS
}
