"""Build all pages of the repository as a site: python scripts/site.py [--into build/site]

Pages are laid out as they lie in the repository, so that links between them lead to the same places in both. A link
that leads nowhere, to a page or a heading, ends it with exit code 1. A browser loads nothing from elsewhere.
"""

import argparse
import logging
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort, ConfigurationError
from pygments.formatters import HtmlFormatter

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("*.md", "docs/**/*.md", "src/**/*.md", "tests/**/*.md", "examples/**/*.md")
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
HEADING = re.compile(r"^# (.+)$", re.M)
CHAPTER = re.compile(r"\]\(([\w-]+\.md)\)")

# Narrow enough to read, and code that does not shout; the theme is the one that comes with the builder.
STYLE = """
.wy-nav-content { max-width: 900px; }
.rst-content table.docutils td, .rst-content table td { white-space: normal; }
.rst-content img { max-width: 100%; }
.rst-content pre { font-size: 13px; line-height: 1.45; }
"""


def pages() -> list[Path]:
    """Every page, as a path from the root of the repository."""
    found = [page for pattern in PAGES for page in ROOT.glob(pattern)]
    return sorted(page.relative_to(ROOT) for page in found)


def lay_out(folder: Path) -> None:
    """Copy all pages, and the files that they show or lead to."""
    wanted = set(pages())
    for page in pages():
        for target in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
            linked = (ROOT / page.parent / target).resolve()
            if linked.is_file() and linked.is_relative_to(ROOT):
                wanted.add(linked.relative_to(ROOT))
    for one in wanted:
        (folder / one).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / one, folder / one)
    (folder / "site.css").write_text(STYLE + HtmlFormatter(style="friendly").get_style_defs(".codehilite"))


def contents() -> list[dict[str, Any]]:
    """What is listed at the side: the guide in its own order, everything else as it lies there."""
    guide = Path("docs/guide/README.md")
    named = CHAPTER.findall((ROOT / guide).read_text(encoding="utf-8"))
    chapters = [titled(f"docs/guide/{name}") for name in dict.fromkeys(named)]
    found = [str(page) for page in pages()]

    def beneath(*starts: str) -> list[dict[str, str]]:
        return [titled(page) for page in found if page.startswith(starts)]

    return [
        {"What it is": "README.md"},
        {"Guide": [str(guide), *chapters]},
        {"Reference": beneath("docs/reference/")},
        {"How fast it is": "docs/benchmarks.md"},
        {"Inside": ["ARCHITECTURE.md", *beneath("src/"), *beneath("tests/")]},
        {"Decisions": ["docs/decisions/README.md", *beneath("docs/decisions/0")]},
        {"Examples": beneath("examples/")},
        {"Contributing": "CONTRIBUTING.md"},
        {"Changes": "CHANGELOG.md"},
    ]


def titled(page: str) -> dict[str, str]:
    """Under its own heading, which the builder finds only in the first line."""
    heading = HEADING.search((ROOT / page).read_text(encoding="utf-8"))
    return {heading[1].replace("`", "") if heading else page: page}


def build_site(into: Path) -> None:
    """Abort if there is anything to warn about."""
    with tempfile.TemporaryDirectory(prefix="headwater-pages-") as folder:
        settings, laid_out = Path(folder) / "mkdocs.yml", Path(folder) / "pages"
        lay_out(laid_out)
        settings.write_text("site_name: headwater\n")  # the builder wants a file; all else is said here
        config = load_config(
            str(settings),
            docs_dir=str(laid_out),
            site_dir=str(into),
            strict=True,
            use_directory_urls=False,
            nav=contents(),
            theme={"name": "readthedocs", "highlightjs": False, "navigation_depth": 2},
            extra_css=["site.css"],
            markdown_extensions=["tables", "fenced_code", "codehilite"],
            validation={"anchors": "warn", "links": {"absolute_links": "warn", "unrecognized_links": "warn"}},
        )
        build(config)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the pages as a site.")
    parser.add_argument("--into", type=Path, default=ROOT / "build" / "site", metavar="DIR")
    into = parser.parse_args().into.resolve()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    try:
        build_site(into)
    except (Abort, ConfigurationError) as error:
        print(f"the site is not whole: {error}", file=sys.stderr)
        return 1
    print(f"the site is in {into}: open {into / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
