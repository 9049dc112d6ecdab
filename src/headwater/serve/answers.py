"""Answers in JSON, and what each error of the tree is in HTTP."""

import json
import math
from typing import Any

from starlette.responses import Response

from headwater.errors import (
    BatchTooLarge,
    ConflictError,
    DiskFull,
    HeadwaterError,
    OffsetOutOfRange,
    StoreUnavailable,
    TopicFull,
    UnavailableError,
    UnknownCapture,
    UnknownFlow,
    UnknownGroup,
    UnknownPartition,
    UnknownQueue,
    UnknownTopic,
    UnknownView,
    ViewBehind,
)

Asked = dict[str, Any]

RETRY_SECONDS = 1

# The first that fits counts.
STATUSES: tuple[tuple[type[HeadwaterError], int], ...] = (
    (UnknownTopic, 404),
    (UnknownPartition, 404),
    (UnknownFlow, 404),
    (UnknownView, 404),
    (UnknownGroup, 404),
    (UnknownCapture, 404),
    (UnknownQueue, 404),
    (OffsetOutOfRange, 416),
    (ViewBehind, 412),
    (BatchTooLarge, 413),
    (TopicFull, 429),
    (DiskFull, 507),
    (StoreUnavailable, 503),
    (UnavailableError, 503),
    (ConflictError, 409),
    (HeadwaterError, 422),
)
RETRIED = {412, 429, 503, 507}

ERROR_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["error_code", "error", "message"],
    "properties": {
        "error_code": {"type": "integer", "description": "the status, once more"},
        "error": {"type": "string", "description": "the name of the error, for programs"},
        "message": {"type": "string", "description": "a sentence, for people"},
    },
}


class Invalid(Exception):
    """A request that does not say what it must; `name` and `status` as the answer has them."""

    def __init__(self, message: str, *, status: int = 400, name: str = "InvalidParameter") -> None:
        super().__init__(message)
        self.status, self.name = status, name


def status_of(error: HeadwaterError) -> int:
    return next(status for kind, status in STATUSES if isinstance(error, kind))


def answer_to_error(error: HeadwaterError | Invalid) -> Response:
    if isinstance(error, Invalid):
        status, name = error.status, error.name
    else:
        status, name = status_of(error), type(error).__name__
    headers = {"retry-after": str(RETRY_SECONDS)} if status in RETRIED else None
    return json_response({"error_code": status, "error": name, "message": str(error)}, status, headers)


def json_response(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(json_bytes(content), status, headers=headers, media_type="application/json")


def json_bytes(content: object) -> bytes:
    """Encodes what may be megabytes row by row: while one call encodes, no other thread runs.

    >>> json_bytes({"records": [{"n": 1}, {"n": float("inf")}], "next": 2})
    b'{"records":[{"n":1},{"n":"Infinity"}],"next":2}'
    """
    if isinstance(content, dict):
        return b"{%b}" % b",".join(b"%b:%b" % (_encoded(str(name)), json_bytes(one)) for name, one in content.items())
    if isinstance(content, list | tuple):
        return b"[%b]" % b",".join(map(_encoded, content))
    return _encoded(content)


def _encoded(content: object) -> bytes:
    return json.dumps(finite(content), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
        "utf-8",
        "replace",  # a lone surrogate, which only a broken client can have sent
    )


def finite(value: Any) -> Any:
    """The same, with a text where JSON has no number."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    return [finite(one) for one in value] if isinstance(value, list | tuple) else value
