//! The other side of `sends`: what a broker makes of the requests of producers that came together.

use std::collections::BTreeMap;
use std::ops::Range;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyList;

use crate::calls::{DATA, METHOD, REQUEST, SEND_MESSAGE, SUCCESS, TIMEOUT, request, response};
use crate::messages::checksum;
use crate::sends::{put_block, put_frame, put_varint};
use crate::wire::{CHECKSUM, FLAG, MESSAGE_ID, MESSAGES, PAYLOAD, Reader};

/// As in the embedded broker's store.
const ID_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// One message; `payload` is where its bytes are in the request.
struct Send {
    partition: i32,
    payload: Range<usize>,
    flag: i32,
    checksum: i32,
    tag_hash: i32,
}

/// Requests to store a message each, in the order they came.
#[pyclass(frozen, module = "tubeclient_core")]
pub struct Sends {
    all: Vec<(i32, PyBackedBytes, Send)>,
    /// The numbers of those that are equal but for the message: of one client, for one partition.
    #[pyo3(get)]
    groups: Vec<Vec<usize>>,
}

#[pymethods]
impl Sends {
    /// What a store appends to its data and its index for the requests of these numbers, and the frames that answer
    /// them. `ends` are the counter of the last message's id, the end of the index and that of the data.
    fn stored(
        &self,
        numbers: Vec<usize>,
        ends: (u64, i64, i64),
        now_ms: i64,
        require_auth: bool,
    ) -> (Vec<u8>, Vec<u8>, Vec<Vec<u8>>) {
        let (mut data, mut index, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for (serial, stream, send) in numbers.into_iter().filter_map(|number| self.all.get(number)) {
            let id = (ends.0 + answers.len() as u64 + 1).wrapping_mul(ID_FACTOR) & i64::MAX as u64;
            let (offset, position) = (ends.1 + index.len() as i64, ends.2 + data.len() as i64);
            let length = send.payload.len() as u64;
            for (tag, value, width) in [
                (MESSAGES, 27 + length, 4),
                (MESSAGE_ID, id, 9),
                (CHECKSUM, send.checksum as u64, 5),
                (FLAG, u64::from(send.flag as u32), 5),
                (PAYLOAD, length, 4),
            ] {
                data.push(tag as u8);
                put_padded(&mut data, value, width);
            }
            data.extend_from_slice(&stream[send.payload.clone()]);
            index.extend_from_slice(&send.partition.to_be_bytes());
            index.extend_from_slice(&position.to_be_bytes());
            index.extend_from_slice(&((ends.2 + data.len() as i64 - position) as i32).to_be_bytes());
            index.extend_from_slice(&send.tag_hash.to_be_bytes());
            index.extend_from_slice(&now_ms.to_be_bytes());
            answers.push(answer(*serial, id, offset, now_ms, require_auth));
        }
        (data, index, answers)
    }
}

/// A varint of exactly so many bytes.
fn put_padded(out: &mut Vec<u8>, mut value: u64, width: usize) {
    for _ in 1..width {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8 & 0x7F);
}

fn answer(serial: i32, id: u64, offset: i64, now_ms: i64, require_auth: bool) -> Vec<u8> {
    let mut message = Vec::new();
    let put = |message: &mut Vec<u8>, tag, value| {
        put_varint(message, tag);
        put_varint(message, value);
    };
    put(&mut message, response::SUCCESS, 1);
    put(&mut message, response::CODE, SUCCESS as u64);
    // Old clients read the id as a text.
    put_block(&mut message, response::TEXT, id.to_string().as_bytes());
    put(&mut message, response::REQUIRE_AUTH, u64::from(require_auth));
    put(&mut message, response::MESSAGE_ID, id);
    put(&mut message, response::APPEND_TIME, now_ms as u64);
    put(&mut message, response::APPEND_OFFSET, offset as u64);
    let mut body = vec![METHOD as u8, SEND_MESSAGE];
    put_block(&mut body, DATA, &message);
    let mut stream = vec![2, 0x08, 1, 4, 0x08, 0, 0x18, 3];
    put_varint(&mut stream, body.len() as u64);
    stream.extend_from_slice(&body);
    let mut frame = Vec::new();
    put_frame(&mut frame, serial, &stream);
    frame
}

/// The requests from number `start` on, serial number and stream of each, that ask to store a message which is whole
/// and has at most so many bytes. It ends before any other.
#[pyfunction]
pub fn take_sends(frames: &Bound<'_, PyList>, start: usize, most_bytes: usize) -> PyResult<Sends> {
    let (mut all, mut groups) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
    for frame in frames.iter().skip(start) {
        let (serial, stream) = frame.extract::<(i32, PyBackedBytes)>()?;
        let Some(Asked { head, send }) = read_send(&stream, most_bytes) else { break };
        groups.entry((head, send.partition)).or_default().push(all.len());
        all.push((serial, stream, send));
    }
    Ok(Sends { all, groups: groups.into_values().collect() })
}

struct Asked {
    /// The fields that say whose the message is and to which topic it goes.
    head: Vec<u8>,
    send: Send,
}

fn read_send(data: &[u8], most_bytes: usize) -> Option<Asked> {
    let mut reader = Reader { data, at: 0, end: data.len() };
    // RpcConnHeader: a request. RequestHeader: a broker's service, and a version. RequestBody: method 13 and a timeout.
    let (connection, head, body) = (reader.block()?, reader.block()?, reader.block()?);
    let usual = data[connection] == [0x08, 0] && matches!(data[head], [0x08, 2 | 3, 0x10, ..0x80]);
    (usual && data[body.clone()].starts_with(&[METHOD as u8, SEND_MESSAGE, TIMEOUT as u8])).then_some(())?;
    let mut reader = Reader { data, at: body.start + 3, end: body.end };
    let (_, tag, asked) = (reader.value()?, reader.tag()?, reader.block()?);
    (tag == REQUEST && asked.end == body.end).then_some(())?;
    let mut reader = Reader { data, at: asked.start, end: asked.end };
    let (mut head, mut partition, mut flag, mut came, mut sent_from) = (Vec::new(), None, None, None, None);
    let (mut payload, mut tag, mut time) = (None, 0..0, 0..0);
    while reader.at < reader.end {
        let start = reader.at;
        // As for parsers, the last one counts.
        match reader.tag()? {
            request::PARTITION => partition = Some(reader.value()? as i32),
            request::PAYLOAD => payload = Some(reader.block()?),
            request::FLAG => flag = Some(reader.value()? as i32),
            request::CHECKSUM => came = Some(reader.value()? as i32),
            request::SENT_FROM => sent_from = Some(reader.value()? as i32),
            request::TAG => tag = reader.block()?,
            request::TIME => time = reader.block()?,
            other if matches!(other >> 3, 1 | 2 | 10..) => {
                reader.pass(other)?;
                head.extend_from_slice(&data[start..reader.at]);
            }
            _ => return None,
        }
    }
    let text = |place: Range<usize>| std::str::from_utf8(&data[place]).ok();
    let (tag, _, _) = (text(tag)?, text(time)?, sent_from?);
    let payload = payload.filter(|at| (1..=most_bytes).contains(&at.len()))?;
    let checksum = checksum(&data[payload.clone()]);
    (came? == -1 || came? == checksum).then_some(())?;
    // What Python strips, and Java's hash.
    let tag = tag.trim_matches(|one: char| one.is_whitespace() || ('\x1C'..='\x1F').contains(&one));
    let hash = tag.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    let tag_hash = if tag.is_empty() { -1 } else { hash };
    let send = Send { partition: partition?, payload, flag: flag?, checksum, tag_hash };
    Some(Asked { head, send })
}
