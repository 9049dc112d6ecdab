"""What a queue is, one message at a time and without any care for memory: the state machine is compared with it."""

from dataclasses import dataclass, field

from headwater.log.queues.delivery import Acknowledgement, Rules
from headwater.log.queues.states import Event, State


@dataclass
class One:
    key: bytes | None = None
    state: State = State.AVAILABLE
    deliveries: int = 0
    mark: int = 0
    holder: str = ""


@dataclass
class Model:
    rules: Rules
    by_key: bool
    messages: dict[int, One] = field(default_factory=dict)

    def deliverable(self, now_ms: int) -> list[int]:
        """In order; of each key only the oldest unfinished one."""
        found, keys = [], set()
        for offset, one in sorted(self.messages.items()):
            if one.state in (State.AVAILABLE, State.ACQUIRED):
                held = self.by_key and one.key is not None and one.key in keys
                if one.state is State.AVAILABLE and one.mark <= now_ms and not held:
                    found.append(offset)
                keys.add(one.key)
        return found

    def take(self, offsets: list[int], holder: str, now_ms: int) -> None:
        for offset in offsets:
            one = self.messages[offset]
            one.state, one.holder, one.mark = State.ACQUIRED, holder, now_ms + self.rules.lock_ms
            one.deliveries += 1

    def held_by(self, holder: str) -> list[int]:
        return [offset for offset, one in self.messages.items() if one.state is State.ACQUIRED and one.holder == holder]

    def acknowledge(self, said: Acknowledgement, now_ms: int) -> None:
        for offset in range(said.first, said.last + 1):
            one = self.messages[offset]
            match said.event:
                case Event.ACCEPT:
                    one.state = State.ACKNOWLEDGED
                case Event.REJECT:
                    one.state = State.FAILED
                case Event.RENEW:
                    one.mark = now_ms + self.rules.lock_ms
                case _:
                    self._give_back(one, now_ms, said.delay_ms)

    def expire(self, now_ms: int) -> None:
        for one in self.messages.values():
            if one.state is State.ACQUIRED and one.mark <= now_ms:
                self._give_back(one, now_ms, None)

    def release(self, holder: str, now_ms: int) -> None:
        for offset in self.held_by(holder):
            self._give_back(self.messages[offset], now_ms, 0)

    def bury(self) -> None:
        for one in self.messages.values():
            if one.state is State.FAILED:
                one.state = State.ARCHIVED

    def _give_back(self, one: One, now_ms: int, delay_ms: int | None) -> None:
        delay_ms = self.rules.delay_ms(one.deliveries) if delay_ms is None else delay_ms
        one.mark = now_ms + delay_ms if delay_ms else 0
        one.holder = ""
        one.state = State.FAILED if one.deliveries >= self.rules.attempts_max else State.AVAILABLE
