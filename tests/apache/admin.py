"""HTTP administration of a TubeMQ master and its brokers: GET, JSON, no proxies, every call with a time limit."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.apache.settings import MODIFY_TOKEN

# Seconds for one HTTP call; the servers are on this machine and answer within milliseconds.
HTTP_TIMEOUT: Final = 10.0

# Who did it. A name of one letter is refused by the master.
_USER: Final = "tests"

# A proxy of the environment must not see calls to loopback.
_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class AdminError(RuntimeError):
    """A server answered that it did not do it, or did not answer."""


def get_json(address: str, path: str, parameters: Mapping[str, object]) -> dict[str, Any]:
    """GET http://address/path?parameters, as parsed JSON. AdminError if there is no such answer."""
    query = urllib.parse.urlencode({key: _text(value) for key, value in parameters.items()})
    url = f"http://{address}/{path}?{query}"
    try:
        with _OPENER.open(url, timeout=HTTP_TIMEOUT) as response:
            answer = json.loads(response.read())
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise AdminError(f"{parameters.get('method')} at {address}: {error}") from error
    if not isinstance(answer, dict):
        raise AdminError(f"{parameters.get('method')} at {address}: not an object: {answer!r}")
    return answer


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


class MasterAdmin:
    """The master's web port."""

    def __init__(self, address: str) -> None:
        self.address = address

    def query(self, method: str, **parameters: object) -> list[dict[str, Any]]:
        """The `data` of an answer with `result` true."""
        answer = get_json(self.address, "webapi.htm", {"method": method, **parameters})
        if answer.get("result") is not True:
            raise AdminError(f"{method}: {answer}")
        data = answer.get("data", [])
        return data if isinstance(data, list) else [data]

    def modify(self, method: str, **parameters: object) -> list[dict[str, Any]]:
        """A change, which needs the token; AdminError too where one of the changed items was refused."""
        who = {"createUser": _USER, "modifyUser": _USER, "confModAuthToken": MODIFY_TOKEN}
        items = self.query(method, **parameters, **who)
        refused = [item for item in items if item.get("success", True) is not True]
        if refused:
            raise AdminError(f"{method}: {refused}")
        return items

    def broker_states(self) -> dict[int, dict[str, Any]]:
        """admin_query_broker_run_status by broker id."""
        return {int(item["brokerId"]): item for item in self.query("admin_query_broker_run_status")}

    def topic_states(self, topics: Sequence[str]) -> dict[tuple[str, int], dict[str, Any]]:
        """`runInfo` of admin_query_topic_info by (topic, broker id): what the master tells clients."""
        found: dict[tuple[str, int], dict[str, Any]] = {}
        for item in self.query("admin_query_topic_info", topicName=list(topics)):
            for deployed in item.get("topicInfo", ()):
                found[item["topicName"], int(deployed["brokerId"])] = deployed.get("runInfo", {})
        return found


class BrokerAdmin:
    """A broker's web port: it asks for no token."""

    def __init__(self, address: str) -> None:
        self.address = address

    def query(self, method: str, **parameters: object) -> dict[str, Any]:
        """The whole answer, `result` being true or `errCode` 0 or 200."""
        answer = get_json(self.address, "broker.htm", {"method": method, **parameters})
        if answer.get("result") is False or answer.get("errCode", 0) not in (0, 200):
            raise AdminError(f"{method}: {answer}")
        return answer

    def offsets(self, topic: str) -> dict[int, tuple[int, int]]:
        """admin_query_pubinfo: partition id to (min, max) index offset, max exclusive, in bytes of 28 a message."""
        answer = self.query("admin_query_pubinfo", topicName=topic)
        return {
            int(info["partitionId"]): (int(info["offsetMin"]), int(info["offsetMax"]))
            for item in answer.get("dataSet", ())
            if item.get("topicName") == topic
            for info in item.get("offsetInfo", ())
        }
