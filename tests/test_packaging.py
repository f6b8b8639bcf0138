"""What is installed and what it needs, and which part may know which: the layers, enforced."""

from __future__ import annotations

import ast
import configparser
import email
import email.message
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.distributions import Distributions

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    *("tubeclient", "embedded_tubemq", "spark_source", "offsets_store", "tubeclient_ingest", "pyspark_tubeclient"),
    "tubeclient_cli",
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


def test_the_wheel_holds_the_packages_and_nothing_else(names: list[str]) -> None:
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == set(PACKAGES)


def test_the_wheel_holds_every_module_of_the_packages(names: list[str]) -> None:
    modules = {path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == modules


@pytest.mark.parametrize("package", PACKAGES)
def test_the_wheel_says_that_its_packages_are_typed(names: list[str], package: str) -> None:
    assert f"{package}/py.typed" in names


def test_the_wheel_holds_the_page_of_the_dashboard_with_the_licence_of_its_charts(names: list[str]) -> None:
    page = ROOT / "tubeclient_cli" / "dashboard" / "page"
    files = {path.relative_to(ROOT).as_posix() for path in page.iterdir()}
    assert {name for name in names if "/page/" in name} == files
    assert any(name.endswith("uPlot-LICENSE") for name in files)


def test_the_wheel_installs_the_command_and_the_plugin_of_pytest(distributions: Distributions) -> None:
    with zipfile.ZipFile(distributions.wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        points = configparser.ConfigParser()
        points.read_string(archive.read(name).decode())
    assert dict(points["console_scripts"]) == {"tubeclient": "tubeclient_cli.__main__:main"}
    assert dict(points["pytest11"]) == {"tubemq": "embedded_tubemq.pytest_plugin"}


def test_an_old_python_is_told_before_pip_looks_for_anything() -> None:
    script = "import runpy, sys; sys.version_info = (3, 10, 12, 'final', 0); runpy.run_path('setup.py')"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("pyspark-tubeclient needs Python 3.11 or newer, and this is Python 3.10, ")


def test_the_version_is_the_packages(metadata: email.message.Message) -> None:
    from tubeclient._version import __version__

    assert metadata["Name"] == "pyspark-tubeclient"
    assert metadata["Version"] == __version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"


def test_the_client_alone_needs_protobuf_and_nothing_else(metadata: email.message.Message) -> None:
    core = [item for item in metadata.get_all("Requires-Dist", []) if "extra ==" not in item]
    assert [item.partition(">")[0].partition("<")[0] for item in core] == ["protobuf"]


def test_the_extras(metadata: email.message.Message) -> None:
    extras = set(metadata.get_all("Provides-Extra", []))
    parts = {"speed", "spark", "delta", "inlong", "embedded", "cli", "metrics", "managed", "demo", "bench", "docs"}
    assert extras == parts | {"dev", "quickstart", "all"}
    of_extra: dict[str, set[str]] = {extra: set() for extra in extras}
    for item in metadata.get_all("Requires-Dist", []):
        requirement, mark, extra = item.partition('; extra == "')
        if mark:
            of_extra[extra.rstrip('"')].add(requirement)
    assert of_extra["all"] == set().union(*(of_extra[extra] for extra in extras - {"all"}))
    quickstart = ("spark", "delta", "cli", "embedded", "inlong", "metrics")
    assert of_extra["quickstart"] == set().union(*(of_extra[extra] for extra in quickstart))
    for requirement in of_extra["all"]:
        assert any(mark in requirement for mark in ("<", "==", ">")), f"{requirement} has no range"


def test_pip_knows_the_narrowest_range_for_spark_first(metadata: email.message.Message) -> None:
    """It fetches the newest of the first range that it reads, 450 MB, and another one if a later range is narrower."""
    for extras in ({"spark", "delta"}, {"quickstart"}, {"all"}):
        ranges = [
            item.partition(";")[0].strip()
            for item in metadata.get_all("Requires-Dist", [])
            if item.startswith("pyspark") and item.partition('extra == "')[2].rstrip('"') in extras
        ]
        assert len(ranges) > 1
        assert "<=4.2.0" in ranges[0], f"{sorted(extras)}: {ranges}"
        # pip chooses for a requirement with extras of its own without a look at the others.
        assert all("<=4.2.0" in one for one in ranges if "[" in one), ranges


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
        # tubeclient.inlong has an extra of its own.
        if not module.name.endswith(".__main__") and not module.name.startswith("tubeclient.inlong"):
            importlib.import_module(module.name)
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & blocked, loaded & blocked
"""
HEAVY = "pyspark,delta,deltalake,pyarrow,pandas,matplotlib,chispa,py4j"


def test_every_module_of_the_client_imports_without_any_optional_package() -> None:
    found = run_python(
        "-c", BLOCKING_SCRIPT, "tubeclient", f"{HEAVY},numpy,aiohttp,typer,rich,prometheus_client", "--all"
    )
    assert found.returncode == 0, found.stderr


def test_every_module_of_the_embedded_cluster_imports_without_spark_and_delta() -> None:
    found = run_python("-c", BLOCKING_SCRIPT, "embedded_tubemq", f"{HEAVY},typer,rich", "--all")
    assert found.returncode == 0, found.stderr


def test_the_offsets_store_imports_without_spark_and_before_deltalake() -> None:
    found = run_python("-c", BLOCKING_SCRIPT, "offsets_store", "pyspark,delta,deltalake,pandas,typer,rich")
    assert found.returncode == 0, found.stderr


def test_the_source_imports_without_delta() -> None:
    found = run_python("-c", BLOCKING_SCRIPT, "spark_source", "delta,deltalake,typer,rich")
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
    ("module", "missing", "extra"),
    [
        ("tubeclient.inlong", "pyarrow", "inlong"),
        ("tubeclient.inlong", "numpy", "inlong"),
        ("embedded_tubemq:EmbeddedTubeMQ", "aiohttp", "embedded"),
        ("embedded_tubemq:EmbeddedTubeMQ", "numpy", "embedded"),
        ("tubeclient_cli.app", "typer", "cli"),
        ("tubeclient_cli.app", "rich", "cli"),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(module: str, missing: str, extra: str) -> None:
    found = run_python("-c", BLOCKING_SCRIPT, module, missing)
    assert found.returncode != 0
    last = found.stderr.splitlines()[-1]
    assert f"the package {missing}" in last
    assert last.endswith(f"; pip install 'pyspark-tubeclient[{extra}]' brings it")


# What is too old


@pytest.mark.parametrize("statement", ["import tubeclient", "import offsets_store", "import tubeclient_cli.app"])
def test_an_older_python_is_told_at_the_first_import(statement: str) -> None:
    """pip refuses it, but a folder on PYTHONPATH is not asked."""
    found = run_python("-c", f"import sys; sys.version_info = (3, 10, 12, 'final', 0); {statement}")
    assert found.returncode != 0
    assert f"[NEEDS_NEWER_PYTHON] {sys.executable} is Python 3.10, and" in found.stderr.splitlines()[-1]


def test_the_command_tells_an_older_python_in_one_line() -> None:
    code = "import sys; sys.version_info = (3, 10, 12, 'final', 0); from tubeclient_cli.__main__ import main; main()"
    found = run_python("-c", code)
    assert found.returncode == 2
    [line] = found.stderr.splitlines()
    assert line.startswith("tubeclient: [NEEDS_NEWER_PYTHON] ")


def test_the_source_needs_no_pyarrow_above_18() -> None:
    """Runtimes with a Spark of their own have an older one, which is not for us to replace."""
    newer = re.compile(r"\b(?:pa|pyarrow)\.(arange|concat_batches)\b")  # of 21 and of 19
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for package in ("spark_source", "tubeclient", "offsets_store")
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in newer.findall(path.read_text(encoding="utf-8"))
    ]
    assert found == []


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


PYTEST_PLUGIN = "embedded_tubemq/pytest_plugin.py"

LAYERS = {
    # isal is optional; pyarrow and numpy are for tubeclient.inlong alone, prometheus_client for metrics.
    "tubeclient": Layer({"google.protobuf", "isal", "pyarrow", "numpy", "prometheus_client"}, set()),
    "tubeclient/inlong": Layer(
        {"google.protobuf", "pyarrow", "numpy", "tubeclient.wire", "tubeclient.errors", "tubeclient.extras"},
        OUTSIDE_WORLD | {"random"},
    ),
    # Pure encoding and decoding; then state machines whose clock, randomness and input are handed in.
    "tubeclient/wire": Layer(
        {"google.protobuf", "isal", "tubeclient.keys", "tubeclient.errors"}, OUTSIDE_WORLD | {"random"}
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
    "tubeclient/admin/answers.py": Layer(
        {"tubeclient.keys", "tubeclient.errors", "tubeclient.admin.model"}, OUTSIDE_WORLD | {"random"}
    ),
    # pyarrow is optional.
    "embedded_tubemq": Layer(
        {
            "google.protobuf",
            "aiohttp",
            "numpy",
            "pyarrow",
            "tubeclient.wire",
            "tubeclient.keys",
            "tubeclient.errors",
            "tubeclient.extras",
        },
        set(),
    ),
    # Fixtures are above the servers: they have a client too.
    PYTEST_PLUGIN: Layer({"pytest", "embedded_tubemq", "tubeclient"}, OUTSIDE_WORLD - {"time"}),
    # delta and py4j are for session.py alone, which starts Spark.
    "spark_source": Layer(
        {"pyspark", "py4j", "delta", "pyarrow", "numpy", "tubeclient", "offsets_store"}, NETWORK | {"tubeclient.net"}
    ),
    "offsets_store": Layer(
        {"deltalake", "pyarrow", "pyspark", "py4j"}
        | {"tubeclient._version", "tubeclient.keys", "tubeclient.names", "tubeclient.errors"}
        | {"tubeclient.html_table", "tubeclient.printable"},
        NETWORK | {"spark_source"},
    ),
    # The verdict on a group, for commands, pages and metrics.
    "offsets_store/health.py": Layer(
        {"tubeclient.keys", "offsets_store.progress", "offsets_store.rows", "offsets_store.schema"},
        OUTSIDE_WORLD | {"random"},
    ),
    "spark_source/plan": Layer(
        {
            "pyspark.sql.datasource",
            "numpy",
            "tubeclient.assignment",
            "tubeclient.errors",
            "tubeclient.keys",
            "tubeclient.metadata",
            "tubeclient.positions.store_growth",
            "spark_source",
        },
        OUTSIDE_WORLD,
    ),
    # By SQL and DataFrames alone: it may run over Spark Connect.
    "tubeclient_ingest": Layer(
        {"pyspark", "py4j", "grpc.RpcError", "pyarrow", "tubeclient", "offsets_store", "spark_source"},
        NETWORK | {"subprocess", "multiprocessing", "spark_source.session", "tubeclient.net"},
    ),
    # What a run may rely on is judged without Spark, by what it is given.
    **{
        f"tubeclient_ingest/{name}.py": Layer({"tubeclient", "spark_source", "tubeclient_ingest"}, OUTSIDE_WORLD)
        for name in ("bad_share", "beginning", "checks", "history", "record", "states")
    },
    "pyspark_tubeclient": Layer({"spark_source", "offsets_store", "tubeclient.extras", "pyspark"}, OUTSIDE_WORLD),
}

FOLDERS = {
    "spark_source": {
        "boundary": set(),
        "java_parent": set(),
        "sent": {"boundary"},
        "engine": set(),
        "spark_log": set(),
        "session": {"spark_log"},
        "session_confs": set(),
        "typed": {"session_confs"},
        "offsets": set(),
        "options": {"offsets"},
        "cluster": {"offsets", "options"},
        "plan": {"offsets", "options"},
        "progress": {"offsets", "options", "cluster", "plan"},
        "read": {"options", "plan"},
        "write": {"boundary", "sent", "engine", "options"},
        "stream": {
            "boundary",
            "java_parent",
            "sent",
            "engine",
            "offsets",
            "options",
            "cluster",
            "plan",
            "progress",
            "read",
        },
        "source": {"boundary", "sent", "engine", "options", "read", "write", "stream"},
    },
    "embedded_tubemq": {
        "common": set(),
        "storage": {"common"},
        "master": {"common"},
        "broker": {"common", "storage"},
        "net": {"common"},
        "nodes": {"common", "storage", "master", "broker", "net"},
        "cluster": {"common", "storage", "master", "broker", "net", "nodes"},
        "pytest_plugin": set(),
    },
    "tubeclient_cli": {
        "common": set(),
        "ingest": {"common"},
        "offsets": {"common"},
        "plan": {"common"},
        "bad_records": {"common", "ingest"},
        "dashboard": {"common"},
        "doctor": {"common"},
        "server": {"common"},
        "topics": {"common"},
        "produce": {"common"},
        "consume": {"common"},
        "groups": {"common"},
        "__main__": {"app"},
        "app": {
            "common",
            "doctor",
            "ingest",
            "offsets",
            "plan",
            "bad_records",
            "server",
            "topics",
            "produce",
            "consume",
            "dashboard",
            "groups",
        },
    },
}
"""Which others each folder or file of a package may import."""


@pytest.mark.parametrize("folder", LAYERS)
def test_a_layer_imports_only_what_it_may_know(folder: str) -> None:
    layer = LAYERS[folder]
    own = folder.removesuffix(".py").replace("/", ".")
    allowed = layer.allowed | {own} | set(sys.stdlib_module_names)
    found = [item for item in imports_of(folder) if item.file != PYTEST_PLUGIN or folder == PYTEST_PLUGIN]
    assert found, f"{folder} has no imports at all; is it empty?"
    wrong = [item for item in found if not below(item.module, allowed) or below(item.module, layer.forbidden)]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("package", FOLDERS)
def test_a_folder_imports_only_the_folders_below_it(package: str) -> None:
    folders = FOLDERS[package]
    wrong = []
    seen = set()
    for item in imports_of(package):
        folder = item.file.split("/")[1].removesuffix(".py")
        if folder == "__init__" or not below(item.module, {package}):
            continue
        other = item.module.split(".")[1]
        if other in folders:
            seen.add((folder, other))
            if other != folder and other not in folders[folder]:
                wrong.append(item)
    assert not wrong, "\n".join(map(str, wrong))
    allowed = {(folder, other) for folder, others in folders.items() for other in others}
    assert allowed <= seen, f"nobody needs {sorted(allowed - seen)}"
    left = {path.name.removesuffix(".py") for path in (ROOT / package).iterdir() if path.suffix in ("", ".py")}
    assert left - {"__init__", "__pycache__"} == set(folders)


def test_random_numbers_are_handed_to_the_state_machines() -> None:
    # They may name the type; drawing from the module's own generator could not be repeated from a seed.
    for path in sorted((ROOT / "tubeclient" / "flows").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "random":
                assert node.attr == "Random", f"{path.name}:{node.lineno} uses random.{node.attr}"
            elif isinstance(node, ast.ImportFrom) and node.module == "random":
                assert [alias.name for alias in node.names] == ["Random"], f"{path.name}:{node.lineno}"


def test_no_flow_goes_on_where_its_caller_was_interrupted() -> None:
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
    assert seen > 50


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


def test_nothing_installed_imports_what_stays_in_the_repository() -> None:
    stays = {"jobs", "conf", "tests", "bench", "tools"}
    wrong = [item for package in PACKAGES for item in imports_of(package) if below(item.module, stays)]
    assert not wrong, "\n".join(map(str, wrong))
