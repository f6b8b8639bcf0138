//! The frames of a producer: many requests made at once, and a broker's answers to them.

use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyList};

use crate::messages::checksum;
use crate::wire::Reader;

const BEGIN_TOKEN: u32 = 0xFF7F_F4FE;
const HEADER_BYTES: usize = 12;
const BLOCK_BYTES: usize = 8192;
const MAX_BLOCKS: usize = 3584;
const MAX_STREAM_BYTES: usize = BLOCK_BYTES * MAX_BLOCKS;

/// As Python's OutgoingMessage: topic, payload, flag, tag, time.
type Message<'py> = (PyBackedStr, Bound<'py, PyBytes>, i32, PyBackedStr, PyBackedStr);

pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7F {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// protobuf writes a negative int32 as the int64 it is.
fn put_int(out: &mut Vec<u8>, field: u8, value: i32) {
    out.push(field << 3);
    put_varint(out, i64::from(value) as u64);
}

pub fn put_block(out: &mut Vec<u8>, field: u8, value: &[u8]) {
    out.push(field << 3 | 2);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

pub fn put_frame(out: &mut Vec<u8>, serial: i32, stream: &[u8]) -> Option<()> {
    if stream.is_empty() || stream.len() > MAX_STREAM_BYTES {
        return None;
    }
    out.extend_from_slice(&BEGIN_TOKEN.to_be_bytes());
    out.extend_from_slice(&serial.to_be_bytes());
    out.extend_from_slice(&(stream.len().div_ceil(BLOCK_BYTES) as u32).to_be_bytes());
    for block in stream.chunks(BLOCK_BYTES) {
        out.extend_from_slice(&(block.len() as u32).to_be_bytes());
        out.extend_from_slice(block);
    }
    Some(())
}

/// The frames of SendMessageRequestP2B, one for each message. `envelope` is what comes before a RequestBody's length,
/// and its fields but the last; `around` are the request's fields before the topic and after the time. None: a message
/// is not what it ought to be.
#[pyfunction]
pub fn encode_sends<'py>(
    py: Python<'py>,
    envelope: (PyBackedBytes, PyBackedBytes),
    around: (PyBackedBytes, PyBackedBytes),
    sent_from: i32,
    messages: &Bound<'py, PyList>,
    partitions: Vec<i32>,
    serials: Vec<i32>,
) -> Option<Bound<'py, PyBytes>> {
    if partitions.len() != messages.len() || serials.len() != messages.len() {
        return None;
    }
    let messages: Vec<Message> = messages.extract().ok()?;
    let owned = |(topic, payload, flag, tag, time)| (topic, PyBackedBytes::from(payload), flag, tag, time);
    let messages: Vec<_> = messages.into_iter().map(owned).collect();
    // For the payloads, which are there already, and for the other parts of most frames.
    let bytes: usize = messages.iter().map(|one| one.1.len() + 512).sum();
    let frames = py.detach(|| {
        let mut frames = Vec::with_capacity(bytes);
        let (mut request, mut stream) = (Vec::new(), Vec::new());
        for ((one, partition), serial) in messages.iter().zip(partitions).zip(serials) {
            let (topic, payload, flag, tag, time) = one;
            request.clear();
            request.extend_from_slice(&around.0);
            put_block(&mut request, 2, topic.as_bytes());
            put_int(&mut request, 3, partition);
            put_block(&mut request, 4, payload);
            put_int(&mut request, 5, *flag);
            put_int(&mut request, 6, checksum(payload));
            put_int(&mut request, 7, sent_from);
            for (field, text) in [(8, tag), (9, time)] {
                if !text.is_empty() {
                    put_block(&mut request, field, text.as_bytes());
                }
            }
            request.extend_from_slice(&around.1);
            let mut start = envelope.1.to_vec();
            start.push(3 << 3 | 2);
            put_varint(&mut start, request.len() as u64);
            stream.clear();
            stream.extend_from_slice(&envelope.0);
            put_varint(&mut stream, (start.len() + request.len()) as u64);
            stream.extend_from_slice(&start);
            stream.extend_from_slice(&request);
            put_frame(&mut frames, serial, &stream)?;
        }
        Some(frames)
    })?;
    Some(PyBytes::new(py, &frames))
}

/// Serial number and stream of the whole frames at the beginning of `data`, and where they end. It stops before what is
/// no frame.
#[pyfunction]
pub fn take_frames<'py>(py: Python<'py>, data: &[u8]) -> (usize, Vec<(i32, Bound<'py, PyBytes>)>) {
    let (mut end, mut frames) = (0, Vec::new());
    while let Some((serial, stream, length)) = take_frame(&data[end..]) {
        frames.push((serial, PyBytes::new(py, &stream)));
        end += length;
    }
    (end, frames)
}

fn take_frame(data: &[u8]) -> Option<(i32, Vec<u8>, usize)> {
    let number = |at: usize| Some(u32::from_be_bytes(data.get(at..at + 4)?.try_into().ok()?));
    if number(0)? != BEGIN_TOKEN {
        return None;
    }
    let (serial, blocks) = (number(4)? as i32, number(8)? as usize);
    if !(1..=MAX_BLOCKS).contains(&blocks) {
        return None;
    }
    let (mut at, mut stream) = (HEADER_BYTES, Vec::new());
    for _ in 0..blocks {
        let length = number(at)? as usize;
        let block = data.get(at + 4..(at + 4).checked_add(length)?)?;
        if block.is_empty() || stream.len() + length > MAX_STREAM_BYTES {
            return None;
        }
        stream.extend_from_slice(block);
        at += 4 + length;
    }
    Some((serial, stream, at))
}

/// Offset and message id of each answer that says the broker has the message; None for all others.
#[pyfunction]
pub fn take_sent(streams: Vec<PyBackedBytes>) -> Vec<Option<(Option<i64>, i64)>> {
    streams.iter().map(|stream| read_sent(stream)).collect()
}

fn read_sent(data: &[u8]) -> Option<(Option<i64>, i64)> {
    let mut reader = Reader { data, at: 0, end: data.len() };
    // RpcConnHeader: a response. ResponseHeader: success; service and version may follow.
    let (connection, head, body) = (reader.block()?, reader.block()?, reader.block()?);
    if data[connection] != [0x08, 0x01] || !data[head.clone()].starts_with(&[0x08, 0x00]) {
        return None;
    }
    let mut rest = Reader { data, at: head.start + 2, end: head.end };
    while rest.at < rest.end {
        matches!(rest.tag()?, 0x10 | 0x18).then_some(())?;
        rest.value()?;
    }
    // RspResponseBody: method 13, and its data.
    if !data[body.clone()].starts_with(&[0x08, 13, 0x12]) {
        return None;
    }
    let mut answer = Reader { data, at: body.start + 3, end: body.end };
    let length = answer.varint(5)?;
    if answer.at as u64 + length != body.end as u64 {
        return None;
    }
    // SendMessageResponseB2P: five numbers that count here, and a text.
    let (mut numbers, mut text) = ([None; 8], None);
    while answer.at < answer.end {
        let tag = answer.tag()?;
        let again = match (tag >> 3, tag & 7) {
            (3, 2) => text.replace(answer.block()?).is_some(),
            (field @ (1 | 2 | 4..=7), 0) => numbers[field as usize].replace(answer.value()?).is_some(),
            (8.., _) => answer.pass(tag).is_none(),
            _ => true,
        };
        if again {
            return None;
        }
    }
    std::str::from_utf8(&data[text?]).ok()?;
    numbers[1]?;
    (numbers[2]? as i32 == 200).then_some((numbers[7].map(|offset| offset as i64), numbers[5]? as i64))
}
