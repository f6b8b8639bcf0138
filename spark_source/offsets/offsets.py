"""Where a query stands: an immutable map from partitions to offsets, with one canonical text.

Spark compares offsets as text. Two texts for one map would count as new data and cause endless empty batches. Spark
also writes the text to the checkpoint for every batch, so it is kept short: partitions of a store with equal offsets,
the normal case, are written as one run of partition ids.

    {"1:flights:0": {"0-3": 2800}, "1:flights:1": {"10000": 560, "10001-10003": 588}, "version": 1}

The outer keys are stores (brokerId:topic:storeId), the inner ones partition ids; both are sorted as text. `version` is
that of this form: a checkpoint outlives the release that wrote it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tubeclient._version import __version__
from tubeclient.errors import ConfigurationError
from tubeclient.keys import MAX_STORE_PARTITIONS, PartitionKey, StoreKey, checked_offset

VERSION: Final = 1
"""Of the canonical text."""


class PartitionRun(NamedTuple):
    """Neighbouring partitions of a store with the same offset."""

    first: int
    """Partition id."""
    last: int
    """Partition id, inclusive."""
    offset: int

    @property
    def ids(self) -> range:
        """All partition ids of the run."""
        return range(self.first, self.last + 1)


class PartitionSet(Collection[PartitionKey]):
    """An immutable set of partitions that iterates in order."""

    __slots__ = ("_keys", "by_store", "spans")

    def __init__(self, keys: Iterable[PartitionKey]) -> None:
        self._keys = tuple(sorted(set(keys)))
        ids: dict[StoreKey, list[int]] = {}
        for key in self._keys:
            ids.setdefault(key.store, []).append(key.partition_id)
        self.by_store: Mapping[StoreKey, frozenset[int]] = {store: frozenset(some) for store, some in ids.items()}
        """Partition ids by store."""
        self.spans: Mapping[StoreKey, Sequence[tuple[int, int]]] = {store: _spans(some) for store, some in ids.items()}
        """First and last id of neighbouring partitions, by store; sorted, as few as possible."""

    @classmethod
    def of(cls, keys: Iterable[PartitionKey]) -> PartitionSet:
        """Return `keys` as a set; a PartitionSet is returned unchanged."""
        return keys if isinstance(keys, PartitionSet) else cls(keys)

    def ids_of(self, store: StoreKey) -> frozenset[int]:
        """The ids of the partitions of a store."""
        return self.by_store.get(store, frozenset())

    def __contains__(self, key: object) -> bool:
        return isinstance(key, PartitionKey) and key.partition_id in self.ids_of(key.store)

    def __iter__(self) -> Iterator[PartitionKey]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _spans(ids: Sequence[int]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for number in ids:
        if spans and spans[-1][1] == number - 1:
            spans[-1] = spans[-1][0], number
        else:
            spans.append((number, number))
    return spans


class Offsets(Mapping[PartitionKey, int]):
    """The next offset to read of each partition, in bytes of its store's index. Immutable; equal maps have equal texts.

    Stored by store and run, like the text: a query of 10 000 partitions has some hundred stores.
    """

    __slots__ = ("_dict", "_positions", "_runs", "_spans")

    def __init__(self, positions: Mapping[PartitionKey, int]) -> None:
        checked = {key: checked_offset(positions[key], str(key)) for key in sorted(positions)}
        runs: dict[StoreKey, list[PartitionRun]] = {}
        for key, at in checked.items():
            _append(runs.setdefault(key.store, []), key.partition_id, key.partition_id, at)
        self._runs: Final[Mapping[StoreKey, Sequence[PartitionRun]]] = runs
        self._positions: dict[PartitionKey, int] | None = checked
        self._dict: dict[str, Any] | None = None
        self._spans: Mapping[StoreKey, Sequence[tuple[int, int]]] | None = None

    @classmethod
    def of(cls, positions: Mapping[PartitionKey, int]) -> Offsets:
        """Return `positions` as Offsets. ConfigurationError if an offset is not a multiple of 28, or negative."""
        return positions if isinstance(positions, Offsets) else cls(positions)

    @classmethod
    def of_runs(cls, runs: Mapping[StoreKey, Iterable[PartitionRun]]) -> Offsets:
        """Return the offsets of stores, in any order. A store's runs must be sorted, disjoint and valid; neighbouring
        runs may be mergeable."""
        joined: dict[StoreKey, Sequence[PartitionRun]] = {}
        for store in sorted(runs):
            of_store = list(runs[store])
            if len(of_store) > 1:
                apart, of_store = of_store, []
                for run in apart:
                    _append(of_store, *run)
            if of_store:
                joined[store] = of_store
        made = cls.__new__(cls)
        made._runs, made._positions, made._dict, made._spans = joined, None, None, None  # type: ignore[misc]
        return made

    @classmethod
    def from_dict(cls, given: object) -> Offsets:
        """Parse the result of `to_dict`. The ConfigurationError for anything else names the store, the partition or
        the version."""
        if not isinstance(given, Mapping):
            raise ConfigurationError(f"offsets must be a JSON object of stores, not {given!r}")
        check_version(given.get("version"), VERSION, "the offsets")
        return cls.of_stores({store: runs for store, runs in given.items() if store != "version"})

    @classmethod
    def of_stores(cls, stores: Mapping[str, Any]) -> Offsets:
        """Parse what `to_dict` has for stores; ConfigurationError as `from_dict`."""
        parsed: dict[StoreKey, list[PartitionRun]] = {}
        for store_text, runs in stores.items():
            store = _parse_store(store_text)
            if not isinstance(runs, Mapping):
                raise ConfigurationError(
                    f"the offsets of store {store} must be a JSON object of partition ids, not {runs!r}"
                )
            for run_text, offset in runs.items():
                first, last = _parse_run(store, run_text)
                at = checked_offset(offset, f"{store}, partitions {run_text}")
                parsed.setdefault(store, []).append(PartitionRun(first, last, at))
        for store, of_store in parsed.items():
            of_store.sort()
            for run, other in itertools.pairwise(of_store):
                if other.first <= run.last:
                    twice = PartitionKey(store.broker_id, store.topic, other.first)
                    raise ConfigurationError(f"the offsets name partition {twice} twice")
        return cls.of_runs(parsed)

    @classmethod
    def parse(cls, text: str) -> Offsets:
        """Parse the result of `to_json`; ConfigurationError for anything else."""
        try:
            stores = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f"offsets are not JSON: {error}") from error
        return cls.from_dict(stores)

    @property
    def runs(self) -> Mapping[StoreKey, Sequence[PartitionRun]]:
        """The runs of each store, as long as possible; stores and runs are sorted."""
        return self._runs

    @property
    def spans(self) -> Mapping[StoreKey, Sequence[tuple[int, int]]]:
        """First and last id of the runs, by store, as in PartitionSet; but neighbours with different offsets are
        separate."""
        if self._spans is None:
            self._spans = {store: [(run.first, run.last) for run in runs] for store, runs in self._runs.items()}
        return self._spans

    def __getitem__(self, key: PartitionKey) -> int:
        return self._by_key[key]

    def __iter__(self) -> Iterator[PartitionKey]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return sum(len(run.ids) for runs in self._runs.values() for run in runs)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Offsets):
            return self._runs == other._runs
        return super().__eq__(other)

    def __hash__(self) -> int:
        return hash(tuple((store, *runs) for store, runs in self._runs.items()))

    def __repr__(self) -> str:
        return f"Offsets({self.to_json()})"

    def as_dict(self) -> dict[PartitionKey, int]:
        """Return a dict of the same content, in the order of the keys."""
        return dict(self._by_key)

    def to_dict(self) -> dict[str, Any]:
        """Return the canonical form for json.dumps: offsets by run, and the version. It is shared: do not change it."""
        if self._dict is None:
            texts = {
                str(store): {_run_text(run.first, run.last): run.offset for run in runs}
                for store, runs in self._runs.items()
            }
            stores = {store: dict(sorted(texts[store].items())) for store in sorted(texts)}
            self._dict = {**stores, "version": VERSION}  # last as text too: stores begin with a digit
        return self._dict

    def to_json(self) -> str:
        """Return the canonical text, equal to what Spark's planner process writes for `to_dict`."""
        return json.dumps(self.to_dict())

    def merge(self, newer: Mapping[PartitionKey, int]) -> Offsets:
        """Return these offsets overridden by those of `newer`."""
        return Offsets({**self._by_key, **newer})

    def without(self, partitions: Collection[PartitionKey]) -> Offsets:
        """Return these offsets without `partitions`."""
        return Offsets({key: at for key, at in self.items() if key not in partitions})

    def without_topics(self, topics: Collection[str]) -> Offsets:
        """Return these offsets without those in `topics`."""
        return Offsets({key: at for key, at in self.items() if key.topic not in topics})

    def clamp(self, low: Mapping[PartitionKey, int], high: Mapping[PartitionKey, int]) -> Offsets:
        """Return these offsets raised to `low` and then lowered to `high`, for the partitions in those."""
        if not low and not high:
            return self  # each batch asks, and hardly ever has anything to raise
        return Offsets(
            {key: min(max(at, low.get(key, at)), high.get(key, max(at, low.get(key, at)))) for key, at in self.items()}
        )

    def overtaken_by(self, others: Mapping[PartitionKey, int]) -> list[PartitionKey]:
        """Return the partitions, sorted, that are further in `others`; unknown partitions do not count."""
        if isinstance(others, Offsets) and others._runs == self._runs:
            return []
        return sorted(key for key, at in others.items() if at > self.get(key, at))

    @property
    def _by_key(self) -> dict[PartitionKey, int]:
        if self._positions is None:
            self._positions = {
                PartitionKey(store.broker_id, store.topic, number): run.offset
                for store, runs in self._runs.items()
                for run in runs
                for number in run.ids
            }
        return self._positions


def check_version(found: object, known: int, what: str) -> None:
    """Raise ConfigurationError unless the version `found` in `what` is the one that this release knows."""
    if type(found) is int and found > known:
        raise ConfigurationError(
            f"{what} have version {found}, written by a newer release of pyspark-tubeclient; this one "
            f"({__version__}) reads version {known}: upgrade"
        )
    if type(found) is not int or found != known:
        wording = "no version" if found is None else f"version {found!r}"
        raise ConfigurationError(
            f"{what} have {wording}; this release of pyspark-tubeclient ({__version__}) reads version {known}"
        )


def _append(runs: list[PartitionRun], first: int, last: int, offset: int) -> None:
    """Append partitions; extends the last run if they continue it."""
    if runs and runs[-1].offset == offset and runs[-1].last + 1 == first:
        runs[-1] = PartitionRun(runs[-1].first, last, offset)
    else:
        runs.append(PartitionRun(first, last, offset))


def _run_text(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _is_id(text: str) -> bool:
    return text.isdecimal() and len(text) <= 10


def _parse_store(text: object) -> StoreKey:
    parts = text.split(":") if isinstance(text, str) else []
    if len(parts) != 3 or not (_is_id(parts[0]) and parts[1] and _is_id(parts[2])):
        raise ConfigurationError(
            f"{text!r} is not a store; offsets are keyed by brokerId:topic:storeId, as in 1:clicks:0"
        )
    return StoreKey(int(parts[0]), parts[1], int(parts[2]))


def _parse_run(store: StoreKey, text: object) -> tuple[int, int]:
    """Return the first and last partition id of a run, "3" or "0-3"."""
    first, dash, last = text.partition("-") if isinstance(text, str) else ("", "", "")
    if not _is_id(first) or (dash and not _is_id(last)):
        raise ConfigurationError(
            f'{text!r} in store {store} is not a run of partition ids; write "3", or "0-3" for 0 to 3'
        )
    low, high = int(first), int(last) if dash else int(first)
    lowest = store.store_id * MAX_STORE_PARTITIONS
    if not lowest <= low <= high < lowest + MAX_STORE_PARTITIONS:
        raise ConfigurationError(
            f"{text!r} is not a run of partition ids of store {store}, whose ids are {lowest} to "
            f"{lowest + MAX_STORE_PARTITIONS - 1}"
        )
    return low, high
