"""make docs: all pages as a site, without a warning."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rules.source import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(ROOT / "scripts" / "site.py"), "--into", str(into)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return into


def test_every_page_of_guide_and_reference_is_in_the_site_and_listed(site: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    pages = [*ROOT.glob("docs/guide/*.md"), *ROOT.glob("docs/reference/*.md")]
    links = [
        str(page.relative_to(ROOT)).replace("README.md", "index.md").removesuffix(".md") + ".html" for page in pages
    ]
    assert len(links) > 15
    assert [link for link in links if not (site / link).is_file()] == []
    assert [link for link in links if f'href="{link}"' not in index] == []


def test_a_browser_loads_nothing_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"(?:https?:)?//", re.I)
    assert [page.name for page in site.rglob("*.html") if loaded.search(page.read_text(encoding="utf-8"))] == []
