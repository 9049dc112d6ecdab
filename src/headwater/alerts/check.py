"""Finds damaged files of alerts, for `headwater log check`. Reads files; changes nothing."""

from pathlib import Path

from headwater.alerts.definition import FOLDER
from headwater.log.storage import LocalStorage, problems_of
from headwater.small_file import small_files


def problems(data: Path) -> list[str]:
    """One sentence for each damaged file; it names the file."""
    storage = LocalStorage(data)
    paths = small_files(data / FOLDER, "*/*.json")
    return [problem for path in paths for problem in problems_of(storage, str(path.relative_to(data)))]
