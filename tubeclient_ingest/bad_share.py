"""How many bad records of one round a job accepts. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tubeclient.errors import ConfigurationError

__all__ = ["BadShare", "TooManyBadRecords"]

_TEXT: Final = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*(%?)")
_PERCENT: Final = 100


class TooManyBadRecords(ConfigurationError):
    """A round has more bad records than the user accepts; nothing of it was written."""

    condition = "TOO_MANY_BAD_RECORDS"


@dataclass(frozen=True, slots=True)
class BadShare:
    """The most bad records of a round."""

    text: str
    """As the user wrote it: "100", or "5%" of the round's records."""
    limit: Fraction
    of_round: bool
    """Whether `limit` is a share of the round; otherwise it is a number of records."""

    @classmethod
    def parse(cls, text: str) -> BadShare:
        """Parse a count as "100" or a share as "5%". Raises ConfigurationError."""
        found = _TEXT.fullmatch(text.strip())
        number, percent = (Fraction(found[1]), found[2]) if found else (Fraction(-1), "")
        is_right = 0 <= number <= _PERCENT if percent else number >= 0 and number.denominator == 1
        if not is_right:
            raise ConfigurationError(
                f"max-bad-records is {text!r}; write how many records of a round may be bad, as 100, or which share of "
                "it, as 5%"
            )
        return cls(text.strip(), number / _PERCENT if percent else number, bool(percent))

    def allows(self, bad: int, total: int) -> bool:
        """Whether a round of `total` records may have `bad` bad ones."""
        return bad <= (self.limit * total if self.of_round else self.limit)
