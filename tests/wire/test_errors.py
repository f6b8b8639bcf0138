"""Errors: one class per code that callers tell apart, messages that say what to do, and pickles that survive."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from tubeclient import errors
from tubeclient.errors import RemoteError, StatusError, TransportError, TubeError, status_error


def all_classes(root: type[TubeError] = TubeError) -> list[type[TubeError]]:
    """The class and all below it that the module defines."""
    below = [kind for sub in root.__subclasses__() for kind in all_classes(sub) if kind.__module__ == errors.__name__]
    return [root] * (not root.__name__.startswith("_")) + below


ARGUMENTS: dict[type[TubeError], tuple[tuple[Any, ...], dict[str, Any]]] = {
    errors.PartitionUnavailable: (("closed",), {"code": 423, "context": "sending", "partition": "1:clicks:0"}),
    RemoteError: (("org.example.SomeException", "it broke"), {"address": "10.0.0.1:8123"}),
    StatusError: ((411, "no node"), {"context": "reading", "address": "10.0.0.1:8123", "partition": "1:clicks:0"}),
    TransportError: (("gone",), {"address": "10.0.0.1:8123"}),
    errors.NoMessageTime: (("without a time",), {"partition": "1:clicks:0"}),
    errors.ContradictoryAnswers: (("others",), {"partition": "1:clicks:0"}),
    errors.StalePack: ((), {"partition": "1:clicks:0"}),
    errors.DataLoss: (("lost",), {"partition": "1:clicks:0", "wanted": 28, "found": 56}),
    errors.BrokerFailed: (("refused",), {"broker": "1:10.0.0.1:8123"}),
    TubeError: (("a message",), {}),
}


def sample(kind: type[TubeError]) -> TubeError:
    """An error of that class with every argument given."""
    arguments, named = next(given for known, given in ARGUMENTS.items() if issubclass(kind, known))
    return kind(*arguments, **named)


@pytest.mark.parametrize(
    ("code", "kind", "retriable"),
    [
        (404, errors.NothingToRead, True),
        (410, errors.PartitionOccupied, True),
        (412, errors.PartitionTaken, False),
        (500, errors.ServerBusy, True),
        (407, StatusError, False),  # only Apache's clients say it, to themselves
    ],
)
def test_a_code_has_its_class(code: int, kind: type[StatusError], retriable: bool) -> None:
    error = status_error(code, "words", context="reading 1:clicks:0", address="10.0.0.1:8123", partition="1:clicks:0")
    assert (type(error), error.retriable, error.code, error.topic) == (kind, retriable, code, "clicks")
    assert str(error).startswith(f"reading 1:clicks:0: the server answered {code} (words)")
    assert str(error).endswith(kind.advice)
    wrong = status_error(500, "Wrong partition value of 7")
    assert (type(wrong), wrong.retriable) == (errors.NoSuchPartition, False)


def test_error_found_by_the_client() -> None:
    """An error that the client finds by itself does not say that the server answered."""
    error = errors.PartitionUnavailable("nothing to write to", code=423, context="sending", topic="clicks")
    assert isinstance(error, errors.NotAvailable)
    assert str(error).startswith("sending: nothing to write to. ")
    assert "the server answered" not in str(error)
    assert (error.code, error.partition, error.topic, error.retriable) == (423, "", "clicks", False)


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
