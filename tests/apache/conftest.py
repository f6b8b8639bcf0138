"""The fixtures of Apache's own servers for the tests of this folder."""

from tests.apache.fixtures import *  # noqa: F403
