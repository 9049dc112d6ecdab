"""Is there one order of all operations on a stream that explains every answer and that time does not contradict? Pure.

Operations are on one stream; each has a moment at which it began and, if it was answered, one at which it ended. An
append that was stored made a version; a refusal and a read saw one. Versions say in which order appends took effect, so
that it is enough to give each append the earliest moment that all before it allow:

    moment(v) >= moment(v - 1), the beginning of the append that made v, the beginning of whatever saw v - 1
    moment(v) <= the end of the append that made v, the end of whatever saw v

If one moment is too late for an end, no order explains the answers.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

NEVER = 2**62


@dataclass(frozen=True)
class Operation:
    began: int
    ended: int = NEVER
    made: int = 0
    """The version that it made; 0 if it made none."""
    saw: int = -1
    """The version that it saw; -1 if it saw none."""


def anomalies(operations: Iterable[Operation]) -> Iterator[str]:
    """
    >>> list(anomalies([Operation(1, 2, made=1), Operation(3, 4, saw=0)]))
    ['version 0 was seen by Operation(began=3, ended=4, made=0, saw=0), after version 1 had been there']
    """
    made: dict[int, Operation] = {}
    saw: defaultdict[int, list[Operation]] = defaultdict(list)
    for one in operations:
        if one.made and one.made in made:
            yield f"version {one.made} was made twice: {made[one.made]}, {one}"
        elif one.made:
            made[one.made] = one
        elif one.saw >= 0:
            saw[one.saw].append(one)
    moment = 0
    for version in range(max([*made, *saw], default=0) + 1):
        maker = made.get(version)
        if version and maker is None:
            yield f"version {version} was made by nothing that is known"
            return
        earliest = max([moment, *(one.began for one in saw[version - 1])] if version else [0])
        if maker is not None:
            if earliest > maker.ended:
                late = [one for one in saw[version - 1] if one.began > maker.ended]
                what = f"version {version - 1} was seen by {late[0]}" if late else f"{maker} ended before it"
                yield f"{what}, after version {version} had been there"
                return
            earliest = max(earliest, maker.began)
        moment = earliest
        for one in saw[version]:
            if one.ended < moment:
                yield f"version {version} was seen by {one} before it was there"
                return
