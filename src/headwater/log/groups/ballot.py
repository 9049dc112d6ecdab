"""Which protocol a group uses: one that all members speak, and most like best."""

from collections import Counter
from collections.abc import Collection

from headwater.log.groups.member import Member, Protocol


class Ballot:
    """Counts who speaks what, so that a join need not ask all other members."""

    def __init__(self) -> None:
        self._speakers: Counter[str] = Counter()

    def add(self, protocols: Collection[Protocol]) -> None:
        self._speakers.update({name for name, _ in protocols})

    def remove(self, protocols: Collection[Protocol]) -> None:
        for name in {name for name, _ in protocols}:
            self._speakers[name] -= 1
            if not self._speakers[name]:
                del self._speakers[name]

    def spoken_by(self, count: int) -> set[str]:
        """Protocols that `count` members speak."""
        return {name for name, speakers in self._speakers.items() if speakers == count}

    def agrees(self, protocols: Collection[Protocol], *, members: int, instead_of: Collection[Protocol] = ()) -> bool:
        """Would the group still have a protocol in common if a member offered these (instead of what it offered)?"""
        replaced = {name for name, _ in instead_of}
        others = members - 1 if instead_of else members
        return any(self._speakers[name] - (name in replaced) == others for name, _ in protocols)

    def choose(self, members: Collection[Member]) -> str:
        """Each member votes for its favourite among what all speak; on a tie the eldest member's order decides."""
        common = self.spoken_by(len(members))
        votes = Counter(next(name for name, _ in member.protocols if name in common) for member in members)
        order = [name for name, _ in next(iter(members)).protocols if name in common]
        return max(order, key=lambda name: (votes[name], -order.index(name)))
