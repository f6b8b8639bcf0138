"""Which faults a seed draws, without any of them."""

from __future__ import annotations

import itertools
import math
import random

from tests.exactly_once.faults import FAULTS, LONG_FAULTS
from tests.exactly_once.run import drawn

SOME = 40


def test_what_came_first_is_not_drawn_again_before_all_others_were() -> None:
    faults = list(itertools.islice(drawn(random.Random(1), LONG_FAULTS, FAULTS, math.inf, math.inf), SOME))
    others = len(FAULTS) - len(LONG_FAULTS)
    assert set(faults[:others]) == set(FAULTS) - set(LONG_FAULTS)
    assert set(faults[others : others + len(FAULTS)]) == set(FAULTS)


def test_a_run_whose_time_is_over_draws_one_fault_and_none_that_came_first() -> None:
    past = -math.inf
    [fault] = drawn(random.Random(1), LONG_FAULTS, FAULTS, math.inf, past)
    assert fault not in LONG_FAULTS
    assert list(drawn(random.Random(1), LONG_FAULTS, LONG_FAULTS, math.inf, past)) == []


def test_no_more_rounds_than_wanted() -> None:
    assert len(list(drawn(random.Random(1), (), FAULTS, 2, math.inf))) == 2 * len(FAULTS)
