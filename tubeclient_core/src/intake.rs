//! The other side of `sends`: what a broker makes of the requests of producers that came together.

use std::collections::BTreeMap;
use std::ops::Range;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyList;

use crate::messages::checksum;
use crate::sends::{put_block, put_frame, put_varint};
use crate::wire::Reader;

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
                (0x22, 27 + length, 4),
                (0x08, id, 9),
                (0x10, send.checksum as u64, 5),
                (0x20, u64::from(send.flag as u32), 5),
                (0x1A, length, 4),
            ] {
                data.push(tag);
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
    // SendMessageResponseB2P: success, 200, the id as a text for old clients, and numbers.
    let mut message = vec![0x08, 1, 0x10, 0xC8, 1];
    put_block(&mut message, 3, id.to_string().as_bytes());
    for (field, value) in [(4, u64::from(require_auth)), (5, id), (6, now_ms as u64), (7, offset as u64)] {
        message.push(field << 3);
        put_varint(&mut message, value);
    }
    let mut body = vec![0x08, 13];
    put_block(&mut body, 2, &message);
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
        let Some((head, send)) = read_send(&stream, most_bytes) else { break };
        groups.entry((head, send.partition)).or_default().push(all.len());
        all.push((serial, stream, send));
    }
    Ok(Sends { all, groups: groups.into_values().collect() })
}

/// A request's message, and the fields that say whose it is and to which topic it goes.
fn read_send(data: &[u8], most_bytes: usize) -> Option<(Vec<u8>, Send)> {
    let mut reader = Reader { data, at: 0, end: data.len() };
    // RpcConnHeader: a request. RequestHeader: a broker's service, and a version. RequestBody: method 13 and a timeout.
    let (connection, head, body) = (reader.block()?, reader.block()?, reader.block()?);
    let usual = data[connection] == [0x08, 0] && matches!(data[head], [0x08, 2 | 3, 0x10, ..0x80]);
    (usual && data[body.clone()].starts_with(&[0x08, 13, 0x10])).then_some(())?;
    let mut reader = Reader { data, at: body.start + 3, end: body.end };
    let (_, tag, request) = (reader.value()?, reader.tag()?, reader.block()?);
    (tag == 0x1A && request.end == body.end).then_some(())?;
    let mut reader = Reader { data, at: request.start, end: request.end };
    let (mut head, mut numbers, mut blocks) = (Vec::new(), [None; 8], [const { None::<Range<usize>> }; 10]);
    while reader.at < reader.end {
        let start = reader.at;
        let tag = reader.tag()?;
        match (tag >> 3, tag & 7) {
            // As for parsers, the last one counts.
            (field @ (3 | 5..=7), 0) => numbers[field as usize] = Some(reader.value()? as i32),
            (field @ (4 | 8 | 9), 2) => blocks[field as usize] = Some(reader.block()?),
            (1 | 2 | 10.., _) => {
                reader.pass(tag)?;
                head.extend_from_slice(&data[start..reader.at]);
            }
            _ => return None,
        }
    }
    let [_, _, _, partition, _, flag, came, sent_from] = numbers;
    let text = |field: usize| std::str::from_utf8(blocks[field].clone().map_or(&[], |at| &data[at])).ok();
    let (tag, _, _) = (text(8)?, text(9)?, sent_from?);
    let payload = blocks[4].clone().filter(|at| (1..=most_bytes).contains(&at.len()))?;
    let checksum = checksum(&data[payload.clone()]);
    (came? == -1 || came? == checksum).then_some(())?;
    // What Python strips, and Java's hash.
    let tag = tag.trim_matches(|one: char| one.is_whitespace() || ('\x1C'..='\x1F').contains(&one));
    let hash = tag.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    let tag_hash = if tag.is_empty() { -1 } else { hash };
    Some((head, Send { partition: partition?, payload, flag: flag?, checksum, tag_hash }))
}
