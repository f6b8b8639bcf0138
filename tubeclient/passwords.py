"""Where a password comes from: an argument, a file, or an environment variable; exactly one of them.

Files and variables are read when the password is needed, not before. So nothing that is pickled or printed in between
has a secret, and a new password counts at once.
"""

from __future__ import annotations

import os
import re

from tubeclient.errors import ConfigurationError

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


def looks_like_variable(name: str) -> bool:
    """Whether a name given for an environment variable may be shown: it is written as those are. Any other may be the
    password itself, given in the wrong place."""
    return _VARIABLE.fullmatch(name) is not None


def check_password_sources(name: str, given: str | None, file: str | None, variable: str | None) -> bool:
    """Whether one source is named; those of file and variable are `name`_file and `name`_env. ConfigurationError for
    two, or for a blank one."""
    sources = {name: given, f"{name}_file": file, f"{name}_env": variable}
    named = [source for source, value in sources.items() if value is not None]
    if len(named) > 1:
        raise ConfigurationError(f"{' and '.join(named)} exclude each other; give only one of them")
    for source in named:
        if not sources[source]:
            raise ConfigurationError(f"{source} is empty; give a value, or leave it out")
    return bool(named)


def read_password(name: str, given: str | None, file: str | None, variable: str | None) -> str:
    """Return the password as it is now, without the line end of a file. ConfigurationError if there is none."""
    what, text, empty = name, given or "", "is empty"
    if variable is not None:
        # Its name is not shown: it may be the password, given in the wrong place.
        what, text, empty = (
            f"the environment variable that {name}_env names",
            os.environ.get(variable, ""),
            "is not set or empty",
        )
    elif file is not None:
        what, empty = f"{file}, named by {name}_file,", "is empty; write the password into it"
        try:
            with open(file, encoding="utf-8-sig", errors="surrogateescape", newline="") as stream:
                text = stream.read().rstrip("\r\n")
        except OSError as error:
            raise ConfigurationError(f"cannot read {file}, named by {name}_file: {error.strerror or error}") from error
    if not text:
        raise ConfigurationError(f"{what} {empty}")
    if not is_utf8(text):
        raise ConfigurationError(f"{what} is not UTF-8 text")
    return text


def is_utf8(text: str) -> bool:
    """Whether `text` can be sent. Python keeps other bytes of command lines and variables as lone surrogates."""
    # Python's error would contain the text, so it is caught here.
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
