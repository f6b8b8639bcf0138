from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Command(_message.Message):
    __slots__ = ("type", "audit_request", "audit_reply")
    class Request(_message.Message):
        __slots__ = ("msg_header", "msg_body")
        class Header(_message.Message):
            __slots__ = ("thread_id", "sdk_ts", "packet_id")
            THREAD_ID_FIELD_NUMBER: _ClassVar[int]
            SDK_TS_FIELD_NUMBER: _ClassVar[int]
            PACKET_ID_FIELD_NUMBER: _ClassVar[int]
            thread_id: str
            sdk_ts: int
            packet_id: int
            def __init__(self, thread_id: _Optional[str] = ..., sdk_ts: _Optional[int] = ..., packet_id: _Optional[int] = ...) -> None: ...
        class Count(_message.Message):
            __slots__ = ("log_ts", "inlong_group_id", "inlong_stream_id", "audit_id", "count", "delay", "audit_tag", "audit_version")
            LOG_TS_FIELD_NUMBER: _ClassVar[int]
            INLONG_GROUP_ID_FIELD_NUMBER: _ClassVar[int]
            INLONG_STREAM_ID_FIELD_NUMBER: _ClassVar[int]
            AUDIT_ID_FIELD_NUMBER: _ClassVar[int]
            COUNT_FIELD_NUMBER: _ClassVar[int]
            DELAY_FIELD_NUMBER: _ClassVar[int]
            AUDIT_TAG_FIELD_NUMBER: _ClassVar[int]
            AUDIT_VERSION_FIELD_NUMBER: _ClassVar[int]
            log_ts: int
            inlong_group_id: str
            inlong_stream_id: str
            audit_id: str
            count: int
            delay: int
            audit_tag: str
            audit_version: int
            def __init__(self, log_ts: _Optional[int] = ..., inlong_group_id: _Optional[str] = ..., inlong_stream_id: _Optional[str] = ..., audit_id: _Optional[str] = ..., count: _Optional[int] = ..., delay: _Optional[int] = ..., audit_tag: _Optional[str] = ..., audit_version: _Optional[int] = ...) -> None: ...
        MSG_HEADER_FIELD_NUMBER: _ClassVar[int]
        MSG_BODY_FIELD_NUMBER: _ClassVar[int]
        msg_header: Command.Request.Header
        msg_body: _containers.RepeatedCompositeFieldContainer[Command.Request.Count]
        def __init__(self, msg_header: _Optional[_Union[Command.Request.Header, _Mapping]] = ..., msg_body: _Optional[_Iterable[_Union[Command.Request.Count, _Mapping]]] = ...) -> None: ...
    class Reply(_message.Message):
        __slots__ = ("rsp_code", "message")
        RSP_CODE_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        rsp_code: int
        message: str
        def __init__(self, rsp_code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    AUDIT_REQUEST_FIELD_NUMBER: _ClassVar[int]
    AUDIT_REPLY_FIELD_NUMBER: _ClassVar[int]
    type: int
    audit_request: Command.Request
    audit_reply: Command.Reply
    def __init__(self, type: _Optional[int] = ..., audit_request: _Optional[_Union[Command.Request, _Mapping]] = ..., audit_reply: _Optional[_Union[Command.Reply, _Mapping]] = ...) -> None: ...
