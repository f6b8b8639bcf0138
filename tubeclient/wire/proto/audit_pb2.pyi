from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Command(_message.Message):
    __slots__ = ("type", "audit_request", "audit_reply")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PING: _ClassVar[Command.Kind]
        PONG: _ClassVar[Command.Kind]
        REQUEST: _ClassVar[Command.Kind]
        REPLY: _ClassVar[Command.Kind]
    PING: Command.Kind
    PONG: Command.Kind
    REQUEST: Command.Kind
    REPLY: Command.Kind
    TYPE_FIELD_NUMBER: _ClassVar[int]
    AUDIT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    AUDIT_REPLY_FIELD_NUMBER: _ClassVar[int]
    type: Command.Kind
    audit_request: Request
    audit_reply: Reply
    def __init__(self, type: _Optional[_Union[Command.Kind, str]] = ..., audit_request: _Optional[_Union[Request, _Mapping]] = ..., audit_reply: _Optional[_Union[Reply, _Mapping]] = ...) -> None: ...

class Request(_message.Message):
    __slots__ = ("request_id", "msg_header", "msg_body")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MSG_HEADER_FIELD_NUMBER: _ClassVar[int]
    MSG_BODY_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    msg_header: Header
    msg_body: _containers.RepeatedCompositeFieldContainer[Count]
    def __init__(self, request_id: _Optional[int] = ..., msg_header: _Optional[_Union[Header, _Mapping]] = ..., msg_body: _Optional[_Iterable[_Union[Count, _Mapping]]] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("ip", "docker_id", "thread_id", "sdk_ts", "packet_id")
    IP_FIELD_NUMBER: _ClassVar[int]
    DOCKER_ID_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    SDK_TS_FIELD_NUMBER: _ClassVar[int]
    PACKET_ID_FIELD_NUMBER: _ClassVar[int]
    ip: str
    docker_id: str
    thread_id: str
    sdk_ts: int
    packet_id: int
    def __init__(self, ip: _Optional[str] = ..., docker_id: _Optional[str] = ..., thread_id: _Optional[str] = ..., sdk_ts: _Optional[int] = ..., packet_id: _Optional[int] = ...) -> None: ...

class Count(_message.Message):
    __slots__ = ("log_ts", "inlong_group_id", "inlong_stream_id", "audit_id", "count", "size", "delay", "audit_tag", "audit_version")
    LOG_TS_FIELD_NUMBER: _ClassVar[int]
    INLONG_GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    INLONG_STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    AUDIT_ID_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    AUDIT_TAG_FIELD_NUMBER: _ClassVar[int]
    AUDIT_VERSION_FIELD_NUMBER: _ClassVar[int]
    log_ts: int
    inlong_group_id: str
    inlong_stream_id: str
    audit_id: str
    count: int
    size: int
    delay: int
    audit_tag: str
    audit_version: int
    def __init__(self, log_ts: _Optional[int] = ..., inlong_group_id: _Optional[str] = ..., inlong_stream_id: _Optional[str] = ..., audit_id: _Optional[str] = ..., count: _Optional[int] = ..., size: _Optional[int] = ..., delay: _Optional[int] = ..., audit_tag: _Optional[str] = ..., audit_version: _Optional[int] = ...) -> None: ...

class Reply(_message.Message):
    __slots__ = ("request_id", "rsp_code", "message")
    class Code(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SUCCESS: _ClassVar[Reply.Code]
        FAILED: _ClassVar[Reply.Code]
        DISASTER: _ClassVar[Reply.Code]
    SUCCESS: Reply.Code
    FAILED: Reply.Code
    DISASTER: Reply.Code
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RSP_CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    rsp_code: Reply.Code
    message: str
    def __init__(self, request_id: _Optional[int] = ..., rsp_code: _Optional[_Union[Reply.Code, str]] = ..., message: _Optional[str] = ...) -> None: ...
