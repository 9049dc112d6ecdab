"""The events of alerts in the log: the topic APP.alerts, from which open episodes are recovered.

One record for each step of an episode, all that happened at one look in one batch. Key `ALERT/KEY`; value

    {"id": "3f…-1", "episode": "3f…", "app": "shop", "alert": "slow", "state": "raised", "key": {…}, "row": {…},
     "since_ms": …, "at_ms": …, "raised_ms": …, "number": 1, "why": "", "seen": [0, 17], "text": "slow raised: …"}

A record holds the whole episode, so the newest one of a key says how it is. `seen` is the generation and the change of
the alert's view at that look: keys that come and go after it were not notified. What is under way is also kept in
a file, with the offset up to which that is true: a node that starts reads the file and then the topic from there.
Without the file it reads the topic alone, as far as retention has kept it.
"""

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from headwater.alerts.definition import Definitions, alerts_topic
from headwater.alerts.episodes import OVER, Episode, State
from headwater.log.log import Log
from headwater.log.own_topics import ensure_own_topic
from headwater.record import Record

_logger = logging.getLogger(__name__)

RETENTION_MS = 30 * 86_400_000
TEXT_MAX = 500
ID_MAX = 100
NOT_IN_IDS = re.compile(r"[^A-Za-z0-9._-]")

Known = dict[str, dict[str, Episode]]
"""Alert → text of the key → what is under way."""


Event = Mapping[str, Any]
"""As `event_json` makes it."""
WORDS: dict[str, type | tuple[type, ...]] = {
    "id": str, "episode": str, "app": str, "alert": str, "state": str, "key": dict, "row": dict, "since_ms": int,
    "at_ms": int, "raised_ms": (int, type(None)), "number": int, "why": str, "text": str,
}  # fmt: skip


class Noted(NamedTuple):
    alert: str
    episode: Episode
    seen: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        return key_text(self.episode.key)


def ensure_topic(log: Log, topic: str) -> None:
    """The events of alerts and the deliveries to targets."""
    ensure_own_topic(log, topic, {"cleanup.policy": "delete", "retention.ms": str(RETENTION_MS)})


class Journal:
    def __init__(self, log: Log, app: str, definitions: Definitions) -> None:
        self._log, self._app, self._definitions = log, app, definitions
        self.topic = alerts_topic(app)
        ensure_topic(log, self.topic)
        self.known: Known = {}
        self.seen: dict[str, tuple[int, int]] = {}
        """How far the view of each alert was when something was last noted of it, or kept."""
        self.end = 0
        self._load()

    def _load(self) -> None:
        partition = self._log.partition(self.topic, 0)
        partition.make_durable(partition.end_offset)
        kept = self._definitions.state(self._app) or {}
        if 0 <= kept.get("end", -1) <= partition.high_watermark:
            self.end = kept["end"]
            for said in kept["episodes"]:
                self._take(noted(said))
            self.seen |= {alert: (generation, change) for alert, (generation, change) in kept.get("seen", {}).items()}
        for offset, event in events(self._log, self._app, offset=max(self.end, partition.start_offset)):
            if event is not None:
                self._take(noted(event))
            self.end = offset + 1

    def _take(self, one: Noted) -> None:
        of_alert = self.known.setdefault(one.alert, {})
        if one.episode.state in OVER:
            of_alert.pop(one.text, None)
        else:
            of_alert[one.text] = one.episode
        if one.seen is not None:
            self.seen[one.alert] = one.seen

    def write(self, events: Iterable[Noted]) -> None:
        """Durable when it returns, and all of it or nothing; only then it counts as known."""
        rows = list(events)
        if not rows:
            return
        records = [Record(as_json(event_json(self._app, one)), as_bytes(f"{one.alert}/{one.text}")) for one in rows]
        self.end = self._log.append(self.topic, records, partition=0).offset + 1
        for one in rows:
            self._take(one)

    def save(self, status: Mapping[str, Any]) -> None:
        """Keep what is under way in a file, so that the next start need not read everything."""
        noted = [Noted(alert, one) for alert, known in self.known.items() for one in known.values()]
        episodes = [event_json(self._app, one) for one in noted]
        state = {"end": self.end, "episodes": episodes, "seen": self.seen, "status": dict(status)}
        self._definitions.save_state(self._app, state)


def as_bytes(text: str) -> bytes:
    """Half of a surrogate pair, which JSON can name and UTF-8 cannot hold, is written as JSON names it.

    >>> as_bytes("a\\ud800")
    b'a\\\\ud800'
    """
    return text.encode("utf-8", "backslashreplace")


def as_json(said: Mapping[str, Any]) -> bytes:
    return as_bytes(json.dumps(said, ensure_ascii=False))


def header_id(id: str) -> str:
    """An id as it stands in a header of a mail or a request. Any client may write to a topic of alerts, and any id.

    >>> header_id("3f2a-1"), header_id("a\\r\\nBcc: eve@x")
    ('3f2a-1', 'a--Bcc--eve-x')
    """
    return NOT_IN_IDS.sub("-", id)[:ID_MAX]


def key_text(key: Mapping[str, Any]) -> str:
    """
    >>> key_text({"url": "/ä", "n": 1})
    '{"url":"/ä","n":1}'
    """
    return json.dumps(key, ensure_ascii=False, separators=(",", ":"))


def event_json(app: str, one: Noted) -> dict[str, Any]:
    """An event as its readers get it."""
    episode = one.episode
    return {
        "id": episode.notification,
        "episode": episode.id,
        "app": app,
        "alert": one.alert,
        "state": str(episode.state),
        "key": dict(episode.key),
        "row": dict(episode.row),
        "since_ms": episode.since_ms,
        "at_ms": episode.at_ms,
        "raised_ms": episode.raised_ms,
        "number": episode.number,
        "why": episode.why,
        "seen": one.seen,
        "text": sentence(one),
    }


def events(log: Log, app: str, *, offset: int) -> Iterator[tuple[int, Event | None]]:
    """All records of the topic from an offset on, with theirs. None: not one of ours, for many may write there."""
    topic, said = alerts_topic(app), False
    for record in log.read(topic, offset=offset):
        event = parsed(record.value)
        ours = is_event(event, app)
        if not ours and not said:
            _logger.warning("%s has at %d what is no event of its alerts; passed over", topic, record.offset)
            said = True
        yield record.offset, event if ours else None


def parsed(value: bytes | None) -> dict[str, Any]:
    """Returns the content of a record, if it is a JSON object; else nothing.

    >>> parsed(b'{"id": "a-1"}'), parsed(b"hello"), parsed(b"[1]"), parsed(None)
    ({'id': 'a-1'}, {}, {}, {})
    """
    try:
        said = json.loads(value or b"{}")
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def is_event(said: Event, app: str) -> bool:
    """Returns whether the event has all fields that `event_json` writes, and is of this app."""
    if said.get("app") != app or not all(isinstance(said.get(word), kinds) for word, kinds in WORDS.items()):
        return False
    match said.get("seen"):
        case None | [int(), int()]:
            return said["state"] in tuple(State)
    return False


def noted(said: Event) -> Noted:
    names = ("key", "since_ms", "at_ms", "raised_ms", "number", "row", "why")
    episode = Episode(id=said["episode"], state=State(said["state"]), **{name: said[name] for name in names})
    seen = said.get("seen")
    return Noted(said["alert"], episode, None if seen is None else (seen[0], seen[1]))


def sentence(one: Noted) -> str:
    """For people: which alert, of what, and the values of its row.

    >>> sentence(Noted("slow", Episode("a", {"url": "/"}, State.RAISED, 0, 0, row={"url": "/", "p99": 2.5})))
    'slow raised: url=/, p99=2.5'
    """
    row = {**one.episode.key, **one.episode.row}
    values = ", ".join(f"{name}={_short(value)}" for name, value in row.items())
    why = f" ({one.episode.why})" if one.episode.why else ""
    return f"{one.alert} {one.episode.state}{f': {values}' if values else ''}"[: TEXT_MAX - len(why)] + why


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else " " for sign in text[:100])
