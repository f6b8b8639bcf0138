"""The ingest job of its own tests."""

from tests.tubeclient_ingest.conftest import bench

__all__ = ["bench"]
