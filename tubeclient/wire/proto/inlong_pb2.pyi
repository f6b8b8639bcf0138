from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MapFieldEntry(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class MessageObj(_message.Message):
    __slots__ = ("msgTime", "sourceIp", "body", "params")
    MSGTIME_FIELD_NUMBER: _ClassVar[int]
    SOURCEIP_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    msgTime: int
    sourceIp: str
    body: bytes
    params: _containers.RepeatedCompositeFieldContainer[MapFieldEntry]
    def __init__(self, msgTime: _Optional[int] = ..., sourceIp: _Optional[str] = ..., body: _Optional[bytes] = ..., params: _Optional[_Iterable[_Union[MapFieldEntry, _Mapping]]] = ...) -> None: ...

class MessageObjs(_message.Message):
    __slots__ = ("msgs",)
    MSGS_FIELD_NUMBER: _ClassVar[int]
    msgs: _containers.RepeatedCompositeFieldContainer[MessageObj]
    def __init__(self, msgs: _Optional[_Iterable[_Union[MessageObj, _Mapping]]] = ...) -> None: ...
