"""ApiVersions: which APIs and versions this server speaks. The first question of every client."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i64

from headwater.log.transactions.transaction import NEWER_CLIENTS
from headwater.wire.context import Context
from headwater.wire.protocol.values import NO_THROTTLE

TRANSACTIONS, NEWEST = "transaction.version", i16(NEWER_CLIENTS)
"""The feature that says to clients which version of transactions they may use."""

SHARE, SHARE_VERSION = "share.version", i16(1)
"""The feature that says to clients that there are share groups."""


class Spoken(Protocol):
    """The part of a route that this module uses."""

    @property
    def api_key(self) -> int: ...

    @property
    def announced(self) -> range: ...


def handle_for(
    routes: Callable[[], Iterable[Spoken]],
) -> Callable[[ApiVersionsRequest, Context], Awaitable[ApiVersionsResponse]]:
    """A handler that announces these routes."""

    async def handle(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
        return _response(ErrorCode.none, routes())

    return handle


def unsupported(route: Spoken) -> ApiVersionsResponse:
    """The answer to a version that we do not know: ask again in one of these."""
    return _response(ErrorCode.unsupported_version, [route])


def _response(error_code: ErrorCode, routes: Iterable[Spoken]) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=error_code,
        api_keys=tuple(
            ApiVersion(
                api_key=i16(route.api_key),
                min_version=i16(route.announced.start),
                max_version=i16(route.announced.stop - 1),
            )
            for route in routes
        ),
        throttle_time=NO_THROTTLE,
        supported_features=(
            SupportedFeatureKey(name=TRANSACTIONS, min_version=i16(0), max_version=NEWEST),
            SupportedFeatureKey(name=SHARE, min_version=i16(0), max_version=SHARE_VERSION),
        ),
        finalized_features_epoch=i64(0),
        finalized_features=(
            FinalizedFeatureKey(name=TRANSACTIONS, max_version_level=NEWEST, min_version_level=NEWEST),
            FinalizedFeatureKey(name=SHARE, max_version_level=SHARE_VERSION, min_version_level=SHARE_VERSION),
        ),
    )
