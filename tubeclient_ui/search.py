"""A search in a topic's messages: on a thread of its own, bounded in time, bytes and messages, with progress and a
stop. It reads ranges under reader groups, so no position of a group moves.
"""

from __future__ import annotations

import contextlib
import json
import math
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from spark_source.offsets.offset_spec import OffsetSpec
from tubeclient.consumers.group import fetch_view
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.flows.read_range import Pack
from tubeclient.inlong import Limits, RecordDecoder
from tubeclient.keys import INDEX_ENTRY_BYTES, OffsetRange, PartitionKey, StoreBounds, StoreKey
from tubeclient.metadata import ClusterView
from tubeclient.names import checked_tags, reader_groups_of, topic_name
from tubeclient.positions.offset_lookup import OffsetLookup
from tubeclient.range_reader import RangeReader, WantedRange
from tubeclient_cli.facts.messages import message_json, messages_of
from tubeclient_cli.facts.position_moves import moves_to, parse_offset_spec
from tubeclient_cli.facts.topics import topics_known
from tubeclient_ui.access import ClusterAccess, shown_error
from tubeclient_ui.filters import MessageFilter
from tubeclient_ui.masks import Masks

__all__ = ["Found", "MessageSearch", "SearchFor", "Searches"]

_GROUPS: Final = reader_groups_of("tubeclient_ui")
_LIMITS: Final = Limits(max_bytes=16 << 20, max_records=10_000, max_repeated_bytes=16 << 20)
"""Of one message unpacked. A larger one is shown as bad."""
_MOST_FOUND_BYTES: Final = 16 << 20
"""Of the messages of one search."""
_MOST_ENTRIES: Final = 8_192
"""The index entries that are read at once when the newest come first."""
_LEFT_SECONDS: Final = 60.0
"""A search of which nobody asks for the progress ends; sooner, if another one needs its place."""
_PLACE_SECONDS: Final = 3.0
_STOP_SECONDS: Final = 2.0
_NEWS_SECONDS: Final = 0.4
"""How long whoever asks for the progress waits for another message."""
_AT_ONCE: Final = 4
_MOST_SEARCHES: Final = 12
_MOST_NAMED: Final = 50
_LAST_TIME: Final = "9"
"""After all times of messages, which are yyyyMMddHHmm."""


@dataclass(frozen=True, slots=True)
class SearchFor:
    """What to search, as the query of a URL has it."""

    topic: str
    partition: PartitionKey | None = None
    start: str = "earliest"
    end: str = "latest"
    newest_first: bool = True
    tags: frozenset[str] = frozenset()
    filter: MessageFilter = field(default_factory=MessageFilter)
    message_id: int | None = None
    unpack: bool = True
    """Whether InLong's packs are taken apart."""
    most: int = 100
    """Messages to find; more if one pack has more."""
    most_bytes: int = 64 << 20
    seconds: float = 30.0


class Found(NamedTuple):
    """A message: its value, or its records that fit, as in `message_json`."""

    rows: list[dict[str, Any]]
    records: int
    """How many it has in all."""
    size: int


class _Bound(Exception):
    pass


class MessageSearch:
    """One search. `run` does it; the other methods and the numbers are for any thread."""

    def __init__(self, access: ClusterAccess, wanted: SearchFor, masks: Masks, zone: ZoneInfo) -> None:
        self.key = secrets.token_urlsafe(8)
        self.wanted = wanted
        self.found: list[Found] = []
        self.messages = self.bytes = self.entries = self.all_entries = 0
        """What was read so far; entries of the index, of all that are between start and end."""
        self.error = ""
        self.silent: Mapping[int, TubeError] = {}
        self.losses: list[str] = []
        self.rest = ""
        """Where to go on, as JSON from partitions to offsets."""
        self.query: Mapping[str, str] = {}
        self.asked_at = time.monotonic()
        self._access, self._masks, self._zone = access, masks, zone
        self._decoder = RecordDecoder("auto", zone=zone, limits=_LIMITS) if wanted.unpack or masks else None
        self._found_bytes = 0
        self._open: OffsetLookup | RangeReader | None = None
        self._why, self._stopped_at, self._done = "", math.inf, False

    @property
    def is_stopped(self) -> bool:
        """Whether it ended, or will in a moment."""
        return bool(self._why)

    @property
    def ended(self) -> str:
        """Why it ended: end, full, bytes, time, stopped, left or failed; "" while it runs. After a stop it counts as
        ended soon, though a call may go on."""
        return self._why if self._done or time.monotonic() - self._stopped_at > _STOP_SECONDS else ""

    def wait(self, after: int) -> None:
        """Until there are more messages than `after`, or the end, or for a moment."""
        until = time.monotonic() + _NEWS_SECONDS
        while not self.is_stopped and len(self.found) <= after and time.monotonic() < until:
            time.sleep(0.01)

    def start(self) -> None:
        """Search on a thread."""
        threading.Thread(target=self.run, name=f"tubeclient-ui-search-{self.key}", daemon=True).start()

    def stop(self, why: str = "stopped") -> None:
        """End it. What it waits for ends with it."""
        if not self._why:
            self._why, self._stopped_at = why, time.monotonic()
        if (waits := self._open) is not None:
            threading.Thread(target=waits.close, daemon=True).start()

    def run(self) -> None:
        timer = threading.Timer(self.wanted.seconds, self.stop, ["time"])
        timer.daemon = True
        timer.start()
        why = "failed"
        try:
            self._search()
            why = "end"
        except _Bound as bound:
            why = str(bound)
        except TubeError as error:
            if not self._why:  # else it is that of the stop
                self.error = shown_error(error)
        finally:
            timer.cancel()
            self._why = self._why or why
            self._done = True

    def _search(self) -> None:
        settings = self._access.settings()
        topic = topic_name(self.wanted.topic)
        with topics_known(settings, [topic]):
            view = fetch_view(settings, [topic], _GROUPS)
        self._check()
        with contextlib.closing(OffsetLookup(settings, _GROUPS)) as lookup:
            self._open = lookup
            snapshot = lookup.snapshot(view)
            self.silent = snapshot.silent
            view = view.without(snapshot.silent.keys())
            self._check()
            begins, ends = self._places(view, lookup, snapshot.bounds)
        self.all_entries = sum(ends[key] - begins[key] for key in ends) // INDEX_ENTRY_BYTES
        sizes = {(layout.broker_id, layout.topic): layout.partitions_per_store for layout in view.layouts}
        how: dict[str, Any] = {"fail_on_data_loss": False, "bad_messages": "keep", "store_sizes": sizes}
        with RangeReader(settings, _GROUPS, "ui", visit_token=view.visit_token, **how) as reader:
            self._open = reader
            try:
                (self._backward if self.wanted.newest_first else self._forward)(reader, view, begins, ends)
            finally:
                self.losses = [str(lost) for lost in reader.losses[:5]]
                at = {str(key): ends[key] if self.wanted.newest_first else begins[key] for key in ends}
                if 0 < len(at) <= _MOST_NAMED and any(begins[key] < ends[key] for key in ends):
                    self.rest = json.dumps(at)

    def _places(
        self, view: ClusterView, lookup: OffsetLookup, bounds: Mapping[StoreKey, StoreBounds]
    ) -> tuple[dict[PartitionKey, int], dict[PartitionKey, int]]:
        """Where to begin and end in each partition that is searched."""
        keys = view.partitions() if self.wanted.partition is None else [self.wanted.partition]
        found = []
        for text in (self.wanted.start, self.wanted.end):
            spec = parse_offset_spec(text, "the place", self._zone)
            if spec.default is not None:  # of these partitions alone: to look a time up takes a row of calls
                spec = OffsetSpec(spec.option, None, tuple((key, spec.default) for key in keys))
            found.append(moves_to(spec, {}, view, lookup, bounds, self._zone.key).positions)
            self._check()
        begins, ends = found
        limits = {key: ends.get(key, bounds[key.store].max_offset) for key in keys if key in begins}
        return dict(begins), {key: max(begins[key], end) for key, end in limits.items()}

    def _forward(
        self, reader: RangeReader, view: ClusterView, begins: dict[PartitionKey, int], ends: Mapping[PartitionKey, int]
    ) -> None:
        """Read windows too: a broker's answer to all at once may have thousands of messages."""
        for key, end in ends.items():
            entries = self.wanted.most
            while begins[key] < end:
                high = min(end, begins[key] + entries * INDEX_ENTRY_BYTES)
                for pack in self._packs(reader, view, key, begins[key], high):
                    self._add(self._fitting(pack))
                    begins[key] = pack.end
                    self._check_room()
                begins[key] = high
                entries = min(entries * 2, _MOST_ENTRIES)

    def _backward(
        self, reader: RangeReader, view: ClusterView, begins: Mapping[PartitionKey, int], ends: dict[PartitionKey, int]
    ) -> None:
        """Read windows from the ends on, larger ones while they bring little. A round is in the order of time, and each
        partition in that of offsets."""
        entries = max(1, -(-self.wanted.most // max(1, len(ends))))
        while left := [key for key in ends if ends[key] > begins[key]]:
            lows = {key: max(begins[key], ends[key] - entries * INDEX_ENTRY_BYTES) for key in left}
            merged: list[tuple[str, PartitionKey, int, Found]] = []
            starts: dict[PartitionKey, list[int]] = {}
            try:
                for key in left:
                    window: list[tuple[int, list[Found]]] = []
                    try:
                        for pack in self._packs(reader, view, key, lows[key], ends[key]):
                            window.insert(0, (pack.start, self._fitting(pack)))
                        starts[key] = [start for start, _ in window]
                    finally:
                        at = _LAST_TIME
                        for start, found in window:
                            for each in reversed(found):
                                at = min(at, each.rows[0].get("time", ""))
                                merged.append((at, key, start, each))
            finally:
                merged.sort(key=lambda each: each[0], reverse=True)
                room = self.wanted.most - len(self.found)
                taken = {(key, start) for _, key, start, _ in merged[:room]}  # packs, each with all that fits
                self._add([found for _, key, start, found in merged if (key, start) in taken])
                left_out = {(key, start) for _, key, start, _ in merged} - taken
                for key, of_packs in starts.items():  # where the newest were not read, it does not go on
                    for start in of_packs:
                        if (key, start) in left_out:
                            break
                        ends[key] = start
                    else:
                        ends[key] = lows[key]
                self._check_room()
            entries = min(entries * 2, _MOST_ENTRIES)

    def _packs(self, reader: RangeReader, view: ClusterView, key: PartitionKey, start: int, end: int) -> Iterator[Pack]:
        wanted = [WantedRange(view.broker_of(key), OffsetRange(key, start, end), self.wanted.tags)]
        at = start
        with contextlib.closing(reader.read_all(wanted)) as found:
            for _, pack in found if end > start else ():
                self._check()
                if pack is not None:
                    self.messages += len(pack)
                    self.bytes += pack.payload_bytes
                    self.entries += (pack.end - at) // INDEX_ENTRY_BYTES
                    at = pack.end
                    yield pack

    def _fitting(self, pack: Pack) -> list[Found]:
        """The messages of a pack that are wanted, as they may be shown."""
        records = Counter[int]()
        found: dict[int, Found] = {}
        for number, message, record in messages_of(pack, self._decoder):
            if self.wanted.message_id not in (None, message.message_id):
                continue
            row = self._masks.hide(message_json(pack, number, message, record))
            if self.wanted.tags and "bad" not in row and row.get("tag") not in self.wanted.tags:
                continue  # brokers compare only a hash of tags
            records[number] += 1
            if self.wanted.filter.matches(row):
                found.setdefault(number, Found([], 0, len(message.body))).rows.append(row)
        return [of._replace(records=records[number]) for number, of in found.items()]

    def _add(self, found: Sequence[Found]) -> None:
        self._found_bytes += sum(len(str(row)) for each in found for row in each.rows)
        self.found.extend(found)

    def _check(self) -> None:
        if time.monotonic() - self.asked_at > _LEFT_SECONDS:
            raise _Bound("left")
        if self._why:
            raise _Bound(self._why)
        if self.bytes >= self.wanted.most_bytes:
            raise _Bound("bytes")

    def _check_room(self) -> None:
        if len(self.found) >= self.wanted.most or self._found_bytes >= _MOST_FOUND_BYTES:
            raise _Bound("full")


class Searches:
    """The searches of the pages: some that run, and what the last ones found."""

    def __init__(self, access: ClusterAccess, masks: Masks, zone: ZoneInfo) -> None:
        self._access, self._masks, self._zone = access, masks, zone
        self._lock = threading.Lock()
        self._searches: OrderedDict[str, MessageSearch] = OrderedDict()

    def start(self, wanted: SearchFor, query: Mapping[str, str]) -> MessageSearch:
        """`query` is what asked for it, for links. ConfigurationError if too many run, or if a tag is masked."""
        if any(self._masks.text(tag) != tag for tag in checked_tags(wanted.topic, wanted.tags)):
            raise ConfigurationError("this tag is masked")
        search = MessageSearch(self._access, wanted, self._masks, self._zone)
        search.query = query
        with self._lock:
            running = [each for each in self._searches.values() if not each.is_stopped]
            for left in running if len(running) >= _AT_ONCE else ():
                if time.monotonic() - left.asked_at > _PLACE_SECONDS:
                    left.stop("left")
            if sum(not each.is_stopped for each in running) >= _AT_ONCE:
                raise ConfigurationError(f"{_AT_ONCE} searches run already; stop one of them, or wait")
            self._searches[search.key] = search
            if len(self._searches) > _MOST_SEARCHES:
                del self._searches[next(key for key, each in self._searches.items() if each.is_stopped)]
        search.start()
        return search

    def read(self, wanted: SearchFor, query: Mapping[str, str]) -> MessageSearch:
        """The same, but it waits for the end, and takes what this query found a moment ago. ConfigurationError."""
        now = time.monotonic()
        same = [each for each in list(self._searches.values()) if each.query == query and not each.error]
        search = same[-1] if same and now - same[-1].asked_at < _LEFT_SECONDS else self.start(wanted, query)
        search.asked_at = now
        while not search.ended:
            search.wait(len(search.found))
        if search.error:
            raise ConfigurationError(search.error)
        return search

    def close(self) -> None:
        """End all."""
        for search in list(self._searches.values()):
            search.stop()

    def of(self, key: str) -> MessageSearch:
        """ConfigurationError if it is not there any more."""
        search = self._searches.get(key)
        if search is None:
            raise ConfigurationError("what this search found is forgotten; search again")
        search.asked_at = time.monotonic()
        return search
