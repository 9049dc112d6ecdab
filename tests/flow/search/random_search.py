"""Random documents, and queries in all that their language has, over few words, so that many of them meet."""

import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headwater.flow.operators.search.fields import Fields, Point

SCHEMA = pa.schema(
    [("title", pa.string()), ("body", pa.string()), ("lang", pa.string()), ("price", pa.float64()), ("n", pa.int64()),
     ("cost", pa.decimal128(9, 2)), ("sold", pa.bool_()), ("at", pa.timestamp("us", "UTC")), ("day", pa.date32()),
     ("lat", pa.float64()), ("lon", pa.float64())]
)  # fmt: skip
FIELDS = Fields((("title", "folded"), ("body", "english")), SCHEMA, (Point("place", "lat", "lon"),))
WORDS = [
    "storm", "storms", "stormy", "strom", "rain", "Rain", "raining", "the", "of", "coast", "cöast", "wi-fi", "it's",
    "x86", "3.5", "日本", "naïve", "a", "quick-witted", "forms",
]  # fmt: skip


def text(dice: random.Random) -> str | None:
    if dice.random() < 0.05:
        return None
    return "".join(
        dice.choice(WORDS) + dice.choice([" ", " ", " ", ", ", ". ", "/"]) for _ in range(dice.randint(0, 14))
    )


def document(dice: random.Random) -> dict[str, Any]:
    made = {
        "title": text(dice), "body": text(dice), "lang": dice.choice(["en", "de", "EN"]),
        "price": dice.randint(-4, 4) / 2,
        "n": dice.randint(-3, 3), "cost": Decimal(dice.randint(-200, 200)) / 100, "sold": dice.random() < 0.5,
        "at": datetime(2026, 1, dice.randint(1, 4), dice.randint(0, 23), tzinfo=UTC),
        "day": date(2026, 1, dice.randint(1, 4)),
        "lat": 48 + dice.random(), "lon": 16 + dice.random(),
    }  # fmt: skip
    return {name: None if dice.random() < 0.1 else value for name, value in made.items()}


def _word(dice: random.Random) -> str:
    return dice.choice(WORDS)


def _pattern(dice: random.Random) -> str:
    word = dice.choice([one for one in WORDS if one.isascii() and one.isalpha()])
    at = dice.randint(0, len(word))
    return dice.choice(
        [word[:at] + "*", word[:at] + "?" + word[at + 1 :], "*" + word[at:], word[:at] + "*" + word[at:]]
    )


def _fuzzy(dice: random.Random) -> str:
    word = dice.choice([one for one in WORDS if one.isascii() and one.isalpha()])
    return f"{word}~{dice.choice(['', '0', '1', '2'])}"


def _phrase(dice: random.Random) -> str:
    words = " ".join(_word(dice) for _ in range(dice.randint(1, 4)))
    return f'"{words}"' + dice.choice(["", "", f"~{dice.randint(1, 4)}"])


RANGES = [
    "price:[-1 TO 0.5]", "price:{-1 TO *]", "price:>=1", "n:2", "n:[* TO 0}", "n:<1.5", "cost:{0 TO 1.00}", "cost:>0.5",
    "sold:true", "sold:false", "at:2026-01-02", "at:[2026-01-02 TO 2026-01-03T12:00:00}", "day:[2026-01-02 TO *}",
    "lang:en", "lang:[a TO en]", "lang:e*", "body:[rain TO storm]", "title:{coast TO *]", "title:[* TO rain}",
    "place:near(48.5, 16.5, 30 km)", "place:near(48.1, 16.1, 20 mi)", "*:*",
]  # fmt: skip


def _leaf(dice: random.Random) -> str:
    kind = dice.random()
    if kind < 0.2:
        return dice.choice(RANGES)
    made = dice.choice([_word, _word, _word, _phrase, _pattern, _fuzzy])(dice)
    return made if dice.random() < 0.6 else f"{dice.choice(['title', 'body'])}:{made}"


def query(dice: random.Random, depth: int = 0) -> str:
    """Some of them cannot be run."""
    if dice.random() < 0.02:
        return dice.choice(["(rain", "colour:red", "n:many", "the", '"', "rain)", "place:rain", "storm~7", "rain AND"])
    if depth > 2 or dice.random() < 0.3:
        return _leaf(dice)
    parts = [query(dice, depth + 1) for _ in range(dice.randint(1, 4))]
    kind = dice.random()
    if kind < 0.3:
        made = " AND ".join(dice.choice(["", "", "", "NOT "]) + one for one in parts)
    elif kind < 0.6:
        made = " OR ".join(parts)
    else:
        made = " ".join(dice.choice(["", "", "+", "-"]) + one for one in parts)
    minimum = f"@{dice.randint(1, len(parts))}" if dice.random() < 0.2 else ""
    return f"({made}){minimum}" + dice.choice(["", "", "", "^2", "^0.5"])
