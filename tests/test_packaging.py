"""What is installed and what it needs, and which part may know which: the layers, enforced."""

from __future__ import annotations

import ast
import configparser
import email
import email.message
import os
import runpy
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.distributions import Distributions
from tubeclient._version import __version__

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    *("tubeclient", "embedded_tubemq", "spark_source", "offsets_store", "tubeclient_ingest", "pyspark_tubeclient"),
    "tubeclient_cli",
    "tubeclient_ui",
)


def run_python(*arguments: str, cwd: Path = ROOT, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """Run this Python with these arguments and return what it said; never raises for its exit status."""
    return subprocess.run(
        [sys.executable, *arguments],
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


# The wheel. tests/test_install.py installs it


@pytest.fixture(scope="module")
def names(distributions: Distributions) -> list[str]:
    with zipfile.ZipFile(distributions.wheel) as archive:
        return archive.namelist()


@pytest.fixture(scope="module")
def metadata(distributions: Distributions) -> email.message.Message:
    with zipfile.ZipFile(distributions.wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def test_wheel_contents(names: list[str]) -> None:
    """The wheel contains the packages with their files and nothing else."""
    wanted = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {name for name in names if ".dist-info/" not in name} == wanted
    assert {f"{package}/py.typed" for package in PACKAGES} <= wanted


def test_the_wheel_installs_the_command(distributions: Distributions) -> None:
    with zipfile.ZipFile(distributions.wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        points = configparser.ConfigParser()
        points.read_string(archive.read(name).decode())
    assert dict(points["console_scripts"]) == {"tubeclient": "tubeclient_cli.__main__:main"}


def test_the_extras(metadata: email.message.Message) -> None:
    of_extra: dict[str, set[str]] = {}
    for item in metadata.get_all("Requires-Dist", []):
        requirement, _, extra = item.partition('; extra == "')
        of_extra.setdefault(extra.rstrip('"'), set()).add(requirement)
    [own] = of_extra.pop("")
    assert own.startswith("protobuf")
    assert of_extra["all"] == set().union(*(of_extra[extra] for extra in of_extra.keys() - {"all"}))
    quickstart = ("spark", "delta", "cli", "embedded", "inlong", "metrics")
    assert of_extra["quickstart"] == set().union(*(of_extra[extra] for extra in quickstart))
    for requirement in of_extra["all"]:
        assert any(mark in requirement for mark in ("<", "==", ">")), f"{requirement} has no range"


CORE_MARKS = 'sys_platform == "linux" and platform_machine in "x86_64 aarch64"'


@pytest.mark.parametrize("release", [True, False])
def test_core_in_the_extras_of_a_release(monkeypatch: pytest.MonkeyPatch, release: bool) -> None:
    """Before the release no registry has the core, and a clone is installed without a compiler."""
    given: dict[str, Any] = {}
    monkeypatch.setattr("setuptools.setup", given.update)
    monkeypatch.delenv("TUBECLIENT_RELEASE", raising=False)
    if release:
        monkeypatch.setenv("TUBECLIENT_RELEASE", "1")
    runpy.run_path(str(ROOT / "setup.py"))
    extras = given["extras_require"]
    bring_it = {name for name in extras if f"tubeclient-core=={__version__}; {CORE_MARKS}" in extras[name]}
    assert bring_it == ({"speed", "quickstart", "all"} if release else set())
    assert tomllib.loads((ROOT / "tubeclient_core" / "Cargo.toml").read_text())["package"]["version"] == __version__


# Imports without the optional parts


BLOCKING_SCRIPT = """
import importlib, pkgutil, sys

blocked = set(sys.argv[2].split(","))

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"{name} is blocked in this test", name=name)

sys.meta_path.insert(0, Block())
module, _, name = sys.argv[1].partition(":")
package = importlib.import_module(module)
if name:
    getattr(package, name)
if "--all" in sys.argv:
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        # These have an extra of their own.
        own = ("tubeclient.inlong", "tubeclient.records")
        if not module.name.endswith(".__main__") and not module.name.startswith(own):
            importlib.import_module(module.name)
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & blocked, loaded & blocked
"""
HEAVY = "pyspark,delta,deltalake,pyarrow,pandas,chispa,py4j"


def test_client_imports_without_extras() -> None:
    """Every module of the client imports without any optional package."""
    found = run_python(
        "-c", BLOCKING_SCRIPT, "tubeclient", f"{HEAVY},numpy,aiohttp,typer,rich,prometheus_client", "--all"
    )
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
    ("package", "without"),
    [
        ("offsets_store", "pyspark,delta,deltalake,pandas,typer,rich"),
        ("spark_source", "delta,deltalake,typer,rich"),
    ],
)
def test_packages_import_without_extras(package: str, without: str) -> None:
    """A package imports without the packages that it does not need."""
    found = run_python("-c", BLOCKING_SCRIPT, package, without)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
    ("module", "missing", "extra"),
    [
        ("tubeclient.inlong", "pyarrow", "inlong"),
        ("embedded_tubemq:EmbeddedTubeMQ", "aiohttp", "embedded"),
        ("embedded_tubemq:EmbeddedTubeMQ", "numpy", "embedded"),
        ("tubeclient_cli.app", "typer", "cli"),
        ("tubeclient_cli.app", "rich", "cli"),
    ],
)
def test_missing_package_names_its_extra(module: str, missing: str, extra: str) -> None:
    """The error for a missing package names the extra that brings it."""
    found = run_python("-c", BLOCKING_SCRIPT, module, missing)
    assert found.returncode != 0
    last = found.stderr.splitlines()[-1]
    assert f"the package {missing}" in last
    assert last.endswith(f"; install it with pip install 'pyspark-tubeclient[{extra}]'")


# What is too old


def test_the_command_tells_an_older_python_in_one_line() -> None:
    code = "import sys; sys.version_info = (3, 10, 12, 'final', 0); from tubeclient_cli.__main__ import main; main()"
    found = run_python("-c", code)
    assert found.returncode == 2
    [line] = found.stderr.splitlines()
    assert line.startswith("tubeclient: [NEEDS_NEWER_PYTHON] ")


# Layers


class Import(NamedTuple):
    """One imported module, and whether it is imported when its file is."""

    file: str
    line: int
    module: str
    at_import: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}"


def imports_of(folder: str) -> list[Import]:
    """Every import of a file, or below a folder, of the repository; those for type checkers alone are left out."""
    found = []
    for path in [ROOT / folder] if folder.endswith(".py") else sorted((ROOT / folder).rglob("*.py")):
        if path.name.endswith("_pb2.py"):
            continue
        file = path.relative_to(ROOT).as_posix()
        for node, at_import in import_nodes(ast.parse(path.read_text(encoding="utf-8")), True):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            else:
                assert node.level == 0, f"{file}:{node.lineno}: a relative import"
                # `from a import b` may import the module a.b; whichever it is, rules for a.b shall see it.
                modules = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [Import(file, node.lineno, module, at_import) for module in modules]
    return found


def import_nodes(tree: ast.AST, at_import: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node, at_import
        elif isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for part in node.orelse:
                yield from import_nodes(part, at_import)
        else:
            inside = at_import and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from import_nodes(node, inside)


def below(module: str, names: set[str]) -> bool:
    """Whether `module` is one of the names or lies below one."""
    return any(module == name or module.startswith(f"{name}.") for name in names)


NETWORK = {"socket", "ssl", "selectors", "asyncio", "http", "urllib.request", "socketserver", "aiohttp"}
OUTSIDE_WORLD = NETWORK | {"threading", "concurrent", "multiprocessing", "time", "os", "subprocess", "select"}


class Layer(NamedTuple):
    """What one folder may import besides the standard library and itself, and what it may not in any case."""

    allowed: set[str]
    forbidden: set[str]


LAYERS = {
    # The core is optional; pyarrow is for tubeclient.inlong alone, prometheus_client for metrics.
    "tubeclient": Layer({"google.protobuf", "tubeclient_core", "pyarrow", "prometheus_client"}, set()),
    "tubeclient/inlong": Layer(
        {
            "google.protobuf",
            "pyarrow",
            "numpy",
            "tubeclient.wire",
            "tubeclient.core",
            "tubeclient.errors",
            "tubeclient.extras",
        },
        OUTSIDE_WORLD | {"random"},
    ),
    # Pure encoding and decoding; then state machines whose clock, randomness and input are handed in.
    "tubeclient/wire": Layer(
        {"google.protobuf", "tubeclient.core", "tubeclient.keys", "tubeclient.errors"},
        OUTSIDE_WORLD | {"random"},
    ),
    "tubeclient/flows": Layer(
        {
            "google.protobuf",
            "tubeclient.wire",
            "tubeclient.keys",
            "tubeclient.errors",
            "tubeclient.arguments",
            "tubeclient.metadata",
            "tubeclient.counts",
            "tubeclient.inlong",
        },
        OUTSIDE_WORLD,
    ),
    # The JSON of web calls, no matter how it came.
    "tubeclient/admin/answers.py": Layer({"tubeclient.keys", "tubeclient.errors"}, OUTSIDE_WORLD | {"random"}),
    "embedded_tubemq": Layer(
        {
            "google.protobuf",
            "aiohttp",
            "numpy",
            "tubeclient.wire",
            "tubeclient.core",
            "tubeclient.keys",
            "tubeclient.errors",
            "tubeclient.extras",
        },
        set(),
    ),
    # delta and py4j are for session.py alone, which starts Spark; duckdb for columns that SQL computes.
    "spark_source": Layer(
        {"pyspark", "py4j", "delta", "pyarrow", "numpy", "duckdb", "tubeclient", "offsets_store"},
        NETWORK | {"tubeclient.net"},
    ),
    "offsets_store": Layer(
        {"deltalake", "pyarrow"}
        | {"tubeclient._version", "tubeclient.keys", "tubeclient.names", "tubeclient.errors"}
        | {"tubeclient.printable", "tubeclient.html_table"},
        NETWORK | {"spark_source"},
    ),
    "spark_source/plan": Layer(
        {
            "pyspark.sql.datasource",
            "numpy",
            "tubeclient.assignment",
            "tubeclient.errors",
            "tubeclient.keys",
            "tubeclient.names",
            "tubeclient.metadata",
            "tubeclient.positions.stores",
            "spark_source",
        },
        OUTSIDE_WORLD,
    ),
    # By SQL and DataFrames, as it may run over Spark Connect; by delta-rs where the driver sees a table's files; by
    # pyiceberg and its catalogs.
    "tubeclient_ingest": Layer(
        {
            "pyspark",
            "py4j",
            "grpc.RpcError",
            "pyarrow",
            "numpy",
            "deltalake",
            "openlineage",
            "pyiceberg",
            "attr",
            "tubeclient",
            "offsets_store",
            "spark_source",
        },
        NETWORK | {"subprocess", "multiprocessing", "spark_source.session", "tubeclient.net"},
    ),
    "tubeclient_ingest/settings": Layer(
        {"tubeclient", "spark_source", "pyarrow", "pyspark.sql.types"},
        NETWORK | {"spark_source.session", "tubeclient.net"},
    ),
    # What a run may rely on is judged without Spark, by what it is given.
    "tubeclient_ingest/commits": Layer(
        {"tubeclient", "spark_source", "tubeclient_ingest.settings"}, OUTSIDE_WORLD | {"random"}
    ),
    "tubeclient_ingest/tables": Layer(
        {"pyspark", "py4j", "grpc.RpcError", "pyarrow", "numpy", "deltalake", "pyiceberg"}
        | {"tubeclient", "spark_source", "offsets_store"}
        | {"tubeclient_ingest.settings", "tubeclient_ingest.commits"},
        NETWORK | {"spark_source.session", "tubeclient.net"},
    ),
    # They write files, and commit nothing.
    "tubeclient_ingest/tasks": Layer(
        {"pyspark", "pyarrow", "numpy", "tubeclient", "spark_source", "tubeclient_ingest.settings"}
        | {"tubeclient_ingest.tables.data_files", "tubeclient_ingest.tables.partition_values"},
        NETWORK | {"spark_source.session", "tubeclient.net"},
    ),
    "tubeclient_ingest/rounds": Layer(
        {"pyspark", "pyarrow", "tubeclient", "spark_source"}
        | {f"tubeclient_ingest.{name}" for name in ("settings", "commits", "tables", "tasks")},
        NETWORK | {"deltalake", "spark_source.session", "tubeclient.net"},
    ),
    "tubeclient_ingest/lineage_events.py": Layer(
        {"attr", "openlineage.client.event_v2", "openlineage.client.facet_v2", "pyspark.sql.types"}
        | {"tubeclient", "spark_source", "tubeclient_ingest"},
        OUTSIDE_WORLD,
    ),
    # What commands and the page show: no terminal, and no Spark but frames that are given.
    "tubeclient_cli/facts": Layer(
        {"tubeclient", "spark_source.offsets", "spark_source.options", "spark_source.typed.columns", "pyspark.sql"},
        NETWORK,
    ),
    "tubeclient_ui": Layer(
        {"starlette", "jinja2", "markupsafe", "anyio", "pyarrow"}
        | {"tubeclient", "spark_source.offsets", "tubeclient_cli.facts"}
        # Spark, schemas and the job, as commands have them.
        | {"pyspark", "spark_source.typed", "tubeclient_cli.common", "tubeclient_cli.audit", "tubeclient_ingest"},
        NETWORK | {"tubeclient.net", "subprocess"},
    ),
    # What a message, a filter and a mask are is judged of what is given.
    **{
        f"tubeclient_ui/{name}.py": Layer(
            {"pyarrow", "tubeclient.errors", "tubeclient.printable", "tubeclient_ui.masks"}, OUTSIDE_WORLD | {"random"}
        )
        for name in ("bodies", "filters", "masks")
    },
    "pyspark_tubeclient": Layer({"spark_source", "offsets_store", "tubeclient.extras", "pyspark"}, OUTSIDE_WORLD),
}


@pytest.mark.parametrize("folder", LAYERS)
def test_a_layer_imports_only_what_it_may_know(folder: str) -> None:
    layer = LAYERS[folder]
    own = folder.removesuffix(".py").replace("/", ".")
    allowed = layer.allowed | {own} | set(sys.stdlib_module_names)
    found = imports_of(folder)
    assert found, f"{folder} has no imports at all; is it empty?"
    wrong = [item for item in found if not below(item.module, allowed) or below(item.module, layer.forbidden)]
    assert not wrong, "\n".join(map(str, wrong))


def test_no_yield_after_an_interruption() -> None:
    """Python ends a generator that is closed, and one that yields then hides what closed it."""
    seen = 0
    for path in sorted((ROOT / "tubeclient").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Try):
                continue
            caught = [handler for handler in node.handlers if catches_an_interruption(handler)]
            for statement in (*node.finalbody, *(statement for handler in caught for statement in handler.body)):
                seen += 1
                wrong = [part for part in ast.walk(statement) if isinstance(part, ast.Yield | ast.YieldFrom)]
                assert not wrong, f"{path}:{statement.lineno}"
    assert seen > 20


def catches_an_interruption(handler: ast.ExceptHandler) -> bool:
    return (
        handler.type is None
        or {"BaseException", "GeneratorExit", "KeyboardInterrupt"}
        & {part.id for part in ast.walk(handler.type) if isinstance(part, ast.Name)}
        != set()
    )


def test_the_client_waits_for_no_condition_of_python() -> None:
    """One that a KeyboardInterrupt leaves locked holds up all others for good: `tubeclient.net.waiting` has its own."""
    for path in sorted((ROOT / "tubeclient").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        assert "threading.Condition" not in {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}, (
            path
        )
        assert "threading" not in {node.module for node in nodes if isinstance(node, ast.ImportFrom)}, path


def test_no_import_from_the_repository() -> None:
    """Installed code imports nothing from folders that are only in the repository."""
    stays = {"jobs", "conf", "tests", "bench", "tools"}
    wrong = [item for package in PACKAGES for item in imports_of(package) if below(item.module, stays)]
    assert not wrong, "\n".join(map(str, wrong))
