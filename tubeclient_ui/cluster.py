"""The views of the cluster and of a topic: what there is, how fast it grows, and what is down."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from tubeclient.errors import TubeError
from tubeclient.keys import StoreKey
from tubeclient_cli.facts.topics import no_topic, topic_json
from tubeclient_ui.access import ClusterAccess, Rates, rate_of, shown_error

__all__ = ["PAGE_ROWS", "Problem", "cluster_view", "page_of", "silent_problems", "topic_view", "unasked"]

T = TypeVar("T")

PAGE_ROWS: Final = 100


class Problem(NamedTuple):
    """Something that is not well."""

    what: str
    """A text of texts.py with the names of `of`."""
    of: Mapping[str, object]
    detail: str
    """The error, in its own words."""
    command: str
    """What helps."""


def page_of(rows: Sequence[T], page: int) -> dict[str, Any]:
    """A part of long lists: PAGE_ROWS of them."""
    last = max(0, len(rows) - 1) // PAGE_ROWS
    page = min(page, last)
    return {"rows": rows[page * PAGE_ROWS : (page + 1) * PAGE_ROWS], "page": page, "last": last, "count": len(rows)}


def cluster_view(access: ClusterAccess, rates: Rates, q: str, page: int) -> dict[str, Any]:
    """Masters, brokers and the topics that have `q` in their names; what does not answer is among the problems."""
    masters = access.masters()
    problems = [
        Problem("Master {master} does not answer", {"master": master.address}, master.error, access.doctor)
        for master in masters
        if master.state == "down"
    ]
    silent: dict[int, TubeError] = {}
    shown: dict[str, Any] = {"masters": masters, "brokers": [], "topics": page_of([], 0), "problems": problems}
    shown["silent"] = silent
    try:
        admin = access.admin()
        shown["brokers"] = brokers = admin.brokers()
        topics = admin.topics()
        bounds = admin.store_bounds(silent=silent)
    except TubeError as error:
        problems.append(unasked(access, error))
        return shown
    grown = rates.after(time.monotonic(), bounds)
    stores: dict[str, list[StoreKey]] = {}
    for store in bounds:
        stores.setdefault(store.topic, []).append(store)
    stopped = [broker for broker in brokers if broker.is_in_service and broker.run_status != "running"]
    details = {broker_id: shown_error(error) for broker_id, error in silent.items()}
    problems += [
        Problem("Broker {broker} is down", {"broker": broker}, details.get(broker.info.broker_id, ""), access.doctor)
        for broker in stopped
    ]
    names = {broker.info.broker_id: str(broker) for broker in brokers if broker not in stopped}
    problems += silent_problems(access, {names[key]: error for key, error in silent.items() if key in names})
    down = {broker.info.broker_id for broker in brokers if broker.run_status != "running"} | silent.keys()
    rows = []
    for topic in topics:
        if not all(on.is_loaded or on.broker.broker_id in down for on in topic.on_brokers):
            command = f"tubeclient topics show {shlex.quote(topic.name)} {access.command}"
            problems.append(Problem("Topic {topic} is not loaded on all brokers", {"topic": topic.name}, "", command))
        if q.lower() in topic.name.lower():
            found = topic_json(topic, {store: bounds[store] for store in stores.get(topic.name, ())})
            messages = sum(store["messagesAtMost"] for store in found["stores"])
            rate = rate_of(stores.get(topic.name, ()), grown)
            partial = any(on.broker.broker_id in silent for on in topic.on_brokers)
            rows.append({**found, "messages": messages, "rate": rate, "partial": partial})
    return shown | {"topics": page_of(rows, page)}


def topic_view(access: ClusterAccess, rates: Rates, name: str, page: int) -> dict[str, Any]:
    """A topic with its brokers and stores. Raises TubeError."""
    admin = access.admin()
    silent: dict[int, TubeError] = {}
    topic = next(iter(admin.topics([name])), None)
    if topic is None:
        raise no_topic(name, admin.topic_names())
    bounds = admin.store_bounds([name], silent=silent)
    grown = rates.after(time.monotonic(), bounds)
    found = topic_json(topic, bounds)
    partitions = {on.broker.broker_id: on.partitions_per_store for on in topic.on_brokers}
    for store, row in zip(sorted(bounds), found["stores"], strict=True):
        row |= {"rate": grown.get(store), "partitions": partitions[store.broker_id]}
    return {
        "topic": found,
        "stores": page_of(found["stores"], page),
        "rate": rate_of(bounds, grown),
        "problems": silent_problems(access, silent),
    }


def silent_problems(access: ClusterAccess, silent: Mapping[int, TubeError] | Mapping[str, TubeError]) -> list[Problem]:
    """Brokers that did not answer, by id or name."""
    return [
        Problem("Broker {broker} does not answer", {"broker": broker}, shown_error(error), access.doctor)
        for broker, error in silent.items()
    ]


def unasked(access: ClusterAccess, error: TubeError) -> Problem:
    """No master answered."""
    return Problem("The cluster could not be asked", {}, shown_error(error), access.doctor)
