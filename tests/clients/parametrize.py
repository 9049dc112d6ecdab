"""How a scenario says which clients it is for."""

import pytest

from tests.clients.adapters import clients_with


def for_clients(*needs: str) -> pytest.MarkDecorator:
    """Run the test once for every client that offers all of these; the test takes it as `client`."""
    return pytest.mark.parametrize("client", clients_with(*needs), indirect=True)
