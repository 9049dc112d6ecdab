"""How many topics clients may make by naming them. Pure."""

from headwater.settings import WireSettings

MINUTE_SECONDS = 60.0


class AutoCreation:
    """Counts topics that were created because a client named them, over all connections.

    A client that misspells, or means harm, must not fill the node with topics: each costs files and memory for good.
    There are so many at once and no more than so many in a minute, and none once the node has a good number of topics.
    """

    def __init__(self) -> None:
        self._left: float | None = None
        self._at = 0.0
        self._said_at = -MINUTE_SECONDS

    def refusal(self, settings: WireSettings, *, topics: int, now: float) -> str:
        """Why no topic is to be created now, with the way out; "" if it may be, and it counts as created then."""
        if topics >= settings.auto_created_topics_max:
            return (
                f"there are {topics} topics, and clients create none by naming them from auto_created_topics_max "
                f"({settings.auto_created_topics_max}) on; create it with CreateTopics or raise that setting"
            )
        most = settings.auto_created_topics_per_minute_max
        if self._left is None:
            self._left = float(most)
        self._left = min(float(most), self._left + (now - self._at) * most / MINUTE_SECONDS)
        self._at = now
        if self._left < 1:
            return (
                f"clients have created {most} topics by naming them within a minute "
                "(auto_created_topics_per_minute_max); wait, or create it with CreateTopics"
            )
        self._left -= 1
        return ""

    def worth_saying(self, now: float) -> bool:
        """Was nothing said for a while? A flood of refusals is one line in the log."""
        if now - self._said_at < MINUTE_SECONDS / 10:
            return False
        self._said_at = now
        return True
