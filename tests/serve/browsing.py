"""A page in a real browser, and everything that it complained about. Screenshots are kept in build/screenshots."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Dialog, Page

from tests.rules.source import ROOT
from tests.waiting import LONG

SCREENS = {"desktop": (1280, 800), "phone": (390, 844)}
SCREENSHOTS = Path(os.environ.get("HEADWATER_SCREENSHOTS") or ROOT / "build" / "screenshots")
PATIENCE_MS = 1000 * LONG

Scheme = Literal["light", "dark"]


class Watched:
    """`name` begins the names of its screenshots."""

    def __init__(self, page: Page, url: str, name: str) -> None:
        self.page, self.name, self._url = page, name, url
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        page.on("dialog", self._refuse)

    def _refuse(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def go(self, address: str) -> Page:
        self.page.goto(f"{self._url}/ui/{address}")
        return self.page

    def picture(self, name: str, *, whole: bool = True) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(SCREENSHOTS / f"{self.name}-{name}.png"), full_page=whole)


@contextmanager
def watched(browser: Browser, url: str, scheme: Scheme, screen: str) -> Iterator[Watched]:
    width, height = SCREENS[screen]
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    yield Watched(page, url, f"{scheme}-{screen}")
    context.close()
