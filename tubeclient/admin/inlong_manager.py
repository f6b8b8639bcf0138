"""InLong's Manager by its OpenAPI: which topic a group has, and how the records of its streams are written.

Read in apache/inlong at a6c7a6a670 (2.5.0-SNAPSHOT): OpenInLongGroupController, OpenInLongStreamController,
OpenInLongClusterController, OpenAPIFilter, TenantAuthenticatingFilter. Since fee750b76d (2026-05) Manager asks for a
user and key by default (`openapi.auth.enabled`).
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from tubeclient.errors import ConfigurationError, TransportError, TubeError
from tubeclient.net.http import fetch, server_url
from tubeclient.net.streams import client_context
from tubeclient.passwords import check_password_sources, is_utf8, read_password
from tubeclient.printable import printable
from tubeclient.settings import TlsSettings

_PORT: Final = 8083
_CONTEXT: Final = "/inlong/manager"
"""Manager's own (`server.servlet.context-path`)."""
_MOST_BYTES: Final = 32 << 20
"""Of an answer. A stream's holds its sources and sinks too."""
_GROUP_ID: Final = re.compile(r"[a-zA-Z0-9_.-]{4,200}")  # InlongStreamRequest

_OF_STREAM: Final = (
    *("inlongStreamId", "dataType", "dataEncoding", "dataSeparator", "dataEscapeChar", "kvSeparator"),
    *("lineSeparator", "wrapType"),
)
_OF_FIELD: Final = ("fieldName", "fieldType", "fieldFormat", "isMetaField", "isPredefinedField")


class InlongManagerError(TubeError):
    """Manager refuses a call, or its answer cannot be used."""

    condition = "INLONG_MANAGER_FAILED"


class InlongGroup(NamedTuple):
    """A group of InLong's on TubeMQ."""

    group_id: str
    topic: str
    """`mqResource`: all of its streams are in this topic (InlongGroupOperator4TubeMQ)."""
    cluster_tag: str
    """For `masters`. Empty if it has none yet."""


class InlongManager:
    """Manager at `address`: `http://host:8083`, `https://host`, or `host`, with a path if it has another one than
    /inlong/manager. It holds no connection and is thread-safe.

    `user` is a user of Manager, with its secret key (not its password) as `key`, in the file `key_file`, or in the
    variable `key_env`, which are read when needed. Without a user Manager must have `openapi.auth.enabled=false`.
    `tenant` None is Manager's own default, public. No proxy of the environment applies, and no redirect is followed.

    A method ends within `timeout_ms`, whatever Manager does. It raises TransportError if Manager does not answer,
    InlongManagerError if it refuses or its answer is not Manager's, and ConfigurationError for a wrong argument.
    """

    def __init__(
        self,
        address: str,
        user: str | None = None,
        *,
        key: str | None = None,
        key_file: str | None = None,
        key_env: str | None = None,
        tenant: str | None = None,
        ca_file: str | None = None,
        timeout_ms: int = 30_000,
    ) -> None:
        self._is_tls, self._host, path = server_url(address, _PORT, "Manager")
        self._path = path or _CONTEXT
        self.address = f"http{'s' * self._is_tls}://{self._host}{self._path}"
        """As it is asked."""
        self._sources = key, key_file, key_env
        if check_password_sources("key", *self._sources) != (user is not None):
            raise ConfigurationError("give both the user and the key for InLong's Manager, or neither")
        # Manager takes what is between two colons for the key, and refuses more of them (OpenAPIFilter).
        if user is not None and (not user.strip() or ":" in user or not is_utf8(user)):
            raise ConfigurationError("the user of InLong's Manager must be text without colons")
        if tenant is not None and not re.fullmatch(r"[!-~]+", tenant):
            raise ConfigurationError("the tenant of InLong's Manager must be ASCII, without blanks")
        if ca_file is not None and not self._is_tls:
            raise ConfigurationError(
                f"a CA file is given, but {self.address} is not https; use https://, or remove the CA file"
            )
        self._user, self._tenant, self._timeout_ms = user, tenant, timeout_ms
        self._tls = TlsSettings(ca_file=ca_file)

    def group(self, group_id: str) -> InlongGroup:
        """The group. ConfigurationError if it is not on TubeMQ."""
        found = self._ask(f"group/get/{_checked(group_id)}", self._end())
        if not isinstance(found, Mapping) or not isinstance(found.get("mqType"), str):
            raise self._unusable("group/get")
        if found["mqType"] != "TUBEMQ":
            raise ConfigurationError(
                f"InLong's group {group_id} uses {printable(found['mqType'])}, not TubeMQ (mqType)"
            )
        if not found.get("mqResource"):
            raise ConfigurationError(f"InLong's group {group_id} has no topic yet (mqResource); approve it in Manager")
        return InlongGroup(group_id, str(found["mqResource"]), str(found.get("inlongClusterTag") or ""))

    def streams(self, group_id: str) -> dict[str, str]:
        """By stream id, sorted, what says how its records are written: a small JSON, always the same for the same
        definition, which `parse_stream` takes. It has nothing of sources and sinks, whose passwords Manager answers
        too.

        One request for the list, which Manager does not page here (InlongStreamServiceImpl.listBrief) and which has
        the streams of every owner, and one for each stream's fields.
        """
        end = self._end()
        listed = self._ask("stream/list", end, {"inlongGroupId": _checked(group_id)})
        if not isinstance(listed, list):
            raise self._unusable("stream/list")
        names = [stream.get("inlongStreamId") if isinstance(stream, Mapping) else None for stream in listed]
        if not all(isinstance(name, str) and name for name in names):
            raise self._unusable("stream/list")
        return {name: self._stream(group_id, name, end) for name in sorted(map(str, names))}

    def masters(self, group: InlongGroup) -> list[str]:
        """The `host:port,...` of the masters of each TubeMQ cluster that has the group's tag; mostly one."""
        request = {"type": "TUBEMQ", "clusterTag": group.cluster_tag, "pageSize": 100}
        page = self._ask("cluster/listByTenantRole", self._end(), request) if group.cluster_tag else {"list": []}
        clusters = page.get("list") if isinstance(page, Mapping) else None
        if not isinstance(clusters, list) or not all(isinstance(cluster, Mapping) for cluster in clusters):
            raise self._unusable("cluster/listByTenantRole")
        return [str(cluster["url"]) for cluster in clusters if cluster.get("url")]

    def _stream(self, group_id: str, stream_id: str, end: float) -> str:
        query = urlencode({"groupId": group_id, "streamId": stream_id})
        found = self._ask(f"stream/get?{query}", end)
        fields = found.get("fieldList") or [] if isinstance(found, Mapping) else None
        if not isinstance(fields, list) or not all(isinstance(field, Mapping) for field in fields):
            raise self._unusable("stream/get")
        small = _picked(found, _OF_STREAM) | {"fieldList": [_picked(field, _OF_FIELD) for field in fields]}
        return json.dumps(small, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    def _end(self) -> float:
        return time.monotonic() + self._timeout_ms / 1000

    def _ask(self, what: str, end: float, request: Mapping[str, object] | None = None) -> Any:
        """The `data` of Manager's Response to a GET, or to the POST of `request`."""
        key = None if self._user is None else read_password("key", *self._sources)
        if key is not None and ":" in key:
            raise ConfigurationError("the key contains a colon, so it cannot be a key from Manager")
        token = base64.b64encode(f"{self._user}:{key}".encode()).decode()
        headers = {"Accept": "application/json", "Content-Type": "application/json", "Connection": "close"}
        headers |= {} if key is None else {"Authorization": f"Basic {token}"}
        headers |= {} if self._tenant is None else {"tenant": self._tenant}

        def shown(text: object) -> str:
            """Words of others, which may repeat what they were sent."""
            shown = str(text).replace(token, "***")
            return printable(shown if key is None else shown.replace(key, "***"))[:500]

        body = None if request is None else json.dumps(request).encode()
        tls = client_context(self._tls) if self._is_tls else None
        try:
            status, answer = fetch(
                self._host,
                "GET" if body is None else "POST",
                f"{self._path}/openapi/{what}",
                body,
                headers,
                seconds=max(0.001, end - time.monotonic()),
                tls=tls,
                most_bytes=_MOST_BYTES,
            )
        except (OSError, http.client.HTTPException, ValueError) as error:
            text = f"no answer of InLong's Manager at {self.address}: {shown(error)}"
            raise TransportError(text, address=self._host) from None
        found = self._response(what, status, answer)
        if not found["success"]:
            raise self._failure(f"refuses {what}: {shown(found.get('errMsg') or 'no text given')}; {self._who}")
        return found.get("data")

    def _response(self, what: str, status: int, answer: bytes) -> Mapping[str, Any]:
        """The JSON of Manager's Response class."""
        if status in (401, 403):
            # Manager answers 403 to a user it does not know, another key, and another tenant.
            raise self._failure(
                f"rejects these credentials (HTTP {status}): give a user, its secret key, and its tenant; {self._who}",
                condition="AUTHENTICATION_FAILED",
            )
        if status >= 500:
            text = f"InLong's Manager at {self.address} answers with HTTP {status}"
            raise TransportError(text, address=self._host)
        if status != http.HTTPStatus.OK:
            where = ", a redirect that the client does not follow" if 300 <= status < 400 else ""
            raise self._failure(f"answers {what} with HTTP {status}{where}; check host, port and path")
        if len(answer) > _MOST_BYTES:
            raise self._unusable(what, f"has more than {_MOST_BYTES:,} bytes")
        try:
            found = json.loads(answer)
        except (ValueError, RecursionError):
            is_html = answer.lstrip()[:1] == b"<"
            why = "is an HTML page; check host, port and path" if is_html else "is not JSON, or is cut off"
            raise self._unusable(what, why) from None
        if not isinstance(found, Mapping) or not isinstance(found.get("success"), bool):
            raise self._unusable(what)
        return found

    @property
    def _who(self) -> str:
        return f"user {self._user or 'none'}, tenant {self._tenant or 'public'}"

    def _failure(self, text: str, condition: str | None = None) -> InlongManagerError:
        return InlongManagerError(f"InLong's Manager at {self.address} {text}", condition=condition)

    def _unusable(self, what: str, why: str = "does not have Manager's form") -> InlongManagerError:
        return self._failure(f"was asked {what}, but the answer {why}")


def _checked(group_id: str) -> str:
    if not _GROUP_ID.fullmatch(group_id):
        raise ConfigurationError(f"{group_id!r} is not an InLong group id; use 4 to 200 letters, digits, and . _ -")
    return group_id


def _picked(found: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """What is said of these: null, 0 and an empty text say nothing."""
    return {name: found[name] for name in names if found.get(name)}
