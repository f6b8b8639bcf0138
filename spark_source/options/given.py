"""Every option of reads and writes, and from the user's texts to their values. Only later does Spark say whether a read
or a write follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from spark_source.options import parsers as to
from spark_source.options.access import AccessOptions, asks_for_tls
from spark_source.options.option import Masked, Option, options_of
from spark_source.options.source_options import SinkOptions, SourceOptions
from tubeclient.arguments import nearest
from tubeclient.errors import ConfigurationError

_Kind = TypeVar("_Kind", SourceOptions, SinkOptions, AccessOptions)

_SPARKS_OWN: Final = ("checkpointLocation", "queryName")
"""Options that Spark passes to a sink along with the user's."""


_READING: Final = tuple(options_of(SourceOptions).values())
_WRITING: Final = tuple(options_of(SinkOptions).values())

_ALL: Final = (*_READING, *(option for option in _WRITING if option not in _READING))

OPTIONS: Final[tuple[Option, ...]] = tuple(option for option in _ALL if not option.internal)
"""Those that users may set, in the order of the documentation."""


def find_option(key: str) -> Option | None:
    """The option of a name in any case, internal ones too; None if unknown."""
    return next((option for option in _ALL if option.matches(key)), None)


def markdown() -> str:
    """The options as a Markdown table."""
    lines = ["| option | default | applies to | meaning |", "|---|---|---|---|"]
    lines += [f"| `{option.name}` | {option.default} | {_uses(option)} | {option.doc} |" for option in OPTIONS]
    return "\n".join([*lines, ""])


def _uses(option: Option) -> str:
    reads = {None: "reads", "stream": "streaming reads", "batch": "batch reads"}[option.only]
    return ", ".join([*[reads] * (option in _READING), *["writes"] * (option in _WRITING)])


@dataclass(frozen=True, slots=True)
class GivenOptions:
    """The user's options, parsed one by one."""

    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """By the options' documented names."""

    def read_options(self) -> SourceOptions:
        """Those of a read, whose files this process can read."""
        made = self.of(SourceOptions)
        made.check_files()
        return made

    def write_options(self) -> SinkOptions:
        """Those of a write, whose files this process can read."""
        made = self.of(SinkOptions)
        made.check_files()
        return made

    def of(self, kind: type[_Kind]) -> _Kind:
        """Return the options of a read, of a write, or of a connection alone, with defaults. Raises ConfigurationError
        for options that do not apply, are missing or contradict each other."""
        options = options_of(kind)
        names = {option.name for option in options.values()}.union(_SPARKS_OWN if kind is SinkOptions else ())
        for name in sorted(self.values.keys() - names):
            raise ConfigurationError(_misplaced(name, kind), condition="MISPLACED_OPTION")
        for option in options.values():
            if option.required and option.name not in self.values:
                raise ConfigurationError(
                    f'option {option.name} is required; add .option("{option.name}", ...)', condition="MISSING_OPTION"
                )
        given = {name: self.values[option.name] for name, option in options.items() if option.name in self.values}
        made = kind(given=frozenset(self.values), **given)
        made.check()
        return made


def parse_given(options: Mapping[str, str]) -> GivenOptions:
    """Return the parsed options. Names may have any case: Spark lower-cases them.

    Raises ConfigurationError that names one option, what is wrong and what to do; it quotes no secret.
    """
    values: dict[str, Any] = {}
    sparks_own = {name.lower(): name for name in _SPARKS_OWN}
    for key in sorted(options):
        option = find_option(key)
        if option is None:
            if key.lower() not in sparks_own:
                raise ConfigurationError(_unknown(key, options), condition="UNKNOWN_OPTION")
            values[sparks_own[key.lower()]] = options[key]
        elif option.name.endswith("*"):
            rest = key[len(option.name) - 1 :]
            values[option.name] = Masked({**values.get(option.name, {}), rest: _parse(option, key, options[key])})
        else:
            values[option.name] = _parse(option, option.name, options[key])
    if asks_for_tls(values, values.get("tls.enabled")):  # the masters then have another default port
        for text in (text for key, text in options.items() if key.lower() == "masterservers"):
            values["masterServers"] = to.servers(text, tls=True)
    return GivenOptions(values)


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the options of a read."""
    return parse_given(options).of(SourceOptions)


def _parse(option: Option, name: str, text: str) -> Any:
    try:
        return option.parse(text)
    except ConfigurationError as error:
        error.condition = "INVALID_OPTION_VALUE"
        raise  # its text names the option
    except ValueError as error:
        why = "has an invalid value" if option.secret else error
        raise ConfigurationError(f"option {name} {why}", condition="INVALID_OPTION_VALUE") from None


_OF_KAFKAS: Final = {
    "kafka.bootstrap.servers": "masterServers",
    "kafka.group.id": "consumerGroup",
    "groupidprefix": "consumerGroup",
    "minpartitions": "sourceCount, with backlogTakeover",
    "includeheaders": 'columns, as in "*, attributes"',
}
"""What Kafka's source has, in lower case, and what is meant by it here."""


def _unknown(key: str, others: Iterable[str]) -> str:
    if any(other.lower().startswith("option.") for other in others):  # CREATE TABLE passes each a second time, so
        return (
            "a catalog table cannot use tubeclient, because Spark does not pass the table's options to a Python "
            "source when the table is read; create a view instead: CREATE TEMPORARY VIEW name USING tubeclient "
            "OPTIONS (...)"
        )
    if key.lower() in _OF_KAFKAS:
        return f"option {key} belongs to Spark's Kafka source; here it is {_OF_KAFKAS[key.lower()]}"
    if key.lower() == "path":
        return (
            "tubeclient has no path: call .load(), .save() or .start() without one. Name the topics to read with "
            "subscribe, the topic to write with topic"
        )
    return f"option {key} is unknown; {nearest(key, [option.name for option in OPTIONS])}"


def _misplaced(name: str, kind: type) -> str:
    if kind is AccessOptions:
        return f"option {name} is not for the connection to the cluster; leave it out"
    if name in _SPARKS_OWN:
        return f"option {name} belongs to writeStream, not to a read"
    instead = {"topic": "subscribe", "subscribe": "topic", "assign": "topic", "subscribePattern": "topic"}.get(name)
    other = "writes" if kind is SourceOptions else "reads"
    return f"option {name} applies to {other} only; " + (f"did you mean {instead}?" if instead else "leave it out")
