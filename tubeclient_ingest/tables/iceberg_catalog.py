"""pyiceberg's catalogs as the job opens them: each wait has an end, and errors have nothing secret of what describes
them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tubeclient.printable import display_uri

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

__all__ = ["open_catalog", "own_properties", "secrets_in"]

_TIMEOUTS: Final = (10.0, 60.0)
"""Seconds for a REST catalog to take a connection, and to go on with an answer."""
_GLUES_RETRIES: Final = "glue.max-retries"
_RETRIES: Final = 4
"""Of boto's requests, which wait for a minute each. pyiceberg's default of ten is eleven minutes without an answer."""
_patching: Final = threading.Lock()


@lru_cache
def open_catalog(warehouse: str | None, name: str) -> Catalog:
    """The catalog of this name in pyiceberg's configuration; with a folder for tables, one in SQLite in it. ValueError:
    the configuration does not describe it."""
    from pyiceberg.catalog import load_catalog

    if warehouse is None:
        properties = own_properties(name)
        if properties.get("type") == "glue":  # boto takes no text for a number
            properties[_GLUES_RETRIES] = int(properties.get(_GLUES_RETRIES, _RETRIES))
        with _patching, _timeouts():
            return load_catalog(name, **properties)
    folder = Path(warehouse)
    folder.mkdir(parents=True, exist_ok=True)
    return load_catalog(name, type="sql", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=f"file://{folder}")


def own_properties(name: str) -> dict[str, Any]:
    """What pyiceberg's configuration says of this catalog now: pyiceberg itself reads it when it is imported."""
    from pyiceberg.utils.config import Config

    return dict(Config().get_catalog_config(name) or {})


@contextmanager
def _timeouts() -> Iterator[None]:
    """Within it pyiceberg makes sessions of requests that have timeouts. It has no setting for them, and requests then
    waits for ever. Where it asks for tokens, they stay: it does so again when one expires."""
    rest: Any = import_module("pyiceberg.catalog.rest")
    auth: Any = import_module("pyiceberg.catalog.rest.auth")
    if not isinstance(auth.requests, _TokenRequests):
        auth.requests = _TokenRequests(auth.requests)
    before = rest.Session

    class Session(before):  # type: ignore[misc, valid-type]
        def request(self, *given: Any, **named: Any) -> Any:
            return super().request(*given, **{"timeout": _TIMEOUTS, **named})

    rest.Session = Session
    try:
        yield
    finally:
        rest.Session = before


class _TokenRequests:
    def __init__(self, requests: Any) -> None:
        self._requests = requests

    def post(self, *given: Any, **named: Any) -> Any:
        return self._requests.post(*given, timeout=_TIMEOUTS, **named)


def secrets_in(properties: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """What no error may have of a catalog's properties: values by names, those within values too."""
    found: dict[str, str] = {}
    for name, value in properties.items():
        name = f"{prefix}{name}"
        if isinstance(value, Mapping):
            found |= secrets_in(value, f"{name}.")
            continue
        text = str(value).strip()  # of a file's line, which requests shows with an escape
        if name == "type" or name.endswith("region") or ("://" in text and display_uri(text) == text):
            continue
        found |= {name: text, f"{name}?": text.partition("?")[2]}
        if "://" not in text:  # an id and a secret, or Bearer and a token
            found[f"{name}:"] = text.replace(":", " ").rpartition(" ")[2]
    return found
