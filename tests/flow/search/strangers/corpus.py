"""Texts that are installed with what headwater needs: what Python's own packages say of their classes and functions;
and queries made of their words."""

import ast
import importlib.util
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("numpy", "pyarrow", "hypothesis", "pandas", "pyspark", "numba")


class Text(NamedTuple):
    lang: str
    n: int
    title: str
    body: str


def _docstrings(package: str) -> Iterator[tuple[str, str]]:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    for path in sorted(Path(spec.origin).parent.rglob("*.py")):
        try:
            tree = ast.parse(path.read_text("utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (said := ast.get_docstring(node)):
                yield node.name, said


@cache
def corpus(count: int, package_count: int = 2) -> list[Text]:
    """Some documents, in the same order for the same versions of packages."""
    found: list[Text] = []
    for package in PACKAGES[:package_count]:
        for name, said in _docstrings(package):
            first, _, rest = said.partition("\n")
            one = [" ".join(part.split()) for part in (f"{name} {first}", rest)]
            found.append(Text(package, len(rest) % 1000, *one))
    random.Random(5).shuffle(found)
    return found[:count]


WORD = re.compile(r"[a-z]{2,12}")


class Author:
    """Writes queries with the words of a corpus."""

    def __init__(self, texts: list[Text], seed: int) -> None:
        self.dice = random.Random(seed)
        self.sentences = [words for one in texts if len(words := WORD.findall(one.body.lower())) > 4]

    def word(self) -> str:
        word = self.dice.choice(self.dice.choice(self.sentences))
        return word if word not in ("and", "or", "not", "to") else "array"

    def phrase(self) -> str:
        words = self.dice.choice(self.sentences)
        at, count = self.dice.randint(0, len(words) - 3), self.dice.randint(2, 3)
        chosen = list(dict.fromkeys(words[at : at + count]))
        self.dice.shuffle(chosen) if self.dice.random() < 0.3 else None
        return f'"{" ".join(chosen)}"' + self.dice.choice(["", "", f"~{self.dice.randint(1, 4)}"])

    def pattern(self) -> str:
        word, at = self.word(), self.dice.randint(1, 3)
        return self.dice.choice([f"{word[: at + 1]}*", f"{word[:at]}?{word[at + 1 :]}", f"{word[:at]}*{word[-1]}"])

    def fuzzy(self) -> str:
        return f"{self.word()}bc~{self.dice.randint(1, 2)}"

    def other(self) -> str:
        low = self.dice.randint(0, 900)
        return self.dice.choice(
            [
                f"n:[{low} TO {low + 50}]",
                f"n:{{{low} TO *]",
                f"lang:{self.dice.choice(PACKAGES)}",
                f"title:{self.word()}",
            ]
        )

    def leaf(self) -> str:
        kind = self.dice.random()
        if kind < 0.6:
            return self.word()
        made = self.phrase if kind < 0.75 else self.pattern if kind < 0.85 else self.fuzzy if kind < 0.9 else self.other
        return made()

    def query(self, depth: int = 0) -> str:
        if depth == 2 or self.dice.random() < 0.25:
            return self.leaf()
        parts = [self.query(depth + 1) for _ in range(self.dice.randint(2, 4))]
        kind = self.dice.random()
        if kind < 0.4:
            made = " AND ".join([parts[0], *(self.dice.choice(["", "", "NOT "]) + one for one in parts[1:])])
        elif kind < 0.65:
            made = " OR ".join(parts)
        elif kind < 0.85:
            made = " ".join([parts[0], *(self.dice.choice(["", "+", "-"]) + one for one in parts[1:])])
        else:
            return f"({' '.join(parts)})@{self.dice.randint(1, len(parts))}"
        return f"({made})" + self.dice.choice(["", "", f"^{self.dice.randint(2, 4)}"])
