"""The protobuf messages: their fields against the protocol's table, golden bytes, and the generated code itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
from google.protobuf.message import Message

from tubeclient.wire.methods import BROKER_READ, BROKER_WRITE, MASTER, Method, method_of
from tubeclient.wire.proto import broker_pb2, master_pb2, rpc_pb2

ROOT = Path(__file__).resolve().parents[2]
PROTO = Path("tubeclient/wire/proto")
GENERATED = sorted(path.name for path in (ROOT / PROTO).glob("*_pb2.py*"))

# One message a line: its fields in the order of their numbers, from 1 on. `!` required, `*` repeated, else optional.
# i int32, l int64, b bool, s string, y bytes, e enum, a name a message.
FIELDS = """
RpcConnHeader          flag!i traceId:l spanId:l parentId:l
RequestHeader          serviceType:i protocolVer:i
RequestBody            method!i timeout:l request:y
ResponseHeader         status!e serviceType:i protocolVer:i
RspResponseBody        method!i data!y
RspExceptionBody       exceptionName!s stackTrace:s
AuthenticateInfo       userName!s timestamp!l nonce!i othParams!s signature!s
MasterCertificateInfo  authInfo:AuthenticateInfo authorizedToken:s
MasterAuthorizedInfo   visitAuthorizedToken!l authAuthorizedToken:s
AuthorizedInfo         visitAuthorizedToken!l authAuthorizedToken:s
ApprovedClientConfig   configId!l maxMsgSize:i
EventProto             rebalanceId:l opType:i status:i subscribeInfo*s
ClientSubRepInfo       brokerConfigId!l topicMetaInfoId!l lstAssignedTime:l reportSubInfo:b partSubInfo*s
OpsTaskInfo            groupFlowCheckId:l defFlowCheckId:l qryPriorityId:i csmFrmMaxOffsetCtrlId:l requireAuth:b \
                       defFlowControlInfo:s groupFlowControlInfo:s
RegisterRequestP2M     clientId!s topicList*s brokerCheckSum!l hostName!s authInfo:MasterCertificateInfo jdkVersion:s \
                       appdConfig:ApprovedClientConfig
RegisterResponseM2P    success!b errCode!i errMsg!s brokerCheckSum!l brokerInfos*s authorizedInfo:MasterAuthorizedInfo \
                       appdConfig:ApprovedClientConfig
HeartRequestP2M        clientId!s brokerCheckSum!l hostName!s topicList*s authInfo:MasterCertificateInfo \
                       appdConfig:ApprovedClientConfig
HeartResponseM2P       success!b errCode!i errMsg!s brokerCheckSum!l topicInfos*s brokerInfos*s requireAuth:b \
                       authorizedInfo:MasterAuthorizedInfo appdConfig:ApprovedClientConfig
CloseRequestP2M        clientId!s authInfo:MasterCertificateInfo
CloseResponseM2P       success!b errCode!i errMsg!s
RegisterRequestC2M     clientId!s groupName!s hostName!s topicList*s subscribeInfo*s topicCondition*s requireBound:b \
                       sessionTime:l sessionKey:s totalCount:i requiredPartition:s notAllocated:b selectBig:b \
                       groupFlowCheckId:l defFlowCheckId:l ssdStoreId:l qryPriorityId:i authInfo:MasterCertificateInfo \
                       jdkVersion:s
RegisterResponseM2C    success!b errCode!i errMsg!s topicInfo*s notAllocated:b defFlowCheckId:l defFlowControlInfo:s \
                       groupFlowCheckId:l groupFlowControlInfo:s ssdStoreId:l qryPriorityId:i \
                       authorizedInfo:MasterAuthorizedInfo
HeartRequestC2M        clientId!s groupName!s subscribeInfo*s reportSubscribeInfo!b event:EventProto defFlowCheckId:l \
                       groupFlowCheckId:l ssdStoreId:l qryPriorityId:i authInfo:MasterCertificateInfo
HeartResponseM2C       success!b errCode!i errMsg!s event:EventProto notAllocated:b defFlowCheckId:l \
                       defFlowControlInfo:s groupFlowCheckId:l groupFlowControlInfo:s ssdStoreId:l qryPriorityId:i \
                       requireAuth:b authorizedInfo:MasterAuthorizedInfo
CloseRequestC2M        clientId!s groupName!s authInfo:MasterCertificateInfo
CloseResponseM2C       success!b errCode!i errMsg!s
RegisterRequestC2MV2   clientId!s groupName!s hostName!s sourceCount!i nodeId!i topicList*s topicCondition*s \
                       subRepInfo:ClientSubRepInfo opsTaskInfo:OpsTaskInfo authInfo:MasterCertificateInfo jdkVersion:s
RegisterResponseM2CV2  errCode!i errMsg!s brokerConfigId:l brokerConfigList*s opsTaskInfo:OpsTaskInfo \
                       authorizedInfo:MasterAuthorizedInfo
HeartRequestC2MV2      clientId!s groupName!s subRepInfo:ClientSubRepInfo opsTaskInfo:OpsTaskInfo \
                       authInfo:MasterCertificateInfo
HeartResponseM2CV2     errCode!i errMsg!s brokerConfigId:l brokerConfigList*s topicMetaInfoId:l topicMetaInfoList*s \
                       opsTaskInfo:OpsTaskInfo authorizedInfo:MasterAuthorizedInfo
GetPartMetaRequestC2M  clientId!s groupName!s brokerConfigId!l topicMetaInfoId!l authInfo:MasterCertificateInfo
GetPartMetaResponseM2C errCode!i errMsg!s brokerConfigId:l topicMetaInfoId:l topicMetaInfoList*s brokerConfigList*s
SendMessageRequestP2B  clientId!s topicName!s partitionId!i data!y flag!i checkSum!i sentAddr!i msgType:s msgTime:s \
                       authInfo:AuthorizedInfo
SendMessageResponseB2P success!b errCode!i errMsg!s requireAuth:b messageId:l appendTime:l appendOffset:l
RegisterRequestC2B     opType!i clientId!s groupName!s topicName!s partitionId!i readStatus!i filterCondStr*s \
                       currOffset:l sessionKey:s sessionTime:l ssdStoreId:l qryPriorityId:i authInfo:AuthorizedInfo
RegisterResponseB2C    success!b errCode!i errMsg!s currOffset:l maxOffset:l
HeartBeatRequestC2B    clientId!s groupName!s readStatus!i partitionInfo*s ssdStoreId:l qryPriorityId:i \
                       authInfo:AuthorizedInfo
HeartBeatResponseB2C   success!b errCode!i errMsg!s hasPartFailure:b failureInfo*s requireAuth:b
GetMessageRequestC2B   clientId!s partitionId!i groupName!s topicName!s lastPackConsumed:b manualCommitOffset:b \
                       escFlowCtrl:b
TransferedMessage      messageId!l checkSum!i payLoadData!y flag!i
GetMessageResponseB2C  success!b errCode!i errMsg:s messages*TransferedMessage currOffset:l minLimitTime:i \
                       escFlowCtrl:b currDataDlt:l requireSlow:b maxOffset:l
MessageColumns         messageId*l checkSum*i payLoadData*y flag*i
GetMessageColumnsB2C   success!b errCode!i errMsg:s messages:MessageColumns currOffset:l minLimitTime:i \
                       escFlowCtrl:b currDataDlt:l requireSlow:b maxOffset:l
CommitOffsetRequestC2B clientId!s topicName!s partitionId!i groupName!s lastPackConsumed:b
CommitOffsetResponseB2C success!b errCode!i errMsg!s currOffset:l maxOffset:l
"""
TABLE = {name: fields for name, *fields in (line.split() for line in FIELDS.replace("\\\n", " ").splitlines() if line)}
TYPE_LETTERS = {
    FieldDescriptorProto.TYPE_INT32: "i",
    FieldDescriptorProto.TYPE_INT64: "l",
    FieldDescriptorProto.TYPE_BOOL: "b",
    FieldDescriptorProto.TYPE_STRING: "s",
    FieldDescriptorProto.TYPE_BYTES: "y",
    FieldDescriptorProto.TYPE_ENUM: "e",
}
LABEL_MARKS = {
    FieldDescriptorProto.LABEL_REQUIRED: "!",
    FieldDescriptorProto.LABEL_REPEATED: "*",
    FieldDescriptorProto.LABEL_OPTIONAL: ":",
}


def generated_fields() -> dict[str, list[str]]:
    """What the generated code holds, in the notation of the table above."""
    found = {}
    for module in (rpc_pb2, master_pb2, broker_pb2):
        for name, descriptor in module.DESCRIPTOR.message_types_by_name.items():
            proto = DescriptorProto()
            descriptor.CopyToProto(proto)
            assert [field.number for field in proto.field] == list(range(1, len(proto.field) + 1)), name
            found[name] = [
                f"{field.name}{LABEL_MARKS[field.label]}"
                f"{TYPE_LETTERS.get(field.type) or field.type_name.rpartition('.')[2]}"
                for field in proto.field
            ]
    return found


def test_fields_are_those_of_the_protocol() -> None:
    found = generated_fields()
    for name in sorted(TABLE):
        assert found.get(name) == TABLE[name], name
    assert set(found) == set(TABLE)


@pytest.mark.parametrize(
    ("method", "method_id", "service"),
    [
        (Method.PRODUCER_REGISTER, 1, MASTER),
        (Method.PRODUCER_HEARTBEAT, 2, MASTER),
        (Method.PRODUCER_CLOSE, 3, MASTER),
        (Method.CONSUMER_REGISTER, 4, MASTER),
        (Method.CONSUMER_HEARTBEAT, 5, MASTER),
        (Method.CONSUMER_CLOSE, 6, MASTER),
        (Method.SEND_MESSAGE, 13, BROKER_WRITE),
        (Method.PARTITION_REGISTER, 15, BROKER_READ),
        (Method.PARTITION_HEARTBEAT, 16, BROKER_READ),
        (Method.GET_MESSAGES, 17, BROKER_READ),
        (Method.COMMIT_OFFSET, 18, BROKER_READ),
        (Method.CONSUMER_REGISTER_V2, 20, MASTER),
        (Method.CONSUMER_HEARTBEAT_V2, 21, MASTER),
        (Method.PARTITION_METADATA, 22, MASTER),
    ],
)
def test_methods_have_their_numbers(method: Method, method_id: int, service: int) -> None:
    assert (method.spec.method_id, method.spec.service) == (method_id, service)
    assert method_of(method_id) is method


def test_services_have_their_numbers_and_all_methods_are_listed_above() -> None:
    assert (MASTER, BROKER_READ, BROKER_WRITE) == (1, 2, 3)
    assert {method.spec.method_id for method in Method} == {1, 2, 3, 4, 5, 6, 13, 15, 16, 17, 18, 20, 21, 22}
    assert [method_of(number) for number in (-1, 0, 7, 8, 9, 10, 11, 12, 14, 19, 23)] == [None] * 11


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            broker_pb2.RegisterRequestC2B(
                opType=31, clientId="c", groupName="g", topicName="t", partitionId=10001, readStatus=0, currOffset=280
            ),
            "08 1f 12 01 63 1a 01 67 22 01 74 28 91 4e 30 00 40 98 02",
        ),
        (
            broker_pb2.GetMessageRequestC2B(
                clientId="c", partitionId=0, groupName="g", topicName="t", lastPackConsumed=True
            ),
            "0a 01 63 10 00 1a 01 67 22 01 74 28 01",
        ),
        (
            broker_pb2.GetMessageResponseB2C(
                success=True,
                errCode=200,
                messages=[broker_pb2.TransferedMessage(messageId=300, checkSum=-1, payLoadData=b"\xff\x00", flag=1)],
                currOffset=28,
            ),
            # A negative int32 is ten bytes.
            "08 01 10 c8 01 22 14 08 ac 02 10 ff ff ff ff ff ff ff ff ff 01 1a 02 ff 00 20 01 28 1c",
        ),
        (
            broker_pb2.CommitOffsetRequestC2B(
                clientId="c", topicName="t", partitionId=1, groupName="g", lastPackConsumed=False
            ),
            "0a 01 63 12 01 74 18 01 22 01 67 28 00",
        ),
        (
            master_pb2.RegisterRequestC2MV2(
                clientId="c",
                groupName="g",
                hostName="h",
                sourceCount=16,
                nodeId=3,
                topicList=["t", "u"],
                subRepInfo=master_pb2.ClientSubRepInfo(brokerConfigId=-2, topicMetaInfoId=-2, reportSubInfo=False),
            ),
            "0a 01 63 12 01 67 1a 01 68 20 10 28 03 32 01 74 32 01 75 "
            "42 18 08 fe ff ff ff ff ff ff ff ff 01 10 fe ff ff ff ff ff ff ff ff 01 20 00",
        ),
        (
            broker_pb2.SendMessageRequestP2B(
                clientId="c", topicName="t", partitionId=0, data=b"x", flag=0, checkSum=1, sentAddr=2130706433
            ),
            "0a 01 63 12 01 74 18 00 22 01 78 28 00 30 01 38 81 80 80 f8 07",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else "",
)
def test_message_bytes(message: Message, expected: str) -> None:
    assert message.SerializeToString().hex(" ") == expected
    assert type(message).FromString(bytes.fromhex(expected)) == message


def test_the_sources_of_all_generated_modules_are_here() -> None:
    sources = {path.stem for path in (ROOT / PROTO).glob("*.proto")}
    assert {f"{name}_pb2.{ending}" for name in sources for ending in ("py", "pyi")} == set(GENERATED)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the pinned protoc is published for Python up to 3.12")
def test_generating_the_code_again_gives_the_files_in_the_repository(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "generate_proto.py"), "--out", str(tmp_path)]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=240, stdin=subprocess.DEVNULL)
    assert sorted(path.name for path in (tmp_path / PROTO).iterdir()) == GENERATED
    for name in GENERATED:
        assert (tmp_path / PROTO / name).read_text() == (ROOT / PROTO / name).read_text(), name


# Says which protobuf it runs on, then sends a request, an answer and text that is not UTF-8 through the wire code.
OLD_RUNTIME_SCRIPT = """
import google.protobuf
from tubeclient.errors import ProtocolError
from tubeclient.wire.envelope import decode_request, decode_response, encode_request, encode_response, parse_message
from tubeclient.wire.framing import FrameDecoder, encode_frame
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2

print(google.protobuf.__version__)
message = broker_pb2.GetMessageRequestC2B(clientId="c", partitionId=0, groupName="g", topicName="t")
data = message.SerializeToString()
[frame] = FrameDecoder().feed(encode_frame(1, encode_request(2, 17, data, 1000)))
assert parse_message(broker_pb2.GetMessageRequestC2B, decode_request(frame.stream).body) == message
assert decode_response(encode_response(17, data), 17) == data
for broken in (data[:-1], data.replace(b"t", b"\\xff")):
    try:
        parse_message(broker_pb2.GetMessageRequestC2B, broken)
    except ProtocolError:
        continue
    raise SystemExit(f"{broken!r} was taken for a message")
for method in Method:
    method.spec.request(), method.spec.response()
"""


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the folder comes with the pinned protoc, see above")
@pytest.mark.parametrize("implementation", ["upb", "python"])
def test_the_generated_code_loads_on_the_oldest_supported_protobuf(implementation: str) -> None:
    from tools.generate_proto import ensure_compiler

    found = subprocess.run(
        [sys.executable, "-c", OLD_RUNTIME_SCRIPT],
        check=False,
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ensure_compiler()), str(ROOT)]),
            "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("4.25.")
