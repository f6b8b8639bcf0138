"""Generate the `*_pb2` modules of `tubeclient.wire.proto` from their `.proto` files.

The compiler is protoc 25 (grpcio-tools 1.62): its code loads on every protobuf runtime from 4.25 on. Newer compilers
write code that refuses older runtimes (protobuf's "cross-version runtime guarantees"). The compiler has its own folder
because it pins an old protobuf.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO_DIR = Path("tubeclient/wire/proto")
COMPILER_DIR = ROOT / ".cache" / "protoc"
COMPILER = ("grpcio-tools==1.62.3", "setuptools<81")  # grpc_tools imports pkg_resources, which setuptools 81 dropped


def ensure_compiler() -> Path:
    """Install the pinned compiler into its folder, once, and return that folder."""
    if not (COMPILER_DIR / "grpc_tools").is_dir():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-warn-conflicts"]
        command = [*pip, "--target", str(COMPILER_DIR), *COMPILER]
        subprocess.run(command, check=True, timeout=600)
    return COMPILER_DIR


def generate(out: Path) -> list[Path]:
    """Write the generated modules and their type stubs below `out` and return their paths."""
    protos = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / PROTO_DIR).glob("*.proto"))
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT}", f"--python_out={out}", f"--pyi_out={out}"]
    environment = {**os.environ, "PYTHONPATH": str(ensure_compiler())}
    subprocess.run([*command, *protos], check=True, cwd=ROOT, env=environment, timeout=120)
    return sorted((out / PROTO_DIR).glob("*_pb2.py*"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT, help="folder to write below (default: the repository)")
    for path in generate(parser.parse_args().out):
        print(path)


if __name__ == "__main__":
    main()
