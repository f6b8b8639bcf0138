"""Saves the 30 s a TubeMQ master lets pass between a topic being on a broker and clients hearing of it.

The wait is fixed in the master (its step "wait_sub") and no setting changes it. A broker that registers while it
is already online and reports its topics with the registration has them published at once, though; that is what
happens after a master restart. So once a broker has taken a new topic over, its registration is closed on its
behalf with the RPC it would send itself on a clean stop; its next heartbeat is answered "unknown, register
again", and it does. In between, at most one heartbeat period, the master shows clients no topic of that broker.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

from tests.apache.admin import AdminError

# The wire's begin token, and the numbers of the RPC "a broker leaves" (TubeMQ's RPC.proto and MasterService.proto).
_TOKEN: Final = 0xFF7FF4FE
_MASTER_SERVICE: Final = 1
_PROTOCOL_VERSION: Final = 3
_BROKER_CLOSE: Final = 9
# Milliseconds the master may take, as told to it, and seconds we wait.
_RPC_TIMEOUT_MS: Final = 5_000
_SOCKET_TIMEOUT: Final = 5.0

# The step of a broker's state at the master in which it waits out the 30 s.
WAIT_SUBSCRIBE_STEP: Final = 4


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _close_frame(broker_id: int) -> bytes:
    connection_header = _number(1, 0)
    request_header = _number(1, _MASTER_SERVICE) + _number(2, _PROTOCOL_VERSION)
    close_request = _bytes(1, str(broker_id).encode())
    body = _number(1, _BROKER_CLOSE) + _number(2, _RPC_TIMEOUT_MS) + _bytes(3, close_request)
    block = b"".join(_varint(len(part)) + part for part in (connection_header, request_header, body))
    serial, blocks = 1, 1
    return struct.pack(">IiiI", _TOKEN, serial, blocks, len(block)) + block


def forget_broker(master_host: str, master_port: int, broker_id: int) -> None:
    """Makes the master drop the broker's registration; AdminError if it gives no answer in 5 s.

    What the answer says is not read: the caller watches the broker's state anyway, and may ask again.
    """
    try:
        with socket.create_connection((master_host, master_port), timeout=_SOCKET_TIMEOUT) as connection:
            connection.settimeout(_SOCKET_TIMEOUT)
            connection.sendall(_close_frame(broker_id))
            answer = connection.recv(4)
    except OSError as error:
        raise AdminError(f"master {master_host}:{master_port}: closing broker {broker_id}: {error}") from error
    if not answer:
        raise AdminError(f"master {master_host}:{master_port}: closed the connection when asked to forget a broker")
