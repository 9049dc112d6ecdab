"""Positions as they are written in requests and answers: orders/0@41,orders/1@7. Pure.

Each names a record: a read "at least at this position" includes all of them.
"""

import re

from headwater.serve.answers import Invalid

ONE = re.compile(r"([A-Za-z0-9._-]{1,249})/([0-9]{1,9})@([0-9]{1,18})")
PATTERN = rf"^{ONE.pattern}(,{ONE.pattern})*$"
LONGEST = 4000


def next_offsets(said: str) -> dict[str, dict[int, int]]:
    """Topic -> partition -> the first offset that need not be included.

    >>> next_offsets("orders/0@41,orders/1@7")
    {'orders': {0: 42, 1: 8}}
    """
    found: dict[str, dict[int, int]] = {}
    for part in said.split(","):
        match = ONE.fullmatch(part)
        if match is None:
            raise Invalid(f"{said[:80]!r} is no position; write TOPIC/PARTITION@OFFSET, such as orders/0@41")
        topic, partition, offset = match[1], int(match[2]), int(match[3])
        offsets = found.setdefault(topic, {})
        offsets[partition] = max(offsets.get(partition, 0), offset + 1)
    return found
