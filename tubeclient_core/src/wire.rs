//! Protobuf's wire format, and the one message that is large: `GetMessageResponseB2C`.
//!
//! Only what brokers write is taken: each field of a message once, and no groups. What is not is no error here, as
//! parsers take more.

use std::ops::Range;

/// Wire types.
pub const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
pub const BLOCK: u64 = 2;
const FIXED_32: u64 = 5;

/// What is before the value of a field.
pub const fn tag_of(number: u64, wire_type: u64) -> u64 {
    number << 3 | wire_type
}

/// Of `GetMessageResponseB2C`.
pub const MESSAGES: u64 = tag_of(4, BLOCK);
/// Of `TransferedMessage`.
pub const MESSAGE_ID: u64 = tag_of(1, VARINT);
pub const CHECKSUM: u64 = tag_of(2, VARINT);
pub const PAYLOAD: u64 = tag_of(3, BLOCK);
pub const FLAG: u64 = tag_of(4, VARINT);

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
            VARINT => self.value().map(drop),
            FIXED_64 => self.skip(8).map(drop),
            BLOCK => self.block().map(drop),
            FIXED_32 => self.skip(4).map(drop),
            _ => None,
        }
    }
}

pub struct Answer {
    pub messages: Vec<Message>,
    /// All other fields, as they came.
    pub rest: Vec<u8>,
}

/// The answer that is `place` of `data`.
pub fn read_answer(data: &[u8], place: Range<usize>) -> Option<Answer> {
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
    Some(Answer { messages, rest })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(data: &[u8]) -> Reader<'_> {
        Reader { data, at: 0, end: data.len() }
    }

    /// An answer with a code, and a message of five bytes.
    const ANSWER: [u8; 17] = [0x10, 0xC8, 1, 0x22, 11, 0x08, 7, 0x10, 9, 0x1A, 3, b'a', b'b', b'c', 0x20, 1, 0x08];

    #[test]
    fn varints_may_be_padded_and_end() {
        assert_eq!(reader(&[0x96, 0x01]).value(), Some(150));
        assert_eq!(reader(&[0x80, 0x80, 0x00]).varint(4), Some(0));
        assert_eq!(reader(&[0xFF; 9]).value(), None);
        assert_eq!(reader(&[0x80, 0x80]).varint(2), None);
        let most = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
        assert_eq!(reader(&most).value(), Some(u64::MAX));
        assert_eq!(reader(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02]).value(), None);
    }

    #[test]
    fn tags_are_not_padded() {
        assert_eq!(reader(&[0x22]).tag(), Some(MESSAGES));
        assert_eq!(reader(&[0xA2, 0x00]).tag(), None);
        assert_eq!(reader(&[0xFF, 0xFF, 0xFF, 0xFF, 0x10]).tag(), None);
    }

    #[test]
    fn blocks_stay_within_their_end() {
        assert_eq!(reader(&[2, b'a', b'b', b'c']).block(), Some(1..3));
        assert_eq!(reader(&[4, b'a', b'b', b'c']).block(), None);
        assert_eq!(Reader { data: &[2, b'a', b'b'], at: 0, end: 2 }.block(), None);
    }

    #[test]
    fn fields_of_any_kind_but_groups_are_passed_over() {
        for (wire_type, data, length) in
            [(VARINT, [0x80, 1, 0, 0, 0, 0, 0, 0], 2), (FIXED_64, [0; 8], 8), (BLOCK, [1; 8], 2), (FIXED_32, [0; 8], 4)]
        {
            let mut reader = reader(&data);
            assert_eq!((reader.pass(tag_of(9, wire_type)), reader.at), (Some(()), length));
        }
        assert_eq!(reader(&[0; 8]).pass(tag_of(9, 3)), None);
    }

    #[test]
    fn an_answer_is_its_messages_and_the_rest() {
        let answer = read_answer(&ANSWER, 0..16).unwrap();
        assert_eq!(answer.messages, [Message { id: 7, checksum: 9, flag: 1, payload: 11..14 }]);
        assert_eq!(answer.rest, [0x10, 0xC8, 1]);
        assert!(read_answer(&ANSWER, 3..16).unwrap().rest.is_empty());
    }

    #[test]
    fn what_brokers_do_not_write_is_not_ours() {
        for cut in [2, 4, 8, 12, 15, 17] {
            assert!(read_answer(&ANSWER, 0..cut).is_none(), "{cut}");
        }
        let twice = [0x22, 4, 0x08, 7, 0x08, 7];
        let lacks_its_flag = [0x22, 4, 0x08, 7, 0x10, 9];
        let of_other_kind = [0x20, 1];
        for data in [&twice[..], &lacks_its_flag, &of_other_kind] {
            assert!(read_answer(data, 0..data.len()).is_none(), "{data:?}");
        }
    }
}
