from tests.tubeclient_ingest.conftest import tube

__all__ = ["tube"]
