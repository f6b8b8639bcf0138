"""What a user gets from the built wheel: each test installs it into an empty environment."""

from __future__ import annotations

import importlib.metadata
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.distributions import Distributions, EmptyEnvironment
from tools.dependencies import needed_by

pytestmark = pytest.mark.nightly


def requirements(wheel: Path, *extras: str) -> set[str]:
    """The packages that the wheel brings with these extras, itself left out."""
    [metadata] = importlib.metadata.distributions(path=[str(wheel)])
    texts = metadata.requires or []
    wanted = [text.partition(";")[0] for text in texts if "extra ==" not in text]
    wanted += [text.partition(";")[0] for extra in extras for text in texts if f'extra == "{extra}"' in text]
    return needed_by(wanted)


Install = Callable[..., EmptyEnvironment]


@pytest.fixture
def install(distributions: Distributions, tmp_path: Path) -> Install:
    """An environment with the wheel and its extras."""

    def make(*extras: str) -> EmptyEnvironment:
        environment = EmptyEnvironment(tmp_path / "environment")
        environment.link(requirements(distributions.wheel, *extras))
        suffix = f"[{','.join(extras)}]" if extras else ""
        done = environment.install(f"{distributions.wheel}{suffix}")
        assert done.returncode == 0, done.stderr
        return environment

    return make


def test_bare_wheel_brings_only_protobuf(install: Install) -> None:
    """The bare wheel installs protobuf and nothing else."""
    assert install().installed() == {"pyspark-tubeclient", "protobuf"}


def test_extra_for_managed_runtimes(distributions: Distributions) -> None:
    """The managed extra installs nothing that a managed runtime already has."""
    brought = requirements(distributions.wheel, "managed")
    assert {"protobuf", "deltalake"} <= brought
    assert not brought & {"pyspark", "py4j", "delta-spark", "pyarrow", "pandas", "numpy"}


def test_bare_wheel_has_the_client(install: Install, tmp_path: Path) -> None:
    """tests/test_packaging.py has every part."""
    environment = install()
    code = "import tubeclient\nfor name in tubeclient.__all__: getattr(tubeclient, name)"
    assert environment.run("python", "-c", code, cwd=tmp_path).returncode == 0
    done = environment.run("tubeclient", "--version", cwd=tmp_path)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "the package rich is missing; install it with pip install 'pyspark-tubeclient[cli]'" in line


READ = """
import tempfile
from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from pyspark_tubeclient import session

with EmbeddedTubeMQ(tempfile.mkdtemp(), [TopicConfig("clicks")]) as tube:
    tube.load("clicks", [NewMessage(0, b"one"), NewMessage(0, b"two")])
    options = {"masterServers": tube.master_address, "consumerGroup": "g", "subscribe": "clicks"}
    read = session(master="local[2]").read.format("tubeclient").options(**options, masterWebPort=tube.master_web_port)
    print([bytes(row.value) for row in read.load().orderBy("offset").collect()])
"""


@pytest.mark.spark
def test_plain_spark_finds_the_source(install: Install, tmp_path: Path) -> None:
    """Plain Spark reads a topic without a call that registers the source."""
    done = install("spark", "embedded").run("python", "-c", READ, cwd=tmp_path)
    assert done.stdout == "[b'one', b'two']\n", done.stderr


# The source archive


def test_the_source_archive_holds_the_repository(distributions: Distributions) -> None:
    with tarfile.open(distributions.sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames() if not archive.getmember(name).isdir()}
    made = {name for name in held if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    source = distributions.source
    wanted = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    assert held - made == {name for name in wanted if ".egg-info/" not in name}
