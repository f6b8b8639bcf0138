"""Descriptor files of tests, made by protoc as users make them, and bytes that no program of protobuf's would write."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from google.protobuf.message_factory import GetMessageClass

from tests.tubeclient.records.reading import spec
from tools.generate_proto import ensure_compiler
from tubeclient.records.protobuf_types import message_type
from tubeclient.records.spec import RecordSpec

SHOP = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/any.proto";

enum Color { NONE = 0; RED = 1; CRIMSON = -7; }
message Click {
  int64 id = 1;
  string name = 2;
  optional int32 score = 3;
  Color color = 4;
  uint64 big = 5;
  uint32 wide = 6;
  double ratio = 7;
  float part = 8;
  bool ok = 9;
  bytes raw = 10;
  oneof who { string user = 11; int64 device = 12; Point spot = 13; }
  repeated sint32 counts = 14;
  repeated Point points = 15;
  map<string, int64> tags = 16;
  map<int32, Point> spots = 17;
  google.protobuf.Timestamp at = 18;
  google.protobuf.Duration took = 19;
  google.protobuf.Int64Value maybe = 20;
  google.protobuf.StringValue note = 21;
  google.protobuf.Struct more = 22;
  google.protobuf.Any any = 23;
  Point point = 24;
  repeated Color colors = 25;
  fixed64 stamp = 26;
  google.protobuf.Value value = 27;
  repeated string words = 28;
  map<string, Color> shades = 29;
  int32 HasField = 30;
}
message Point { int32 x = 1; int32 y = 2; message Deep { int32 z = 1; } }
message Tree { int32 id = 1; repeated Tree children = 2; }
message Bare {}
"""
OLD = """
syntax = "proto2";
package shop;
enum Size { SMALL = 0; LARGE = 1; }
message Inner { required int32 x = 1; optional string text = 2; }
message Order {
  required int64 id = 1;
  optional string name = 2;
  optional int32 count = 3 [default = 7];
  optional Size size = 4;
  repeated Size sizes = 5;
  optional group Line = 6 { optional int32 n = 1; }
  optional Inner inner = 7;
  repeated Inner inners = 8;
  map<string, Size> by_name = 9;
  map<string, Inner> named = 10;
  repeated string words = 11;
}
"""

POINT = pa.struct([("x", pa.int32()), ("y", pa.int32())])


@cache
def descriptor(*files: str, imports: bool = True) -> bytes:
    """The descriptor file of the texts of .proto files."""
    with tempfile.TemporaryDirectory() as folder:
        names = [f"f{number}.proto" for number in range(len(files))]
        for name, text in zip(names, files, strict=True):
            Path(folder, name).write_text(text)
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", "--descriptor_set_out=out"]
        command += ["--include_imports"] if imports else []
        environment = {**os.environ, "PYTHONPATH": str(ensure_compiler())}
        subprocess.run([*command, *names], check=True, cwd=folder, env=environment, timeout=60)
        return Path(folder, "out").read_bytes()


@cache
def _class(name: str) -> Any:
    return GetMessageClass(message_type(descriptor(SHOP, OLD), name))


def shop(name: str = "shop.Click", /, **fields: Any) -> bytes:
    """The bytes of a message with these fields."""
    data: bytes = _class(name)(**fields).SerializePartialToString()
    return data


def varint(number: int) -> bytes:
    """A number as it is in fields' tags, lengths and values."""
    number &= (1 << 64) - 1
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def bytes_of(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def of(message: str, columns: dict[str, Any], required: tuple[str, ...] = (), **more: Any) -> RecordSpec:
    return spec("protobuf", columns, required, descriptor=descriptor(SHOP, OLD), message=message, **more)
