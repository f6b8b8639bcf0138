//! The frames of a producer: many requests made at once, and a broker's answers to them.

use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyList};

use crate::calls::{DATA, METHOD, REQUEST, SEND_MESSAGE, SUCCESS, request, response};
use crate::messages::checksum;
use crate::wire::Reader;

const BEGIN_TOKEN: u32 = 0xFF7F_F4FE;
const HEADER_BYTES: usize = 12;
const BLOCK_BYTES: usize = 8192;
const MAX_BLOCKS: usize = 3584;
const MAX_STREAM_BYTES: usize = BLOCK_BYTES * MAX_BLOCKS;

/// As Python's `OutgoingMessage`: topic, payload, flag, tag, time.
type Message<'py> = (PyBackedStr, Bound<'py, PyBytes>, i32, PyBackedStr, PyBackedStr);

pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7F {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// protobuf writes a negative int32 as the int64 it is.
fn put_int(out: &mut Vec<u8>, tag: u64, value: i32) {
    put_varint(out, tag);
    put_varint(out, i64::from(value) as u64);
}

pub fn put_block(out: &mut Vec<u8>, tag: u64, value: &[u8]) {
    put_varint(out, tag);
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

/// The frames of `SendMessageRequestP2B`, one for each message. `envelope` is what comes before a `RequestBody`'s length,
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
            put_block(&mut request, request::TOPIC, topic.as_bytes());
            put_int(&mut request, request::PARTITION, partition);
            put_block(&mut request, request::PAYLOAD, payload);
            put_int(&mut request, request::FLAG, *flag);
            put_int(&mut request, request::CHECKSUM, checksum(payload));
            put_int(&mut request, request::SENT_FROM, sent_from);
            for (field, text) in [(request::TAG, tag), (request::TIME, time)] {
                if !text.is_empty() {
                    put_block(&mut request, field, text.as_bytes());
                }
            }
            request.extend_from_slice(&around.1);
            let mut start = envelope.1.to_vec();
            put_varint(&mut start, REQUEST);
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
    while let Some(frame) = take_frame(&data[end..]) {
        frames.push((frame.serial, PyBytes::new(py, &frame.stream)));
        end += frame.bytes;
    }
    (end, frames)
}

struct Frame {
    serial: i32,
    stream: Vec<u8>,
    /// How many the frame has.
    bytes: usize,
}

fn take_frame(data: &[u8]) -> Option<Frame> {
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
    Some(Frame { serial, stream, bytes: at })
}

/// Where a broker stored a message, if it says so, and the message's id.
#[derive(Debug, PartialEq, IntoPyObject)]
pub struct Sent(Option<i64>, i64);

/// Offset and message id of each answer that says the broker has the message; None for all others.
#[pyfunction]
pub fn take_sent(streams: Vec<PyBackedBytes>) -> Vec<Option<Sent>> {
    streams.iter().map(|stream| read_sent(stream)).collect()
}

fn read_sent(data: &[u8]) -> Option<Sent> {
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
    if !data[body.clone()].starts_with(&[METHOD as u8, SEND_MESSAGE, DATA as u8]) {
        return None;
    }
    let mut answer = Reader { data, at: body.start + 3, end: body.end };
    let length = answer.varint(5)?;
    if answer.at as u64 + length != body.end as u64 {
        return None;
    }
    let (mut success, mut code, mut text, mut id, mut offset) = (None, None, None, None, None);
    let (mut require_auth, mut append_time) = (None, None);
    while answer.at < answer.end {
        let again = match answer.tag()? {
            response::SUCCESS => success.replace(answer.value()?).is_some(),
            response::CODE => code.replace(answer.value()? as i32).is_some(),
            response::TEXT => text.replace(answer.block()?).is_some(),
            response::REQUIRE_AUTH => require_auth.replace(answer.value()?).is_some(),
            response::MESSAGE_ID => id.replace(answer.value()? as i64).is_some(),
            response::APPEND_TIME => append_time.replace(answer.value()?).is_some(),
            response::APPEND_OFFSET => offset.replace(answer.value()? as i64).is_some(),
            tag if tag >> 3 > response::LAST_NUMBER => answer.pass(tag).is_none(),
            _ => true,
        };
        if again {
            return None;
        }
    }
    std::str::from_utf8(&data[text?]).ok()?;
    success?;
    (code? == SUCCESS).then_some(Sent(offset, id?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_taken_as_it_was_put() {
        let stream: Vec<u8> = (0..2 * BLOCK_BYTES + 7).map(|at| at as u8).collect();
        let mut data = Vec::new();
        put_frame(&mut data, -3, &stream).unwrap();
        let frame = take_frame(&data).unwrap();
        assert_eq!((frame.serial, frame.bytes), (-3, data.len()));
        assert_eq!(frame.stream, stream);
        for cut in [0, 3, HEADER_BYTES, HEADER_BYTES + 3, data.len() - 1] {
            assert!(take_frame(&data[..cut]).is_none(), "{cut}");
        }
        data[0] ^= 1;
        assert!(take_frame(&data).is_none());
    }

    #[test]
    fn streams_have_bounds() {
        assert_eq!(put_frame(&mut Vec::new(), 1, &[]), None);
        assert_eq!(put_frame(&mut Vec::new(), 1, &vec![0; MAX_STREAM_BYTES + 1]), None);
        assert_eq!(put_frame(&mut Vec::new(), 1, &vec![0; MAX_STREAM_BYTES]), Some(()));
    }

    #[test]
    fn numbers_are_written_as_protobuf_writes_them() {
        let mut out = Vec::new();
        put_varint(&mut out, 300);
        put_int(&mut out, request::FLAG, 2);
        put_block(&mut out, request::TAG, b"web");
        assert_eq!(out, [0xAC, 2, 0x28, 2, 0x42, 3, b'w', b'e', b'b']);
        out.clear();
        put_int(&mut out, request::CHECKSUM, -1);
        assert_eq!(out, [0x30, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1]);
    }

    #[test]
    fn an_answer_says_where_the_message_is() {
        // A response, success; method 13; success, 200, "7", the id and the offset.
        let answer = |code: u8| {
            vec![
                2, 0x08, 1, 2, 0x08, 0, 16, 0x08, 13, 0x12, 12, 0x08, 1, 0x10, code, 1, 0x1A, 1, b'7', 0x28, 7, 0x38,
                28,
            ]
        };
        assert_eq!(read_sent(&answer(0xC8)), Some(Sent(Some(28), 7)));
        assert_eq!(read_sent(&answer(0xC9)), None);
        let whole = answer(0xC8);
        for cut in 0..whole.len() {
            assert_eq!(read_sent(&whole[..cut]), None, "{cut}");
        }
    }
}
