"""What users may rely on: names, settings, identities."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import tubeclient
from tubeclient import (
    ClientSettings,
    ConfigurationError,
    OffsetRange,
    PartitionKey,
    errors,
    parse_master_servers,
)


def test_all_is_complete_and_sorted() -> None:
    assert tubeclient.__all__ == sorted(tubeclient.__all__) == dir(tubeclient)
    public = set(tubeclient.__all__) - {"__version__"}
    error_classes = {
        name for name, value in vars(errors).items() if inspect.isclass(value) and not name.startswith("_")
    }
    assert {name for name in error_classes if issubclass(getattr(errors, name), errors.TubeError)} <= public


def test_each_name_is_imported_from_where_type_checkers_see_it() -> None:
    tree = ast.parse(Path(tubeclient.__file__).read_text())
    [seen] = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for node in seen.body if isinstance(node, ast.ImportFrom)]
    assert {alias.name: node.module for node in imports for alias in node.names} == tubeclient._HOMES
    at_once = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    light = at_once & set(tubeclient.__all__)
    assert set(tubeclient._HOMES) == set(tubeclient.__all__) - light
    assert not light & set(tubeclient._HOMES)


def test_keys_alone_load_next_to_nothing() -> None:
    code = "import sys, tubeclient.keys; print(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-S", "-c", code], check=True, capture_output=True, text=True, timeout=60)
    loaded = set(ran.stdout.split())
    assert {name for name in loaded if name.startswith("tubeclient.")} == {
        "tubeclient._version",
        "tubeclient.errors",
        "tubeclient.keys",
        "tubeclient.names",
    }
    heavy = {"asyncio", "concurrent.futures", "google.protobuf", "http.client", "logging", "pyarrow", "socket", "ssl"}
    assert loaded & heavy == set()


@pytest.mark.parametrize("name", [name for name in tubeclient.__all__ if name != "__version__"])
def test_everything_public_says_what_it_is(name: str) -> None:
    assert inspect.getdoc(getattr(tubeclient, name))


def test_master_servers() -> None:
    assert parse_master_servers(" a:1, b ,a:1,[::1]:9 ") == ("a:1", "b:8715", "[::1]:9")
    assert parse_master_servers("a:1,b", tls=True) == ("a:1", "b:8716")
    for text in ("", " , ", "a:b", "a:0", "a:70000", "http://a:1", "a b"):
        with pytest.raises(ConfigurationError, match="master_servers"):
            parse_master_servers(text)


def test_settings_refuse_nonsense() -> None:
    with pytest.raises(ConfigurationError, match="master_servers"):
        ClientSettings(())
    for value in (7, None, {"a:1"}, ["a:1", 7], b"a:1"):
        with pytest.raises(ConfigurationError, match="master_servers must be host:port as a text, or a list of such"):
            ClientSettings(value)  # type: ignore[arg-type]
    for text in ("", " , ", "a:b", "a:0", "http://a:1", ["a:1", "b c"]):
        with pytest.raises(ConfigurationError, match=r"master_servers .*host:port"):
            ClientSettings(text)
    with pytest.raises(ConfigurationError, match="rpc_timeout_ms"):
        ClientSettings(("a:1",), rpc_timeout_ms=0)


def test_ranges_refuse_nonsense() -> None:
    key = PartitionKey.parse(" 1:clicks:10000 ")
    assert key == (1, "clicks", 10_000)
    assert str(key.store) == "1:clicks:1"
    assert OffsetRange(key, 28, 280).max_messages == 9
    for start, end in ((1, 28), (0, 29), (-28, 0), (56, 28)):
        with pytest.raises(ConfigurationError, match="1:clicks:10000"):
            OffsetRange(key, start, end)
    for text in ("", "1:clicks", "x:clicks:1", "1::1", "1:clicks:-1", "1:a:b:2"):
        with pytest.raises(ConfigurationError, match="partition key"):
            PartitionKey.parse(text)
