"""Changes of the dead-letter table beside other writers' changes."""

from __future__ import annotations

import pytest

from tubeclient_cli.ingest.dead_letters import _until_alone


class Change:
    """Another writer comes first `times` times."""

    def __init__(self, times: int, text: str = "[DELTA_CONCURRENT_APPEND] files were added") -> None:
        self.left = times
        self.text = text
        self.done = 0

    def __call__(self) -> None:
        if self.left:
            self.left -= 1
            raise RuntimeError(self.text)
        self.done += 1


def test_a_change_that_others_overtake_is_done_again() -> None:
    for times in (0, 1, 9):
        change = Change(times)
        _until_alone(change)
        assert change.done == 1


def test_it_is_given_up_in_the_end_and_other_errors_are_told_at_once() -> None:
    for change, left in ((Change(99), 89), (Change(99, "the lake is dry"), 98)):
        with pytest.raises(RuntimeError, match=change.text.strip("[").partition("]")[0]):
            _until_alone(change)
        assert (change.left, change.done) == (left, 0)
