"""What is damaged in a data directory beside the log. Each part looks after its own files."""

from collections.abc import Callable
from pathlib import Path

import headwater.alerts.check
import headwater.capture.check
import headwater.serve.check
import headwater.views.check


def _flows(data: Path) -> list[str]:
    from headwater.flow.deploy.damage_check import problems  # loads Arrow: only where it is needed

    return problems(data) if (data / "flows").is_dir() else []


PARTS: dict[str, Callable[[Path], list[str]]] = {
    "flows": _flows,
    "views": headwater.views.check.problems,
    "captures": headwater.capture.check.problems,
    "alerts": headwater.alerts.check.problems,
    "http": headwater.serve.check.problems,
}


def problems(data: Path) -> list[str]:
    """One sentence for each damaged file of any part but the log; it names the file."""
    return [problem for part in PARTS.values() for problem in part(data)]
