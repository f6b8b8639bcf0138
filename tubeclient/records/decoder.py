"""Many records at once: Arrow columns of the good ones, and reasons of the bad ones.

The compiled core reads what is usual and good, and declines anything else. The plain code reads what was declined, and
everything where there is no core; so each reason comes from here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa

from tubeclient.core import CORE
from tubeclient.errors import ConfigurationError
from tubeclient.records.fault import BadRecord
from tubeclient.records.fields import csv_reader, has_quotes, kv_reader
from tubeclient.records.json_text import parse_object, fields_of, syntax_of
from tubeclient.records.spec import CHANGES, KINDS, Column, RecordSpec, columns_of
from tubeclient.records.times import Token, offset_of, plain_tokens
from tubeclient.records.values import Values, shape_of


class Decoded(NamedTuple):
    """What records are; both are as long as the records."""

    records: pa.Array
    """A struct of the schema's columns; of changes a list of them with `change`. Null where the record is bad."""
    reasons: pa.StringArray
    """What is wrong; null where the record is good."""
