//! MessageObjs, the protobuf packs of InLong. As in wire.rs each field is taken once.

use std::borrow::Cow;
use std::ops::Range;

use flate2::{Decompress, FlushDecompress, Status};

use crate::packs::{is_time, put, unpack};
use crate::record_columns::{Limits, Own, Pair, Records};
use crate::wire::Reader;

/// The densest code of a deflated block takes 2 bits and copies 258 bytes.
const GZIP_DENSEST: usize = 258 * 4;
const WINDOW_BITS: u8 = 15;

/// Puts the records of a protobuf pack. None: it is damaged, past a limit, or not written as usual.
pub fn read_objects(pack: &[u8], own: &Own, limits: Limits, found: &mut Records) -> Option<()> {
    let (group, stream) = (own.group.as_deref()?, own.stream.as_deref()?);
    let data = match own.more.as_deref().unwrap_or("0") {
        "0" | "NONE" => unpack(0, pack, limits.0)?,
        "1" | "INLONG_GZ" => Cow::from(unpack_gzip(pack, limits.0)?),
        "2" | "INLONG_SNAPPY" => unpack(1, pack, limits.0)?,
        _ => return None,
    };
    let (mut records, mut params) = (limits.1, limits.1);
    let mut reader = Reader { data: &data, at: 0, end: data.len() };
    let mut attributes = Vec::new();
    while reader.at < data.len() {
        match reader.tag()? {
            0x0A => {
                records = records.checked_sub(1)?;
                let place = reader.block()?;
                attributes.clear();
                let (time_ms, body) = read_object(&data, place, &mut params, &mut attributes)?;
                found.body(&data[body])?;
                found.segment((Some(group), Some(stream), Some(time_ms)), &attributes)?;
            }
            tag if tag >> 3 > 1 => reader.pass(tag)?,
            _ => return None,
        }
    }
    Some(())
}

/// Time and body; `attributes` are its source and its parameters.
fn read_object<'a>(
    data: &'a [u8],
    place: Range<usize>,
    params: &mut usize,
    attributes: &mut Vec<Pair<'a>>,
) -> Option<(i64, Range<usize>)> {
    let mut reader = Reader { data, at: place.start, end: place.end };
    let (mut time_ms, mut source, mut body) = (None, None, None);
    while reader.at < place.end {
        let again = match reader.tag()? {
            0x08 => time_ms.replace(reader.value()? as i64).is_some(),
            0x12 => {
                let ip = text(data, reader.block()?)?;
                if !ip.is_empty() {
                    put(attributes, "sourceIp", ip)?;
                }
                source.replace(ip).is_some()
            }
            0x1A => body.replace(reader.block()?).is_some(),
            0x22 => {
                *params = params.checked_sub(1)?;
                // The source comes first, as usual fields come in the order of their numbers.
                source?;
                let (key, value) = read_param(data, reader.block()?)?;
                put(attributes, key, value).is_none()
            }
            tag if tag >> 3 > 4 => reader.pass(tag).is_none(),
            _ => true,
        };
        if again {
            return None;
        }
    }
    source?;
    Some((time_ms.filter(|millis| is_time(*millis))?, body?))
}

fn read_param(data: &[u8], place: Range<usize>) -> Option<Pair<'_>> {
    let mut reader = Reader { data, at: place.start, end: place.end };
    let (mut key, mut value) = (None, None);
    while reader.at < place.end {
        let again = match reader.tag()? {
            0x0A => key.replace(text(data, reader.block()?)?).is_some(),
            0x12 => value.replace(text(data, reader.block()?)?).is_some(),
            tag if tag >> 3 > 2 => reader.pass(tag).is_none(),
            _ => true,
        };
        if again {
            return None;
        }
    }
    Some((key.unwrap_or_default(), value.unwrap_or_default()))
}

fn text(data: &[u8], place: Range<usize>) -> Option<&str> {
    std::str::from_utf8(&data[place]).ok()
}

/// The content of a gzip file of one member, whose trailer says how large that is.
fn unpack_gzip(block: &[u8], most: usize) -> Option<Vec<u8>> {
    let length = u32::from_le_bytes(*block.last_chunk()?) as usize;
    if length > most || length / GZIP_DENSEST > block.len() {
        return None;
    }
    let mut data = Vec::with_capacity(length + 1); // one more shows that it ends there
    let mut inner = Decompress::new_gzip(WINDOW_BITS);
    let ended = inner.decompress_vec(block, &mut data, FlushDecompress::Finish).ok()? == Status::StreamEnd;
    (ended && inner.total_in() == block.len() as u64 && data.len() == length).then_some(data)
}
