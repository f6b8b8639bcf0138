"""What the fuzzing begins with: one right input or some for each target."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import Iterator
from typing import Literal

from spark_source.options.table import OPTIONS
from tests.tubeclient.web_answers import ANSWERS, PARSERS
from tubeclient.inlong import OwnRecord, RecordGroup, encode_bin_pack, encode_message_objs, encode_pack
from tubeclient.wire.envelope import encode_error, encode_request, encode_response
from tubeclient.wire.framing import encode_frame
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import checksum, encode_attributes, encode_payload
from tubeclient.wire.proto import broker_pb2, master_pb2

__all__ = [
    "answers",
    "calls",
    "frames",
    "handshakes",
    "inlong",
    "offsets",
    "options",
    "packs",
    "payloads",
    "queries",
    "streams",
    "texts",
    "web_answers",
    "web_requests",
]

_COMPRESSIONS: tuple[Literal["none", "gzip", "snappy"], ...] = ("none", "gzip", "snappy")
_MANY_DIGITS = b"9" * 5000
"""Python refuses to read more than 4300."""

_WHO: dict[str, object] = {"clientId": "c", "groupName": "g"}
_JOIN = {**_WHO, "topicList": ["clicks"], "hostName": "h", "sourceCount": 1, "nodeId": 0}
_PART = {**_WHO, "topicName": "clicks", "partitionId": 0}
_CALLS: dict[Method, dict[str, object]] = {
    Method.PRODUCER_REGISTER: {"clientId": "p", "topicList": ["clicks"], "brokerCheckSum": -1, "hostName": "h"},
    Method.PRODUCER_HEARTBEAT: {"clientId": "p", "topicList": ["clicks"], "brokerCheckSum": -1, "hostName": "h"},
    Method.PRODUCER_CLOSE: {"clientId": "p"},
    Method.CONSUMER_REGISTER_V2: _JOIN,
    Method.CONSUMER_HEARTBEAT_V2: _WHO,
    Method.PARTITION_METADATA: {**_WHO, "brokerConfigId": -2, "topicMetaInfoId": -2},
    Method.CONSUMER_CLOSE: _WHO,
    Method.SEND_MESSAGE: {
        "clientId": "p",
        "topicName": "clicks",
        "partitionId": 0,
        "data": b"body",
        "flag": 0,
        "checkSum": -1,
        "sentAddr": 0,
    },
    Method.PARTITION_REGISTER: {**_PART, "opType": 31, "readStatus": 0, "currOffset": 0, "filterCondStr": ["red"]},
    Method.PARTITION_HEARTBEAT: {**_WHO, "readStatus": 0, "partitionInfo": ["1:127.0.0.1:8123#clicks:0"]},
    Method.GET_MESSAGES: {**_PART, "lastPackConsumed": True, "manualCommitOffset": False, "escFlowCtrl": True},
    Method.COMMIT_OFFSET: {**_PART, "lastPackConsumed": True},
}


def _pack() -> bytes:
    wire = broker_pb2.GetMessageResponseB2C(success=True, errCode=200, errMsg="", currOffset=0, maxOffset=56)
    for number, (body, attributes) in enumerate([(b"one", ""), (b"two", encode_attributes({"k": "v"}, "red"))]):
        payload, flag = encode_payload(body, attributes)
        wire.messages.add(messageId=number, checkSum=checksum(payload), payLoadData=payload, flag=flag)
    return wire.SerializeToString()


def frames() -> Iterator[bytes]:
    """Of any stream."""
    yield b"\x07" + encode_frame(1, b"abc") + encode_frame(2, bytes(9000))
    yield b"\xff" + b"HTTP/1.1 200 OK\r\n\r\n"


def answers() -> Iterator[bytes]:
    """The number of the method, and the stream."""
    for number, method in enumerate(Method):
        spec = method.spec
        yield bytes([number]) + encode_response(spec.method_id, b"")
        yield bytes([number]) + encode_error("x.StandbyException", "no")
    number = list(Method).index(Method.GET_MESSAGES)
    yield bytes([number]) + encode_response(Method.GET_MESSAGES.spec.method_id, _pack())
    layout = master_pb2.GetPartMetaResponseM2C(errCode=200, errMsg="", brokerConfigId=1, brokerConfigList=["1:h:1"])
    number = list(Method).index(Method.PARTITION_METADATA)
    yield bytes([number]) + encode_response(Method.PARTITION_METADATA.spec.method_id, layout.SerializeToString())


def packs() -> Iterator[bytes]:
    """One of two messages, and an empty one."""
    yield _pack()
    yield broker_pb2.GetMessageResponseB2C(success=False, errCode=404, errMsg="nothing").SerializeToString()


def payloads() -> Iterator[bytes]:
    """With attributes, and cut off."""
    yield encode_payload(b"body", encode_attributes({"k": "v"}, "red", "202601311259"))[0]
    yield b"\0\0\0\x63k=v"


def texts() -> Iterator[bytes]:
    """One of each kind."""
    yield b"1:host:8123"
    yield b"clicks#1:2:3:1,2:1:1:0\nviews#1:1:1:1"
    yield b"clicks#1:3:2#4194304"
    yield b"1:host: #clicks:0"
    yield b"clicks#red,blue"
    yield b"clicks#1:" + _MANY_DIGITS
    yield b"clicks:2:" + _MANY_DIGITS
    yield b"%" + _MANY_DIGITS + b"-1"


def inlong() -> Iterator[bytes]:
    """Each version, and protobuf in each compression."""
    common = {"groupId": "g", "streamId": "s", "dt": "1700000000000"}
    own = [OwnRecord(b"one", {"k": "v"}), OwnRecord(b"two", {"t": "2026013112"})]
    for snappy in (False, True):
        yield b"{}\n" + encode_pack([RecordGroup(common, [b"one", b"two"])], 1, made_ms=0, snappy=snappy)
        yield b"{}\n" + encode_pack([RecordGroup(common, [b"one"])] * 2, 2, made_ms=0, snappy=snappy)
        yield b"{}\n" + encode_pack([RecordGroup(common, own)], 3, made_ms=0, snappy=snappy)
        yield b"{}\n" + encode_bin_pack(own, common, data_time_s=0, snappy=snappy)
        yield b"{}\n" + encode_bin_pack([b"one"], common, data_time_s=0, numbers=(1, 2), snappy=snappy)
    outer = {"version": "1", "inlongGroupId": "g", "inlongStreamId": "s"}
    for number, compression in enumerate(_COMPRESSIONS):
        head = json.dumps({**outer, "compressType": str(number)}).encode()
        yield head + b"\n" + encode_message_objs(own, [1, 2], compression, "10.0.0.1")
    yield json.dumps({"version": "0", "inlongGroupId": "g", "msgTime": "5"}).encode() + b"\nbody"


def web_answers() -> Iterator[bytes]:
    """Each answer to its call."""
    for number, name in enumerate(PARSERS):
        yield bytes([number]) + json.dumps(ANSWERS.get(name, {"result": True})).encode()


def offsets() -> Iterator[bytes]:
    """Of a query, of options, and of an offset log."""
    query = '{"version":1,"1:clicks":{"0-3":2800,"10000":28},"2:clicks":{"0":"latest"}}'
    yield query.encode()
    yield b'{"1:clicks:0": 2800, "default": "earliest"}'
    yield b'{"1:clicks:0": 1700000000000, "default": "2026-01-31T12:59:00Z"}'
    yield f'v1\n{{"batchWatermarkMs":0}}\n{query}'.encode()
    yield f"v2\n{{}}\n0:{query}".encode()
    yield b"2026-11-21T10:31Z"
    yield b"batch:7"
    yield from (word + _MANY_DIGITS for word in (b"", b"batch:", b"time:"))
    yield b'{"version":1,"1:clicks:0":{"' + _MANY_DIGITS + b'":28}}'
    yield b'{"' + _MANY_DIGITS + b':clicks:0":{"0":28}}'


def options() -> Iterator[bytes]:
    """A number and a text, by line."""
    texts = ("true", "10", "5 seconds", "clicks,views", "1:clicks:0", "clicks#red", '{"1:clicks:0": 28}', "UTC", "h:1")
    yield b"\n".join(bytes([number]) + text.encode() for number, text in enumerate(texts * 7))
    for text in texts:
        yield b"\x01" + text.encode() + b"\n\x20" + text.encode()
    yield from (bytes([number]) + _MANY_DIGITS for number in range(len(OPTIONS)))


def _requests() -> Iterator[bytes]:
    """Requests of all methods with their fields: the number of the method, and the message."""
    for number, method in enumerate(Method):
        if method in _CALLS:
            yield bytes([number]) + method.spec.request(**_CALLS[method]).SerializeToString()


def calls() -> Iterator[bytes]:
    """Some requests to one server: each a length of two bytes, and the number of a method with its message."""
    every = list(_requests())
    yield b"".join(len(one).to_bytes(2) + one for one in every)
    for one in every:
        yield len(one).to_bytes(2) + one


def streams() -> Iterator[bytes]:
    """All that a client sends over a connection."""
    frames = []
    for number, (method, fields) in enumerate(_CALLS.items()):
        spec = method.spec
        body = spec.request(**fields).SerializeToString()
        frames.append(encode_frame(number, encode_request(spec.service, spec.method_id, body, 1000)))
    yield from frames
    yield b"".join(frames)


def handshakes() -> Iterator[bytes]:
    """How TLS begins, by several versions; and what does not know of TLS."""
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context()
        context.minimum_version = context.maximum_version = version
        sent = ssl.MemoryBIO()
        with contextlib.suppress(ssl.SSLWantReadError):
            context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost").do_handshake()
        hello = sent.read()
        yield hello
        yield hello[: len(hello) // 2]
        yield hello + b"\x14\x03\x03\0\x01\x01" + b"\x17\x03\x03\xff\xff" + bytes(1000)
        yield hello + b"\x15\x03\x03\0\x02\x02\x28"  # a fatal alert
    yield from streams()
    yield b"GET / HTTP/1.1\r\n\r\n"


def queries() -> Iterator[bytes]:
    """Calls of web ports, by line."""
    of_master = (
        "admin_query_broker_run_status&brokerId=1",
        "admin_query_topic_info&topicName=clicks",
        "admin_query_consume_group_detail&consumeGroup=g",
        "admin_query_sub_info&topicName=clicks",
        "admin_query_client_balance_group_set",
        "admin_add_new_topic_record&topicName=n&brokerId=1&numPartitions=2&numTopicStores=2",
        "admin_modify_topic_info&topicName=clicks&brokerId=1&numPartitions=3",
        "admin_delete_topic_info&topicName=n&brokerId=1",
        "admin_reload_broker_configure&brokerId=1",
        "admin_set_client_balance_group_consume_from_max&groupName=g",
        'admin_set_group_flow_control_rule&groupName=g&statusId=1&flowCtrlInfo=[{"type":0,"rule":[]}]',
        "admin_rmv_group_flow_control_rule&groupName=g",
        "admin_set_cluster_default_setting&maxMsgSizeInMB=4",
    )
    of_broker = (
        "admin_query_pubinfo&topicName=clicks",
        "admin_query_group_offset&topicName=clicks&groupName=g&partitionId=0&requireRealOffset=true",
        "admin_query_offset&groupName=g",
        "admin_get_booked_groupname",
        'admin_set_offset&groupName=g&manualSet=true&offsetJsonInfo={"1:clicks:0":28}',
        "admin_set_offset&groupName=g&manualSet=false&topicName=clicks",
        "admin_clone_offset&sourceGroupName=g&targetGroupName=h&topicName=clicks",
        "admin_manual_set_current_offset&topicName=clicks&groupName=g&partitionId=0&manualOffset=28",
        "admin_rmv_offset&groupName=g&onlyMemory=true",
        "admin_snapshot_message&topicName=clicks&partitionId=0&msgCount=5",
    )
    too_long = [f"{query}&brokerId={_MANY_DIGITS.decode()}" for query in (of_master[0], of_broker[0])]
    every = [
        f"method={query}&modifyUser=u&createUser=u&confModAuthToken=t" for query in [*of_master, *of_broker, *too_long]
    ]
    yield from (query.encode() for query in every)
    yield "\n".join(every).encode()


def web_requests() -> Iterator[bytes]:
    """Requests to a web port."""
    for query in next(reversed(list(queries()))).decode().split("\n"):
        path = query.replace("{", "%7B").replace('"', "%22").replace("confModAuthToken=t", "confModAuthToken=embedded")
        yield f"GET /webapi.htm?{path} HTTP/1.1\r\nHost: h\r\n\r\n".encode()
    form = "method=admin_query_pubinfo&topicName=clicks"
    head = "POST /broker.htm HTTP/1.1\r\nHost: h\r\nContent-Type: "
    yield f"{head}application/x-www-form-urlencoded\r\nContent-Length: {len(form)}\r\n\r\n{form}".encode()
    part = '--x\r\nContent-Disposition: form-data; name="method"\r\n\r\nadmin_query_pubinfo\r\n--x--\r\n'
    yield f"{head}multipart/form-data; boundary=x\r\nContent-Length: {len(part)}\r\n\r\n{part}".encode()
    yield f"{head}text/plain\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".encode()
