//! Reads the one message that is large: GetMessageResponseB2C, of protobuf's wire format.
//!
//! Only what brokers write is taken: each field of a message once, and no groups. What is not is no error here, as
//! parsers take more.

use std::ops::Range;

/// Number << 3 | wire type.
const MESSAGES: u64 = 4 << 3 | 2;
const MESSAGE_ID: u64 = 1 << 3;
const CHECKSUM: u64 = 2 << 3;
const PAYLOAD: u64 = 3 << 3 | 2;
const FLAG: u64 = 4 << 3;

/// One message; `payload` is where its bytes are in the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub id: i64,
    pub checksum: i32,
    pub flag: i32,
    pub payload: Range<usize>,
}

pub struct Reader<'a> {
    pub data: &'a [u8],
    pub at: usize,
    pub end: usize,
}

impl Reader<'_> {
    /// A varint of at most so many bytes; brokers may pad them.
    pub fn varint(&mut self, most: usize) -> Option<u64> {
        let mut value = 0;
        for number in 0..most {
            let byte = *self.data[..self.end].get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7F) << (7 * number);
            if byte < 0x80 {
                return (number < 9 || byte < 2).then_some(value);
            }
        }
        None
    }

    pub fn value(&mut self) -> Option<u64> {
        self.varint(10)
    }

    /// Number and wire type of a field, 32 bits.
    pub fn tag(&mut self) -> Option<u64> {
        let start = self.at;
        let tag = self.varint(5)?;
        (tag >> 32 == 0 && (self.at == start + 1 || self.data[self.at - 1] != 0)).then_some(tag)
    }

    fn skip(&mut self, count: u64) -> Option<Range<usize>> {
        let start = self.at;
        let end = start.checked_add(usize::try_from(count).ok()?)?;
        if end > self.end {
            return None;
        }
        self.at = end;
        Some(start..end)
    }

    pub fn block(&mut self) -> Option<Range<usize>> {
        let length = self.varint(5)?;
        self.skip(length)
    }

    /// The value of a field that has none but to be passed over.
    pub fn pass(&mut self, tag: u64) -> Option<()> {
        match tag & 7 {
            0 => self.value().map(drop),
            1 => self.skip(8).map(drop),
            2 => self.block().map(drop),
            5 => self.skip(4).map(drop),
            _ => None,
        }
    }
}

/// The messages of an answer, which is `place` of `data`, and all other fields as they came.
pub fn read_answer(data: &[u8], place: Range<usize>) -> Option<(Vec<u8>, Vec<Message>)> {
    let mut reader = Reader { data, at: place.start, end: place.end };
    let mut rest = Vec::new();
    let mut messages = Vec::new();
    while reader.at < place.end {
        let start = reader.at;
        let tag = reader.tag()?;
        if tag == MESSAGES {
            let block = reader.block()?;
            messages.push(read_message(data, block)?);
        } else if tag >> 3 == MESSAGES >> 3 {
            return None;
        } else {
            reader.pass(tag)?;
            rest.extend_from_slice(&data[start..reader.at]);
        }
    }
    Some((rest, messages))
}

fn read_message(data: &[u8], place: Range<usize>) -> Option<Message> {
    let end = place.end;
    let mut reader = Reader { data, at: place.start, end };
    let (mut id, mut checksum, mut payload, mut flag) = (None, None, None, None);
    while reader.at < end {
        let again = match reader.tag()? {
            // protobuf takes the low 32 bits of an int32.
            MESSAGE_ID => id.replace(reader.value()? as i64).is_some(),
            CHECKSUM => checksum.replace(reader.value()? as i32).is_some(),
            PAYLOAD => payload.replace(reader.block()?).is_some(),
            FLAG => flag.replace(reader.value()? as i32).is_some(),
            tag if tag >> 3 > 4 => {
                reader.pass(tag)?;
                false
            }
            _ => return None,
        };
        if again {
            return None;
        }
    }
    Some(Message { id: id?, checksum: checksum?, flag: flag?, payload: payload? })
}
