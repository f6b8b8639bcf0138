"""The ingest job of its own tests."""

from tests.tubeclient_cli.ingest.conftest import bench

__all__ = ["bench"]
