"""Crash a log with transactions at calls to its disk, open what is left, and go on as producers would.

The accidents are those of tests/crash/explorer.py: power cuts, kill -9, a second cut in the middle of the recovery;
and the loss of the index of aborted transactions, which is made again from the log.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from random import Random

from headwater.clock import ManualClock
from headwater.log.log import Log
from headwater.log.storage.simulated import Call, SimulatedDisk
from headwater.log.transactions.open_transactions import AbortedBatches
from headwater.record import TopicPartition
from tests.crash.transactions.history import Fate, History, check
from tests.crash.transactions.workload import (
    PLACES,
    TIMEOUT_MS,
    Client,
    Producing,
    Workload,
    began_again,
    look,
    open_log,
)

KILLS, SECOND_CUTS, LOST_INDEXES = 0.3, 0.25, 0.15


@dataclass
class Exploration:
    points: int = 0
    anomalies: list[str] = field(default_factory=list)


class Explorer:
    """`every`: how many calls lie between two crashes; `anomalies_max`: how many are enough."""

    def __init__(self, seed: int, *, steps: int = 50, every: int = 1, anomalies_max: int = 2**31) -> None:
        self._seed, self._steps, self._every, self._anomalies_max = seed, steps, every, anomalies_max
        self._random = Random(seed ^ 0x7A9)
        self._calls, self._recovery_calls = 0, 40
        self._disk = SimulatedDisk(ManualClock(), seed=seed)
        self._workload = Workload(self._disk, seed)
        self.result = Exploration()

    def run(self) -> Exploration:
        self._workload.before_call = self._before
        self._workload.run(self._steps)
        self.result.anomalies += [f"seed {self._seed}: {sentence}" for sentence in self._workload.anomalies]
        return self.result

    def _before(self, call: Call) -> None:
        self._calls += call.changing
        producing = self._workload.producing
        if not call.changing or self._calls % self._every or producing is None:
            return
        if len(self.result.anomalies) >= self._anomalies_max:
            return
        where = f"seed {self._seed}, call {call.number} ({call.operation} {call.path}) of {self._workload.step_name}"
        history, clients = deepcopy((producing.history, producing.clients))
        if self._workload.step_name != "reopen":
            self._note(where, shown(producing.log, history))
        killed = self._random.random() < KILLS
        found = self._disk.kill() if killed else self._disk.crash(self._random)
        where += ", kill -9" if killed else ", power cut"
        if self._random.random() < LOST_INDEXES:
            lose_index(found, self._random.choice(PLACES))
            where += ", index lost"
        second = self._second_cut(found) if self._random.random() < SECOND_CUTS else []
        self._note(where, examine(found, *deepcopy((history, clients)), self._random, producing.values))
        for cut in second:  # filled in while the first was opened
            self._note(
                f"{where}, second cut", examine(cut, *deepcopy((history, clients)), self._random, producing.values)
            )

    def _second_cut(self, disk: SimulatedDisk) -> list[SimulatedDisk]:
        copies: list[SimulatedDisk] = []
        chosen, changes = self._random.randint(1, self._recovery_calls), 0

        def before(call: Call) -> None:
            nonlocal changes
            changes += call.changing
            if call.changing and changes == chosen:
                copies.append(disk.crash(self._random))

        disk.on_call = before
        return copies

    def _note(self, where: str, sentences: list[str]) -> None:
        self.result.points += 1
        self.result.anomalies += [f"{where}: {sentence}" for sentence in sentences]


def lose_index(disk: SimulatedDisk, place: TopicPartition) -> None:
    folder = f"{place.topic}-{place.partition}"
    for name in disk.list(folder) if disk.exists(folder) else ():
        if name.startswith("transactions.json"):
            disk.delete(f"{folder}/{name}")


def shown(log: Log, history: History) -> list[str]:
    """What readers are shown at this moment, by offsets alone. What was shown stays: such a commit is certain."""
    sentences = []
    for transaction in history.transactions:
        for sent in transaction.sent:
            if sent.offset is None or (partition := log.partition(*sent.place)).last_stable_offset <= sent.offset:
                continue
            aborted = AbortedBatches(partition.aborted_between(sent.offset, sent.offset + 1))
            if sent.producer is None or not covered(aborted, sent.producer.id, sent.offset):
                if transaction.fate is Fate.COMMITTING:
                    transaction.fate = Fate.COMMITTED
                elif transaction.fate is not Fate.COMMITTED and not (
                    # Compaction forgets an aborted transaction when nothing of it is left.
                    transaction.fate is Fate.ABORTED and sent.place.topic in history.compacted
                ):
                    stable = partition.last_stable_offset
                    sentences.append(
                        f"{transaction.name} is {transaction.fate}: LSO {stable} of {sent.place} passed it"
                    )
    return sentences


def covered(aborted: AbortedBatches, producer_id: int, offset: int) -> bool:
    ranges = aborted._by_producer.get(producer_id, [])
    return any(one.first_offset <= offset <= one.last_offset for one in ranges)


def examine(disk: SimulatedDisk, history: History, clients: list[Client], random: Random, values: int) -> list[str]:
    """What is wrong with the log on this disk, at first sight and after producers went on."""
    try:
        log = open_log(disk)
        disk.on_call = None
        if {place.topic for place in PLACES} - {topic.name for topic in log.topics()}:
            return []  # it has hardly begun
        sentences = check(history, look(log))
        going_on = GoingOn(Producing(log, history, clients, random, values + 1_000))
        return sentences or going_on.run()
    except Exception as error:  # whatever escapes is what we are looking for
        return [f"{type(error).__name__}: {error}"]


class GoingOn:
    """Producers whose node came back: they ask again for what was not answered, or are replaced."""

    def __init__(self, producing: Producing) -> None:
        self._producing, self._random = producing, producing.random

    def run(self) -> list[str]:
        producing = self._producing
        began_again(producing)
        for client in producing.clients:
            if client.identity is not None:  # or the last of them was perhaps not replaced
                self._wake_zombies(client)
            self._settle(client)
            self._wake_zombies(client)
        self._let_time_pass()
        producing.anomalies += check(producing.history, look(producing.log))
        for client in producing.clients:
            if client.identity is None:
                producing.register(client)
            producing.append(client, self._random.choice(PLACES))
            producing.end(client, commit=True)
        producing.anomalies += check(producing.history, look(producing.log))
        for place in PLACES:
            partition = producing.log.partition(*place)
            if partition.last_stable_offset != partition.end_offset:
                producing.anomalies.append(f"hanging: {place} is stable to {partition.last_stable_offset} for ever")
        return producing.anomalies

    def _wake_zombies(self, client: Client) -> None:
        for zombie in client.zombies[-2:]:
            self._producing.try_as_zombie(client, zombie)

    def _settle(self, client: Client) -> None:
        fate = client.transaction.fate if client.transaction else None
        if client.identity is None:
            self._producing.register(client)
        elif fate is Fate.OPEN:
            self._random.choice((self._commit, self._abort, self._producing.register, self._leave))(client)
        elif fate in (Fate.COMMITTING, Fate.COMMITTED) and client.waits_for_answers:
            self._producing.ask_for_end(client, commit=True)
        elif fate in (Fate.ABORTING, Fate.ABORTED) and client.waits_for_answers:
            self._producing.ask_for_end(client, commit=False)
        else:
            self._producing.register(client)

    def _commit(self, client: Client) -> None:
        self._producing.send_again(client)
        self._producing.end(client, commit=True)

    def _abort(self, client: Client) -> None:
        self._producing.send_again(client)  # or a producer that keeps its epoch would leave a gap in its sequence
        self._producing.end(client, commit=False)

    def _leave(self, client: Client) -> None:
        """To time out."""

    def _let_time_pass(self) -> None:
        clock = self._producing.log.clock
        assert isinstance(clock, ManualClock)
        clock.advance(TIMEOUT_MS + 1)
        self._producing.look_after()
