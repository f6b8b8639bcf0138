"""Times and lengths of time at the ends of what can be computed with."""

from __future__ import annotations

import pytest

from spark_source.options.moment import duration_ms, moment_ms
from tubeclient.errors import ConfigurationError


def test_the_first_time_there_is_lies_before_1970() -> None:
    with pytest.raises(ConfigurationError, match=r"--from is .* before 1970"):
        moment_ms("0001-01-01T00:00:00+23:59", "--from")


@pytest.mark.parametrize("text", ["999999999999d", "99999999999999999d", "36501d"])
def test_a_length_of_time_has_a_maximum(text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"--max-silence is '{text}'; the maximum is 36500d"):
        duration_ms("--max-silence", text)
