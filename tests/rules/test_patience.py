"""No test has a limit that a busy machine can exceed: who waits does so with tests/waiting.py."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.rules.source import ROOT, dotted, name_of, tree_of

TESTS = ROOT / "tests"
CLOCKS = {"time.monotonic", "time.perf_counter", "time.time", "monotonic", "perf_counter"}
MEASURES = {"time.perf_counter", "perf_counter"}
"""Only there to say how long something took."""
FAIL_LATE = {
    "create_connection", "HTTPConnection", "HTTPSConnection", "urlopen", "RawClient", "Connection", "list_topics",
    "communicate", "check_call", "check_output", "flush", "result", "poll",
}  # fmt: skip
"""Calls that fail, or answer that there is nothing, when a limit has passed."""
ASYNCIO = {"asyncio.timeout", "asyncio.wait_for"}
WAITS = {"wait", "acquire", "join"}
"""The same, where their answer is asserted."""
TIMERS = {"threading.Timer", "select.select"}
"""What happens, or ends, after so long whatever goes on."""
LOOK_SECONDS = 1
"""Who polls for less looks, and looks again."""
ALLOWED = {
    "tests/waiting.py": "it is what the others wait with",
    "tests/watchdog.py": "it is what ends tests that hang",
    "tests/test_waiting.py": "it tests them",
    "tests/wire/fuzz_ports.py": "it measures, outside of make test, how long a well-behaved client waits",
    "tests/flow/large_joins/clicks.py": "it prints what it measured, and compares it with nothing",
    "tests/flow/large_joins/timeline.py": "likewise",
    "tests/flow/job/test_own_writes.py": "likewise",
    "tests/capture/large/retaining.py": "it works for so many minutes, and fails by none of them",
}


def limits_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each limit in seconds of a wall clock."""
    asserted = {id(node.test) for node in ast.walk(tree) if isinstance(node, ast.Assert)}
    named = _numbers_of(tree)
    for node in ast.walk(tree):
        calls = isinstance(node, ast.Call) and _is_limited(node, asserted=id(node) in asserted, named=named)
        if calls or _is_deadline(node):
            yield node.lineno, ast.unparse(node)  # type: ignore[attr-defined]


def _numbers_of(tree: ast.Module) -> dict[str, float]:
    """Names that a module gives to numbers: SECONDS = 10, and A, B = 10, 20."""
    found: dict[str, float] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            pairs = (
                zip(target.elts, value.elts, strict=False)
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
                else [(target, value)]
            )
            found |= {one.id: _seconds(other, {}) for one, other in pairs if isinstance(one, ast.Name)}
    return found


def _is_deadline(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _is_clock(left) or _is_clock(right)
        case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE()]):
            return any(_is_clock(one) for one in ast.walk(left))
        case ast.Compare(ops=[ast.Gt() | ast.GtE()], comparators=[right]):
            return any(_is_clock(one) for one in ast.walk(right))
        case ast.Call(func=func):
            return dotted(func) in MEASURES
    return False


def _is_clock(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func) in CLOCKS


def _is_limited(call: ast.Call, *, asserted: bool, named: Mapping[str, float]) -> bool:
    name = dotted(call.func)
    last = call.func.attr if isinstance(call.func, ast.Attribute) else name
    limits = [
        one.value for one in call.keywords if (one.arg or "").endswith(("timeout", "timeout_seconds", "timeout_s"))
    ]
    last_one = call.args[-1:] if last not in ("create_connection", "HTTPConnection", "RawClient") else []
    if name in TIMERS:
        return any(_seconds(one, named) > LOOK_SECONDS for one in (call.args[0], call.args[-1]))
    if name in ASYNCIO or last in FAIL_LATE or (asserted and last in WAITS):
        look = LOOK_SECONDS if last == "poll" else 0
        return any(_seconds(one, named) > look for one in [*limits, *last_one])
    return False


def _seconds(node: ast.expr, named: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name):
            return named.get(name, 0)
    return 0


def files() -> list[Path]:
    return [file for file in sorted(TESTS.rglob("*.py")) if name_of(file) not in ALLOWED]


def test_no_test_has_a_limit_in_seconds_of_a_wall_clock() -> None:
    found = [f"{name_of(file)}:{line}: {text}" for file in files() for line, text in limits_in(tree_of(file))]
    assert found == [], "wait with wait_until, Deadline or LONG of tests/waiting.py"


@pytest.mark.parametrize("file", ALLOWED)
def test_what_is_excepted_is_there(file: str) -> None:
    assert (ROOT / file).is_file()


@pytest.mark.parametrize(
    "text",
    [
        "deadline = time.monotonic() + 5",
        "assert time.monotonic() < deadline",
        "assert time.monotonic() - begun < 1",
        "assert 5 > time.time() - begun",
        "begun = time.perf_counter()",
        "assert begun.wait(60)",
        "assert begun.wait(timeout=60)",
        "future.result(5)",
        "producer.flush(10)",
        "consumer.poll(10.0)",
        "socket.create_connection(address, timeout=2)",
        "HTTPConnection(address, timeout=60)",
        "await asyncio.wait_for(ticket.wait(), timeout=1)",
        "asyncio.timeout(0.1)",
        "Connection(address, timeout_seconds=5)",
        "threading.Timer(10, process.kill)",
        "STRIKE_SECONDS = 10\nselect.select([pipe], [], [], STRIKE_SECONDS)",
        "A, PATIENCE_SECONDS = 5, 30\nproducer.flush(PATIENCE_SECONDS)",
    ],
)
def test_a_limit_is_recognised(text: str) -> None:
    assert list(limits_in(ast.parse(text))) != []


@pytest.mark.parametrize(
    "text",
    [
        "assert time.monotonic() - begun >= 0.3",
        "deadline = Deadline(5)",
        "assert not run.wait(0.2)",
        "assert begun.wait(LONG)",
        "thread.join()",
        "consumer.poll(timeout_ms=200)",
        "socket.create_connection(('127.0.0.1', 9092))",
        "pytest.mark.timeout(300)",
        "consumer.consume(500, timeout=0.05)",
        "threading.Timer(0.2, log.append)",
        "select.select([], [], [], 0.05)",
    ],
)
def test_what_no_busy_machine_exceeds_is_none(text: str) -> None:
    assert list(limits_in(ast.parse(text))) == []
