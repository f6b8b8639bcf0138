"""A server that answers as InLong's Manager does (apache/inlong at a6c7a6a670, 2.5.0-SNAPSHOT), on a real socket.

Manager's jars are not on Maven Central, so its answers are written down here, field by field after its own classes.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

__all__ = ["KEY", "USER", "Asked", "field", "group", "managing", "stream"]

USER: Final = "lake"
KEY: Final = "8gFWkX/kT2Yq+u3e"

_CHANGED: Final = """
    "creator": "admin", "modifier": "admin", "createTime": "2026-11-01T10:00:00.000+0800",
    "modifyTime": "2026-11-02T10:00:00.000+0800", "version": 3
"""

# InlongTubeMQInfo, of InlongGroupInfo.
_GROUP: Final = """{
    "id": 1, "inlongGroupId": "shop", "name": "shop", "description": "", "middlewareType": null, "mqType": "TUBEMQ",
    "mqResource": "shop_topic", "enableZookeeper": 0, "enableCreateResource": 1, "inlongGroupMode": 0,
    "dataReportType": 0, "inlongClusterTag": "default_cluster", "dailyRecords": 10, "dailyStorage": 10,
    "peakRecords": 1000, "maxLength": 10240, "inCharges": "admin", "followers": null, "status": 130,
    "previousStatus": 120, "extList": [], "sortConf": null, "tenant": "public", "scheduleType": null,
    "managerUrl": null, "masterUrl": null, "clusterId": 1, %s
}"""

# StreamField
_FIELD: Final = """{
    "id": 1, "inlongGroupId": "shop", "inlongStreamId": "clicks", "fieldName": "", "fieldType": "", "fieldComment": "",
    "isPredefinedField": 0, "fieldValue": null, "preExpression": null, "isMetaField": 0, "metaFieldName": null,
    "fieldFormat": null, "originNodeName": null, "originFieldName": null, "extParams": null
}"""

# InlongStreamInfo, of BaseInlongStream. It has a sink, with a password that is not ours.
_STREAM: Final = """{
    "predefinedFields": null, "kvSeparator": null, "lineSeparator": null, "id": 7, "inlongGroupId": "shop",
    "inlongStreamId": "", "name": "", "description": null, "mqResource": "", "dataType": "CSV", "dataEncoding": "UTF-8",
    "dataSeparator": "124", "dataEscapeChar": null, "syncSend": 0, "dailyRecords": 10, "dailyStorage": 10,
    "peakRecords": 1000, "maxLength": 10240, "storagePeriod": 1, "extParams": "{\\"ignoreParseError\\":true}",
    "status": 130, "previousStatus": 120, "fieldList": [], "extList": [], "sourceList": [],
    "sinkList": [{"sinkType": "MYSQL", "username": "root", "password": "s3cret"}], "wrapType": "INLONG_MSG_V0",
    "useExtendedFields": false, "extendedFieldSize": 0, "sinkMultipleEnable": false, "syncField": false,
    "ignoreParseError": true, %s
}"""

# TubeClusterInfo, of ClusterInfo.
_CLUSTER: Final = """{
    "id": 2, "name": "tube", "displayName": "tube", "type": "TUBEMQ", "url": "10.0.0.1:8715,10.0.0.2:8715",
    "clusterTags": "", "extTag": null, "token": "cluster-token", "heartbeat": null, "extParams": null,
    "description": null, "inCharges": "admin", "status": 1, "masterWebUrl": "http://10.0.0.1:8080", %s
}"""


def _saved(text: str, **more: Any) -> dict[str, Any]:
    return {**json.loads(text.replace("%s", _CHANGED)), **more}


def group(**more: Any) -> dict[str, Any]:
    """A group, and what is different of it."""
    return _saved(_GROUP, **more)


def field(name: str, kind: str, **more: Any) -> dict[str, Any]:
    """A field of a stream."""
    return _saved(_FIELD, fieldName=name, fieldType=kind, **more)


def stream(name: str, *fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A stream of the group shop."""
    return _saved(_STREAM, inlongStreamId=name, name=name, mqResource=name, fieldList=list(fields), **more)


def _brief(of: Mapping[str, Any]) -> dict[str, Any]:
    """InlongStreamBriefInfo as InlongStreamServiceImpl.listBrief fills it: without fields."""
    names = ("id", "inlongGroupId", "inlongStreamId", "name", "dataType", "dataEncoding", "dataSeparator", "wrapType")
    return {**{name: of[name] for name in names}, "sinkList": None, "fieldList": None, "extList": None}


Answer = Callable[[BaseHTTPRequestHandler], None]


class Asked:
    """A running server."""

    def __init__(self) -> None:
        self.address = ""
        self.requests: list[tuple[str, str]] = []
        """Path and body of each."""
        self.headers: list[Mapping[str, str]] = []


@contextmanager
def managing(
    streams: Mapping[str, Mapping[str, Any]],
    of: Mapping[str, Any] | None = None,
    *,
    answer: Answer | None = None,
    tls: ssl.SSLContext | None = None,
    port: int = 0,
) -> Iterator[Asked]:
    """Manager with one group; with `answer` that instead of Manager's. What changes in `streams` is answered from then
    on."""
    asked = Asked()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            asked.requests.append((self.path, body))
            asked.headers.append({name.lower(): value for name, value in self.headers.items()})
            if answer is not None:
                answer(self)
                return
            status, document = _answered(self, body, streams, of or group())
            text = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    asked.address = f"http{'' if tls is None else 's'}://127.0.0.1:{server.server_port}"
    try:
        yield asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answered(
    request: BaseHTTPRequestHandler, body: str, streams: Mapping[str, Mapping[str, Any]], of: Mapping[str, Any]
) -> tuple[int, object]:
    url = urlsplit(request.path)
    call, query = url.path.removeprefix("/inlong/manager/openapi/"), dict(parse_qsl(url.query))
    tenant = request.headers.get("tenant") or "public"  # EmptyTenantFilter
    if not _is_let_in(request.headers.get("Authorization")) or tenant != of["tenant"]:
        # sendError of OpenAPIFilter and TenantAuthenticatingFilter, as Spring's BasicErrorController writes it.
        return 403, {"timestamp": 1764300000000, "status": 403, "error": "Forbidden", "path": request.path}
    if call == f"group/get/{of['inlongGroupId']}":
        return 200, _success(of)
    if call.startswith("group/get/"):
        return 200, _fail("Inlong group does not exist/no operation authority")  # GROUP_NOT_FOUND
    if call == "stream/list":
        mine = json.loads(body)["inlongGroupId"] == of["inlongGroupId"]
        return 200, _success([_brief(one) for one in streams.values() if mine])
    if call == "stream/get":
        found = streams.get(query["streamId"])
        text = "Inlong stream does not exist/no operation permission"  # STREAM_NOT_FOUND
        return 200, _fail(text) if found is None else _success(found)
    if call == "cluster/listByTenantRole":
        wanted = json.loads(body)
        assert wanted["type"] == "TUBEMQ"
        found_clusters = [_saved(_CLUSTER, clusterTags=wanted["clusterTag"])]
        # PageResult
        return 200, _success({"list": found_clusters, "total": 1, "pageSize": wanted["pageSize"], "pageNum": 1})
    return 404, {"timestamp": 1764300000000, "status": 404, "error": "Not Found", "path": request.path}


def _is_let_in(header: str | None) -> bool:
    """OpenAPIFilter.parseBasicAuth, and the secret key of the user."""
    kind, _, token = (header or "").partition(" ")
    pair = base64.b64decode(token).decode().split(":") if kind == "Basic" else []
    return pair == [USER, KEY]


def _success(data: object) -> dict[str, Any]:
    """Response.success"""
    return {"success": True, "errMsg": None, "data": data}


def _fail(text: str) -> dict[str, Any]:
    """Response.fail, as ControllerExceptionHandler answers a BusinessException."""
    return {"success": False, "errMsg": text, "data": None}
