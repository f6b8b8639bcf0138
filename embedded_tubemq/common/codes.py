"""The values of errCode (source: TErrCodeConstants of Apache TubeMQ)."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Code"]


class Code(IntEnum):
    SUCCESS = 200
    BAD_REQUEST = 400
    UNAUTHORIZED = 401
    FORBIDDEN = 403
    NOT_FOUND = 404
    PARTITION_OCCUPIED = 410
    HB_NO_NODE = 411
    DUPLICATE_PARTITION = 412
    CERTIFICATE_FAILURE = 415
    TOPIC_SET_CONFLICT = 425
    FILTER_SET_CONFLICT = 426
    SOURCE_COUNT_CONFLICT = 429
    NODE_ID_CONFLICT = 430
    TOPIC_NOT_DEPLOYED = 431
    GROUP_FORBIDDEN = 450
    FILTER_FORBIDDEN = 455
    INTERNAL_SERVER_ERROR = 500
    SERVICE_UNAVAILABLE = 503
