"""Errors: one class per code that callers tell apart, messages that say what to do, and pickles that survive."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import pytest

from tubeclient import errors
from tubeclient.errors import (
    ConfigurationError,
    CorruptMessage,
    DataLoss,
    DeadlineExceeded,
    ProtocolError,
    RemoteError,
    StandbyMaster,
    StatusError,
    TransportError,
    TubeError,
    status_error,
)


def all_classes(root: type[TubeError] = TubeError) -> list[type[TubeError]]:
    """The class and all below it that the module defines."""
    below = [kind for sub in root.__subclasses__() for kind in all_classes(sub) if kind.__module__ == errors.__name__]
    return [root, *below]


def sample(kind: type[TubeError]) -> TubeError:
    """An error of that class with every argument given."""
    if issubclass(kind, RemoteError):
        return kind("org.example.SomeException", "it broke", address="10.0.0.1:8123")
    if issubclass(kind, errors.PartitionUnavailable):
        return kind("closed", code=423, context="sending", partition="1:clicks:0")
    if issubclass(kind, errors.NoMessageTime | errors.ContradictoryAnswers):
        return kind("without a time", partition="1:clicks:0")
    if issubclass(kind, errors.StalePack):
        return kind(partition="1:clicks:0")
    if issubclass(kind, StatusError):
        return kind(411, "no node", context="reading 1:clicks:0", address="10.0.0.1:8123", partition="1:clicks:0")
    if issubclass(kind, TransportError):
        return kind("gone", address="10.0.0.1:8123")
    if issubclass(kind, DataLoss):
        return kind("lost", partition="1:clicks:0", wanted=28, found=56)
    if issubclass(kind, errors.BrokerFailed):
        return kind("refused", broker="1:10.0.0.1:8123", done=("1:clicks:0",))
    return kind("a message")


# Every code of TErrCodeConstants but 200. What only Apache's clients say to themselves has no class.
CODES: dict[int, tuple[type[StatusError], bool]] = {
    201: (errors.ServerBusy, True),
    301: (errors.ServerBusy, True),
    400: (errors.BadRequest, False),
    401: (errors.RegistrationLost, True),
    402: (StatusError, False),
    403: (errors.NotAvailable, False),
    404: (errors.NothingToRead, True),
    405: (StatusError, False),
    406: (StatusError, False),
    407: (StatusError, False),
    408: (StatusError, False),
    410: (errors.PartitionOccupied, True),
    411: (errors.RegistrationLost, True),
    412: (errors.PartitionTaken, False),
    415: (errors.AuthenticationFailed, False),
    419: (errors.ServerBusy, True),
    420: (StatusError, False),
    421: (StatusError, False),
    422: (StatusError, False),
    423: (StatusError, False),
    424: (errors.GroupConflict, False),
    425: (errors.GroupConflict, False),
    426: (errors.GroupConflict, False),
    427: (errors.GroupConflict, False),
    428: (errors.GroupConflict, False),
    429: (errors.SourceCountConflict, False),
    430: (errors.NodeIdConflict, False),
    431: (errors.TopicNotDeployed, False),
    440: (StatusError, False),
    441: (StatusError, False),
    442: (StatusError, False),
    443: (StatusError, False),
    444: (StatusError, False),
    445: (StatusError, False),
    450: (errors.GroupForbidden, False),
    452: (errors.SpeedLimited, True),
    455: (errors.GroupForbidden, False),
    500: (errors.ServerBusy, True),
    503: (errors.ServerBusy, True),
    510: (errors.ServerBusy, True),
    599: (errors.ServerBusy, True),
    -1: (StatusError, False),
}


@pytest.mark.parametrize("code", CODES)
def test_each_code_has_its_class(code: int) -> None:
    kind, retriable = CODES[code]
    error = status_error(
        code, "what the server says", context="reading 1:clicks:0", address="10.0.0.1:8123", partition="1:clicks:0"
    )
    assert type(error) is kind
    assert error.retriable is retriable
    assert (error.code, error.server_text, error.context) == (code, "what the server says", "reading 1:clicks:0")
    assert (error.address, error.partition, error.topic) == ("10.0.0.1:8123", "1:clicks:0", "clicks")
    assert str(error).startswith(f"reading 1:clicks:0: the server answered {code} (what the server says)")
    assert str(error).endswith(kind.advice)


def test_the_table_of_codes_is_whole() -> None:
    has_class = {code for code, (kind, _) in CODES.items() if kind is not StatusError}
    assert set(errors.STATUS_CLASSES) == has_class
    local = {StatusError, errors.PartitionUnavailable, errors.NoSuchPartition}  # told by more than a code
    assert set(errors.STATUS_CLASSES.values()) == set(all_classes(StatusError)) - local


def test_what_the_client_finds_by_itself_is_not_put_into_the_servers_mouth() -> None:
    error = errors.PartitionUnavailable("nothing to write to", code=423, context="sending", topic="clicks")
    assert isinstance(error, errors.NotAvailable)
    assert str(error).startswith("sending: nothing to write to. ")
    assert "the server answered" not in str(error)
    assert (error.code, error.partition, error.topic, error.retriable) == (423, "", "clicks", False)


def test_errors_are_also_what_python_calls_them() -> None:
    assert issubclass(ConfigurationError, ValueError)
    assert issubclass(DeadlineExceeded, TimeoutError)
    assert issubclass(CorruptMessage, ProtocolError)
    assert issubclass(StandbyMaster, RemoteError)


def test_every_public_error_is_in_the_tree_and_the_other_way_round() -> None:
    public = {name for name in errors.__all__ if inspect.isclass(getattr(errors, name))}
    assert public == {kind.__name__ for kind in all_classes()}


@pytest.mark.parametrize("kind", all_classes(), ids=lambda kind: kind.__name__)
def test_errors_survive_pickling_and_copying(kind: type[TubeError]) -> None:
    error = sample(kind)
    error.add_note("seen in task 7")
    pickles = [pickle.loads(pickle.dumps(error, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    for found in [*pickles, copy.copy(error), copy.deepcopy(error)]:
        assert type(found) is kind
        assert str(found) == str(error)
        assert found.args == error.args
        assert vars(found) == vars(error)
        assert found.retriable is error.retriable


def raise_sample(name: str) -> None:
    raise sample(getattr(errors, name)) from RuntimeError("the cause")


def test_errors_cross_processes() -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        for kind in all_classes():
            with pytest.raises(kind) as caught:
                pool.submit(raise_sample, kind.__name__).result(timeout=60)
            assert type(caught.value) is kind
            assert str(caught.value) == str(sample(kind))
