"""Definitions of records that are no text, and records by them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClassesForFiles

from tools.generate_proto import ensure_compiler

CLICKS: Final = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
message Click {
  enum Kind { NONE = 0; BUY = 1; }
  message Item { string sku = 1; repeated int32 counts = 2; google.protobuf.Timestamp made = 3; }
  int64 id = 1;
  string name = 2;
  google.protobuf.Timestamp at = 3;
  Kind kind = 4;
  repeated Item items = 5;
  map<string, double> prices = 6;
  oneof who { string user = 7; int64 visitor = 8; }
  optional bool seen = 9;
  bytes raw = 10;
  Item first = 11;
}
message NewClick { int64 id = 1; string name = 2; string unheard_of = 50; }
message Empty {}
message Took { google.protobuf.Duration took = 1; }
message Node { string name = 1; Node next = 2; }
"""
OLD: Final = """
syntax = "proto2";
message Old { required int64 id = 1; optional string name = 2; }
"""
MADE: Final = {"name": "made", "type": {"type": "long", "logicalType": "timestamp-micros"}}
USER: Final[Any] = {
    "type": "record",
    "name": "User",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NONE", "BUY"]}},
        {"name": "counts", "type": {"type": "array", "items": "int"}},
        {"name": "first", "type": ["null", {"type": "record", "name": "Item", "fields": [MADE]}]},
    ],
}


def descriptor(folder: Path, text: str = CLICKS, name: str = "clicks", *, include_imports: bool = True) -> str:
    """The path of the descriptor set that protoc makes of a .proto text."""
    (folder / f"{name}.proto").write_text(text)
    made = folder / f"{name}.desc"
    folders = (folder, ensure_compiler() / "grpc_tools" / "_proto")  # the second has Google's own
    command = [sys.executable, "-m", "grpc_tools.protoc", *(f"-I{one}" for one in folders)]
    command += [f"--descriptor_set_out={made}", *["--include_imports"] * include_imports, f"{name}.proto"]
    environment = {**os.environ, "PYTHONPATH": str(ensure_compiler())}
    subprocess.run(command, check=True, cwd=folder, env=environment, timeout=60)
    return str(made)


def messages(path: str) -> dict[str, Any]:
    """The classes of the top messages of a descriptor set, by their full names."""
    files = FileDescriptorSet.FromString(Path(path).read_bytes())
    pool = DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return dict(GetMessageClassesForFiles([file.name for file in files.file], pool))


def avsc(folder: Path, schema: Any = USER) -> str:
    """The path of a file with the schema; a text is written as it is."""
    made = folder / "user.avsc"
    made.write_text(schema if isinstance(schema, str) else json.dumps(schema))
    return str(made)


def zigzag(number: int) -> bytes:
    """An int or a long of Avro."""
    left, found = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def user(id: int = 1, name: str | None = "x", at: int = 1_700_000_000_000, kind: int = 1, *counts: int) -> bytes:
    """A record of USER, as on a queue: without a container."""
    text = b"" if name is None else zigzag(len(name.encode())) + name.encode()
    block = zigzag(len(counts)) + b"".join(map(zigzag, counts)) if counts else b""
    return zigzag(id) + zigzag(int(name is not None)) + text + zigzag(at) + zigzag(kind) + block + b"\0\0"
