//! The fields of the call that sends a message, as tags: `SendMessageRequestP2B` and `SendMessageResponseB2P` of
//! tubeclient/wire/proto/broker.proto, and what is around them, of rpc.proto.

use crate::wire::{BLOCK, VARINT, tag_of};

/// The method's number.
pub const SEND_MESSAGE: u8 = 13;
/// The code of a message that was stored.
pub const SUCCESS: i32 = 200;

/// Of `RequestBody`.
pub const METHOD: u64 = tag_of(1, VARINT);
pub const TIMEOUT: u64 = tag_of(2, VARINT);
pub const REQUEST: u64 = tag_of(3, BLOCK);
/// Of `RspResponseBody`.
pub const DATA: u64 = tag_of(2, BLOCK);

pub mod request {
    use super::{BLOCK, VARINT, tag_of};

    pub const TOPIC: u64 = tag_of(2, BLOCK);
    pub const PARTITION: u64 = tag_of(3, VARINT);
    pub const PAYLOAD: u64 = tag_of(4, BLOCK);
    pub const FLAG: u64 = tag_of(5, VARINT);
    pub const CHECKSUM: u64 = tag_of(6, VARINT);
    pub const SENT_FROM: u64 = tag_of(7, VARINT);
    pub const TAG: u64 = tag_of(8, BLOCK);
    pub const TIME: u64 = tag_of(9, BLOCK);
}

pub mod response {
    use super::{BLOCK, VARINT, tag_of};

    pub const SUCCESS: u64 = tag_of(1, VARINT);
    pub const CODE: u64 = tag_of(2, VARINT);
    pub const TEXT: u64 = tag_of(3, BLOCK);
    pub const REQUIRE_AUTH: u64 = tag_of(4, VARINT);
    pub const MESSAGE_ID: u64 = tag_of(5, VARINT);
    pub const APPEND_TIME: u64 = tag_of(6, VARINT);
    pub const APPEND_OFFSET: u64 = tag_of(7, VARINT);
    pub const LAST_NUMBER: u64 = 7;
}
