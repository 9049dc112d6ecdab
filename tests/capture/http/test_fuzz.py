"""Any request at all: a status that is meant, nothing stored unless it was said to be, and no crash.

HEADWATER_FUZZ_REQUESTS says how many (100,000 for the whole of it; `make test` takes fewer).
"""

import asyncio
import json
import os
from collections import Counter
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from headwater.capture.http.hooks import Hook, Hooks
from headwater.capture.http.receiver import Receiver
from headwater.capture.http.signatures import SCHEMES
from headwater.clock import ManualClock
from headwater.log.log import Log
from headwater.log.storage import MemoryStorage
from headwater.serve.bodies import Bodies
from headwater.serve.http import build_app
from headwater.serve.services import routes_of_posts
from headwater.settings import HttpSettings
from tests.capture.http.signing import SECRET, signed
from tests.serve.asgi import HOST, Answered, ask

COUNT = int(os.environ.get("HEADWATER_FUZZ_REQUESTS", "3000"))
SETTINGS = HttpSettings(request_bytes_max=4000, request_timeout=timedelta(seconds=5))
PATHS = ["/topics/orders", "/topics/orders?key=id", "/topics/small", *(f"/hooks/{scheme}" for scheme in SCHEMES)]
ODD_PATHS = [
    "/topics/none",
    "/topics/_requests",
    "/topics",
    "/hooks/x",
    "/topics/%00",
    "/topics/a%2Fb",
    "/",
    "/hooks//",
]
TYPES = ["application/json", "application/x-ndjson", "application/cloudevents+json", "text/plain", "", "é;;=",
         "application/cloudevents-batch+json", "application/json; charset=utf-16", "a" * 300]  # fmt: skip
EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"id": "ä"}}
GOOD = {
    "application/json": b'{"id": "a"}',
    "application/x-ndjson": b'{"id": 1}\n{"id": 2}\n',
    "application/cloudevents+json": json.dumps(EVENT).encode(),
    "application/cloudevents-batch+json": json.dumps([EVENT, EVENT]).encode(),
}
EXPECTED = {200, 400, 401, 403, 404, 405, 409, 413, 415, 422, 429}


def mangled(random: Random, body: bytes) -> bytes:
    """As it is, cut, with other bytes in it, nested, very long, or something else altogether."""
    match random.randrange(7):
        case 0 | 1:
            return body
        case 2:
            return body[: random.randrange(len(body) + 1)]
        case 3:
            changed = bytearray(body or b"x")
            for _ in range(random.randrange(1, 4)):
                changed[random.randrange(len(changed))] = random.randrange(256)
            return bytes(changed)
        case 4:
            return b"[" * random.randrange(4100)
        case 5:
            return body * random.randrange(60)
    return random.randbytes(random.randrange(40))


def headers_for(random: Random, path: str, kind: str, body: bytes, now: int) -> list[tuple[bytes, bytes]]:
    said = {"content-type": kind} if random.random() < 0.97 else {}
    if path.startswith("/hooks/") and random.random() < 0.7:
        scheme = path.removeprefix("/hooks/") if random.random() < 0.9 else random.choice([*SCHEMES])
        said |= signed(scheme, body, seconds=now + random.choice([0, 0, 0, -400]), id=str(random.randrange(50)))
    if random.random() < 0.2:
        said["idempotency-key"] = random.choice(["a", "b", "c", "", "x" * 300, str(random.random()), "\x00"])
    if random.random() < 0.1:
        said["ce-specversion"], said["ce-type"] = random.choice(["1.0", "9"]), "%ff"
    if random.random() < 0.1:
        said[random.choice(["content-length", "x", "origin"])] = random.choice(["-1", "99999", "", "9" * 5000])
    if said and random.random() < 0.1:
        name = random.choice(sorted(said))
        said[name] = random.randbytes(random.randrange(30)).decode("latin-1")
    return [HOST, *((name.encode(), value.encode("latin-1", "replace")) for name, value in said.items())]


@pytest.mark.timeout(900)
def test_any_request_has_an_answer_that_is_meant_and_is_stored_as_it_says(tmp_path: Path) -> None:
    random, clock = Random(20261115), ManualClock()
    log = Log.open("data", storage=MemoryStorage(clock), clock=clock)
    log.create_topic("orders", partitions=3, configs={"max.message.bytes": "2000"})
    log.create_topic("small", configs={"retention.bytes": "3000", "headwater.full.policy": "block"})
    for scheme in SCHEMES:
        Hooks(tmp_path).put(Hook(name=scheme, topic="orders", scheme=scheme, secrets=(SECRET,)))
    bodies = Bodies(SETTINGS)
    app = build_app(routes_of_posts(Receiver(log, tmp_path), bodies), SETTINGS)
    seen: Counter[int] = Counter()
    stored = 0

    async def one() -> Answered:
        path = random.choice(PATHS) if random.random() < 0.95 else random.choice(ODD_PATHS)
        kind = random.choice(TYPES)
        body = mangled(random, GOOD.get(kind, b'{"id": "a"}'))
        headers = headers_for(random, path, kind, body, clock.now_ms() // 1000)
        cut = random.randrange(len(body) + 1)
        method = "POST" if random.random() < 0.98 else random.choice(["GET", "PUT", "DELETE", "OPTIONS", "X"])
        return await ask(app, method, path, chunks=[body[:cut], body[cut:]], headers=headers)

    async def all_of_them() -> None:
        nonlocal stored
        for _ in range(COUNT):
            answer = await one()
            seen[answer.status] += 1
            said = answer.json
            if answer.status == 200:
                stored += said["records"] if "idempotent-replayed" not in answer.headers else 0
            else:
                assert said["message"]
            assert (answer.status == 429) <= ("retry-after" in answer.headers)
            clock.advance(random.randrange(200))

    asyncio.run(all_of_them())
    assert set(seen) <= EXPECTED, seen
    assert {200, 400, 401, 404, 405, 413, 415, 422, 429} <= set(seen), seen
    held = sum(1 for number in range(3) for _ in log.read("orders", number)) + sum(1 for _ in log.read("small"))
    assert held == stored
    assert bodies.held_bytes == 0
