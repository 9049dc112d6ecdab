"""Put a bug into the code, for the length of a test."""

import inspect
import textwrap
from typing import Any

import pytest


def plant(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, old: str, new: str) -> None:
    """Replace a piece of the source of one function. It must be there exactly once, or the bug would not be planted."""
    function = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, f"{name} has changed: its bug must be planted again"
    planted: dict[str, Any] = {}
    code = compile(source.replace(old, new), inspect.getsourcefile(function) or name, "exec")
    exec(code, function.__globals__, planted)
    monkeypatch.setattr(owner, name, planted[name])
