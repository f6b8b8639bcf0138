"""How the pages ask the cluster, and what they remember of its answers while they are open. Calls block, and each has
the deadlines of the settings."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final, Generic, NamedTuple, TypeVar

from tubeclient.admin import Admin
from tubeclient.admin.broker_webs import own_web
from tubeclient.conditions import error_text
from tubeclient.errors import ConfigurationError, StandbyMaster, TransportError, TubeError
from tubeclient.keys import INDEX_ENTRY_BYTES, StoreBounds, StoreKey
from tubeclient.printable import without_passwords
from tubeclient.settings import ClientSettings

__all__ = ["ClusterAccess", "DryRuns", "LagHistory", "MasterState", "Rates", "shown_error"]

T = TypeVar("T")

_MASTERS_SECONDS: Final = 3.0
"""How long the states of the masters count. All parts of a page ask for them."""
_RATE_SECONDS: Final = 60.0
_LEAST_SECONDS: Final = 1.0
_MOST_SAMPLES: Final = 720
"""An hour, one each 5 s."""
_MOST_GROUPS: Final = 100
_MOST_PLANS: Final = 16


def shown_error(error: BaseException) -> str:
    """The text of an error, for a page."""
    return without_passwords(error_text(error))


class MasterState(NamedTuple):
    """A master at its web port."""

    address: str
    state: str
    """active, standby or down."""
    error: str = ""


class ClusterAccess:
    """The cluster of `settings`. A master that is down is asked last, so that it holds up no page. Thread-safe."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._masters: tuple[float, list[MasterState]] = (-_MASTERS_SECONDS, [])
        self._is_own = False
        self.command = f"--master-servers {','.join(settings.master_servers)}"
        if settings.master_web_port != ClientSettings("x").master_web_port:
            self.command += f" --option masterWebPort={settings.master_web_port}"
        self.doctor = f"tubeclient doctor {self.command}"
        self.name = settings.master_servers[0]

    def masters(self) -> list[MasterState]:
        """All masters, asked at the same time."""
        with self._lock:
            if time.monotonic() - self._masters[0] >= _MASTERS_SECONDS:
                with ThreadPoolExecutor(8, "tubeclient-ui-masters") as workers:
                    found = list(workers.map(self._state, self._settings.master_servers))
                self._masters = time.monotonic(), found
            return self._masters[1]

    def _state(self, address: str) -> MasterState:
        try:
            Admin(replace(self._settings, master_servers=(address,))).brokers()
        except StandbyMaster:
            return MasterState(address, "standby")
        except TubeError as error:
            return MasterState(address, "down", shown_error(error))
        return MasterState(address, "active")

    def settings(self) -> ClientSettings:
        """The settings, with the masters in the order in which to ask them. TransportError if none is active."""
        ranks = {"active": 0, "standby": 1, "down": 2}
        masters = sorted(self.masters(), key=lambda master: ranks[master.state])
        if masters[0].state != "active":
            errors = "; ".join(master.error or f"{master.address} is a standby" for master in masters)
            raise TransportError(f"no active master answers: {errors}", condition="MASTER_UNREACHABLE")
        return replace(self._settings, master_servers=[master.address for master in masters])

    def admin(self) -> Admin:
        """What looks at the cluster. TubeError if no master answers, or if the web port is another cluster's."""
        settings = self.settings()
        if not self._is_own:
            own_web(settings)
            self._is_own = True
        return Admin(settings)


class Rates:
    """How fast stores grow, by what the last minute's answers said of their ends. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: dict[StoreKey, deque[tuple[float, int]]] = {}

    def after(self, now: float, bounds: Mapping[StoreKey, StoreBounds]) -> dict[StoreKey, float]:
        """Messages per second of these stores, as of `now`, in seconds of any clock. Without stores that are new, or
        shrank."""
        found = {}
        with self._lock:
            for store, (_, end) in bounds.items():
                ends = self._ends.setdefault(store, deque())
                while ends and (ends[0][0] < now - _RATE_SECONDS or ends[0][1] > end):
                    ends.popleft()
                if not ends or now - ends[-1][0] >= _LEAST_SECONDS:
                    ends.append((now, end))
                began, first = ends[0]
                if now - began >= _LEAST_SECONDS:
                    found[store] = (end - first) / INDEX_ENTRY_BYTES / (now - began)
        return found


def rate_of(stores: Iterable[StoreKey], rates: Mapping[StoreKey, float]) -> float | None:
    """Of stores together; None if none is known."""
    known = [rates[store] for store in stores if store in rates]
    return sum(known) if known else None


class LagHistory:
    """How far groups were behind while somebody watched: the last hour, of the groups that were watched last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: OrderedDict[str, deque[tuple[float, int]]] = OrderedDict()

    def after(self, group: str, now: float, behind: int | None) -> Collection[tuple[float, int]]:
        """Seconds since 1970 and messages, with the newest, unless that is unknown or comes too soon."""
        with self._lock:
            samples = self._groups.setdefault(group, deque(maxlen=_MOST_SAMPLES))
            self._groups.move_to_end(group)
            if len(self._groups) > _MOST_GROUPS:
                self._groups.popitem(last=False)
            if behind is not None and not (samples and now - samples[-1][0] < _LEAST_SECONDS):
                samples.append((now, behind))
            return list(samples)


class DryRuns(Generic[T]):
    """What dry runs showed: a change does that, once. The newest that are not done, each by a key that cannot be
    guessed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: OrderedDict[str, T] = OrderedDict()

    def add(self, plan: T) -> str:
        """Keep what a dry run shows. Returns its key."""
        key = secrets.token_urlsafe(8)
        with self._lock:
            self._plans[key] = plan
            if len(self._plans) > _MOST_PLANS:
                self._plans.popitem(last=False)
        return key

    def get(self, key: str) -> T | None:
        """What a dry run showed; None if it is done or forgotten."""
        return self._plans.get(key)

    def take(self, key: str) -> T:
        """The same, for whoever does it now. ConfigurationError: it is done or forgotten."""
        with self._lock:
            plan = self._plans.pop(key, None)
        if plan is None:
            raise ConfigurationError("this dry run is done or forgotten; make another one")
        return plan
