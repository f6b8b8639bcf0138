"""The web calls of masters and brokers, asked with a deadline."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from tubeclient.errors import ProtocolError, RemoteError, TransportError

__all__ = ["query_broker", "query_master"]

# An opener of our own: proxies from the environment are not for a cluster's inside.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def query_master(address: str, method: str, timeout_ms: int, **parameters: str) -> dict[str, Any]:
    """Return the answer of a master's `/webapi.htm?method=...`; `address` is "host:webPort"."""
    return _query(address, "webapi.htm", method, timeout_ms, parameters)


def query_broker(address: str, method: str, timeout_ms: int, **parameters: str) -> dict[str, Any]:
    """Return the answer of a broker's `/broker.htm?method=...`; `address` is "host:webPort"."""
    return _query(address, "broker.htm", method, timeout_ms, parameters)


def _query(address: str, page: str, method: str, timeout_ms: int, parameters: dict[str, str]) -> dict[str, Any]:
    """Raises TransportError without an answer, ProtocolError for one that is not TubeMQ's, RemoteError where the
    server refuses.
    """
    url = f"http://{address}/{page}?{urllib.parse.urlencode({'method': method, **parameters})}"
    try:
        with _opener.open(url, timeout=timeout_ms / 1000) as answer:
            body = answer.read()
    except (OSError, urllib.error.URLError) as error:
        reason = getattr(error, "reason", error)
        raise TransportError(f"no answer to {method} from http://{address}: {reason}", address=address) from error
    try:
        # Apache's servers build their JSON by hand, and line breaks can stand inside its strings.
        parsed = json.loads(body, strict=False)
    except ValueError as error:
        raise ProtocolError(f"http://{address} answered {method} with something that is not JSON") from error
    if not isinstance(parsed, dict):
        raise ProtocolError(f"http://{address} answered {method} with JSON that is no object")
    if not parsed.get("result", False) or parsed.get("errCode", 0) not in (0, 200):
        raise RemoteError(method, str(parsed.get("errMsg", "")), address=address)
    return parsed
