"""A line that says what is being measured now."""

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    quiet: bool = False

    def say(self, words: str) -> None:
        if not self.quiet:
            print(words, file=sys.stderr, flush=True)
