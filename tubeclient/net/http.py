"""The web calls of masters and brokers, with a deadline."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Final

from tubeclient.errors import ProtocolError, RemoteError, StandbyMaster, TransportError
from tubeclient.wire.web_json import parse_json

__all__ = ["parse_answer", "query_broker", "query_master"]

_MAX_ANSWER_BYTES: Final = 64 << 20
_PIECE_BYTES: Final = 1 << 16

# An active master never sends this (Webapi).
_STANDBY_TEXT: Final = "Please send your request to the master"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A standby master redirects to the active one (MasterStatusCheckFilter). A token must not be sent to an address in
    an answer, so the redirect is refused and the master counts as a standby."""

    def redirect_request(self, *_: object) -> None:
        return None


# Our own opener: proxies from the environment do not apply inside a cluster.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)


def query_master(address: str, method: str, timeout_ms: int, **parameters: str) -> dict[str, Any]:
    """Return the answer of a master's `/webapi.htm?method=...`; `address` is "host:webPort"."""
    return _query(address, "webapi.htm", method, timeout_ms, parameters)


def query_broker(address: str, method: str, timeout_ms: int, **parameters: str) -> dict[str, Any]:
    """Return the answer of a broker's `/broker.htm?method=...`; `address` is "host:webPort"."""
    return _query(address, "broker.htm", method, timeout_ms, parameters)


def _query(address: str, page: str, method: str, timeout_ms: int, parameters: dict[str, str]) -> dict[str, Any]:
    """Raises TransportError without an answer, StandbyMaster if the master is not active, and the errors of
    `parse_answer`.

    Parameters are posted as a form: lists of names can exceed a URL's length, and tokens do not belong in a URL.
    """
    url = f"http://{address}/{page}?{urllib.parse.urlencode({'method': method})}"
    try:
        request = urllib.request.Request(url, urllib.parse.urlencode(parameters).encode())
        body = _fetch(request, timeout_ms / 1000)
    except urllib.error.HTTPError as error:
        error.close()
        if 300 <= error.code < 400:
            raise StandbyMaster(method, "this master is a standby", address=address) from None
        raise TransportError(f"http://{address} answered {method} with HTTP {error.code}", address=address) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise TransportError(f"no answer to {method} from http://{address}: {reason}", address=address) from error
    return parse_answer(body, method, address)


def _fetch(request: urllib.request.Request, timeout_seconds: float) -> bytes:
    """The whole answer; TimeoutError also if it arrives too slowly."""
    deadline = time.monotonic() + timeout_seconds
    body = bytearray()
    with _opener.open(request, timeout=timeout_seconds) as answer:
        while piece := answer.read1(_PIECE_BYTES):
            body += piece
            if len(body) > _MAX_ANSWER_BYTES:
                raise OSError(f"the answer is longer than {_MAX_ANSWER_BYTES >> 20} MB")
            if time.monotonic() >= deadline:
                raise TimeoutError(f"the answer was not complete within {timeout_seconds:g} s")
    return bytes(body)


def parse_answer(body: bytes, method: str, address: str) -> dict[str, Any]:
    """The JSON object of an answer to `method` from `address`.

    Raises ProtocolError for a body that is not TubeMQ's, RemoteError if the server refuses, and StandbyMaster if the
    master may not answer now.
    """
    try:
        parsed = parse_json(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"http://{address} answered {method} with something that is not JSON") from error
    if not isinstance(parsed, dict):
        raise ProtocolError(f"http://{address} answered {method} with JSON that is not an object")
    if parsed.get("result") is not True or parsed.get("errCode", 0) not in (0, 200):
        text = str(parsed.get("errMsg", ""))
        raise (StandbyMaster if _STANDBY_TEXT in text else RemoteError)(method, text, address=address)
    return parsed
