"""The user in whose name a client signs its requests."""

from __future__ import annotations

from dataclasses import dataclass, field

from tubeclient.errors import ConfigurationError
from tubeclient.passwords import check_password_sources, is_utf8, read_password

__all__ = ["Credentials"]


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user, and where the password comes from: `password`, `password_file` (UTF-8; a line end is not part of it) or
    `password_env` (the name of an environment variable).

    File and variable are read when a request is signed, so a new password counts at once, and a pickle of this holds no
    secret. The password is in no `repr` and no error. Raises ConfigurationError if no source or several are given, or
    if TubeMQ cannot carry the user's name.

    >>> Credentials("alice", password="secret")
    Credentials(user='alice', password_file=None, password_env=None)
    """

    user: str
    password: str | None = field(default=None, repr=False, kw_only=True)
    password_file: str | None = field(default=None, kw_only=True)
    password_env: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not self.user or any(character.isspace() for character in self.user):
            raise ConfigurationError(f"user {self.user!r} is empty or has a blank; TubeMQ does not allow that")
        if not is_utf8(self.user):
            raise ConfigurationError(f"user {self.user!r} is not UTF-8 text")
        if not check_password_sources("password", self.password, self.password_file, self.password_env):
            raise ConfigurationError(
                f"no password for user {self.user}; give one of password, password_file, password_env"
            )

    def read_password(self) -> str:
        """Return the password as it is now. ConfigurationError if file or variable give none."""
        return read_password("password", self.password, self.password_file, self.password_env)
