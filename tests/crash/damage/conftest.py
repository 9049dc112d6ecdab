"""The data directory that is damaged, made once."""

import pytest

from tests.crash.damage.building import Images, build
from tests.crash.flow.conftest import engine as engine
from tests.flow import engines


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    return build(tmp_path_factory.mktemp("damage"), engines.engine())
