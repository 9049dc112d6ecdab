"""What tests of pages share: a browser, and the settings of a node whose HTTP port stays the same."""

import socket
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from headwater import NodeSettings, WireSettings
from headwater.settings import HttpSettings
from tests.servers.chromium import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium()
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def settings() -> NodeSettings:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return NodeSettings(wire=WireSettings(port=0), http=HttpSettings(port=probe.getsockname()[1]))
