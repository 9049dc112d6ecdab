import struct

from kio.schema.api_versions.v0.request import ApiVersionsRequest as FirstRequest
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode

from headwater.wire.routes import API_VERSIONS, ROUTES
from tests.wire.raw_client import RawClient, framed, read_response


def test_every_route_is_announced(client: RawClient) -> None:
    response = client.call(ApiVersionsRequest(client_software_name="test", client_software_version="1"))
    announced = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    assert announced == {route.api_key: (route.announced.start, route.announced.stop - 1) for route in ROUTES}


def test_the_oldest_version_is_answered_too(client: RawClient) -> None:
    assert len(client.call(FirstRequest()).api_keys) == len(ROUTES)


def test_a_version_of_the_future_is_answered_in_the_oldest_form(client: RawClient) -> None:
    client.send(framed(struct.pack(">hhih", API_VERSIONS, 99, 7, 4) + b"java\x00 whatever comes then"))
    response = read_response(client.receive_frame(), API_VERSIONS, 0)
    assert response.error_code is ErrorCode.unsupported_version
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [(API_VERSIONS, 0, 4)]
    assert client.call(FirstRequest()).error_code is ErrorCode.none, "the connection stays"


def test_old_clients_see_that_produce_begins_at_version_zero(client: RawClient) -> None:
    # Otherwise they take the server for one that cannot store compressed batches.
    produce = next(api for api in client.call(FirstRequest()).api_keys if api.api_key == 0)
    assert produce.min_version == 0
