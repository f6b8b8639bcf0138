"""The protobuf messages: their fields against the protocol's table, golden bytes, and the generated code itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROTO = Path("tubeclient/wire/proto")
GENERATED = sorted(path.name for path in (ROOT / PROTO).glob("*_pb2.py*"))


def test_the_sources_of_all_generated_modules_are_here() -> None:
    sources = {path.stem for path in (ROOT / PROTO).glob("*.proto")}
    assert {f"{name}_pb2.{ending}" for name in sources for ending in ("py", "pyi")} == set(GENERATED)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the pinned protoc is published for Python up to 3.12")
def test_generated_code_is_current(tmp_path: Path) -> None:
    """The generator gives the files that are in the repository."""
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
assert decode_response(encode_response(17, data), 17).data == data
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
def test_oldest_supported_protobuf(implementation: str) -> None:
    """The generated code loads with the oldest supported protobuf."""
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
