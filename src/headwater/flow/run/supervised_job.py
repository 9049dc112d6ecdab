"""One job of a running app: its loop, what it holds open, and how it is. Decisions are in supervision.py."""

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from headwater.clock import Clock
from headwater.errors import FlowError, HeadwaterError
from headwater.flow.commit.batch_processor import Decoded, Progress
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.retries import Retries
from headwater.flow.declare.topology.graph import Job
from headwater.flow.plan.batch_loop import BatchLoop
from headwater.flow.plan.explanations import failure_of, sentence
from headwater.flow.plan.resolution import Resolved
from headwater.flow.run.control import Control
from headwater.flow.run.health import HealthFile
from headwater.flow.run.supervision import WARNING_MAX, Event, Failure, Health, State, Warned

POISONED = "poisoned"


@dataclass
class SupervisedJob:
    """All but `progress` and what `raised` notes is done by the thread that calls `RunningApp.wait`."""

    app: str
    job: Job
    columns: Mapping[str, Resolved]
    folder: JobFolder
    control: Control
    clock: Clock
    file: HealthFile = field(init=False)
    health: Health = field(init=False)
    loop: BatchLoop | None = None
    open: ExitStack = field(default_factory=ExitStack)
    """Closes sinks, connections and state: each attempt has its own."""
    raised: BaseException | None = None
    """What the attempt raised before its loop was there."""
    error: HeadwaterError | None = None
    """The failure it is in, as it is reported to the user."""
    due_ms: int | None = None
    """When it is tried again; counted as time that passes."""
    attempt: threading.Thread | None = None
    deployed: bool = False
    """Outputs are what the code says; from then on nothing is rebuilt because it was asked for."""
    ended: bool = False
    """Its loop has done all it had to do."""
    progressed: bool = False
    decoded: dict[str, Decoded] = field(default_factory=dict)
    unwritten: str = ""

    def __post_init__(self) -> None:
        self.file = HealthFile(self.folder.path)
        self.health = self.file.read()

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def paused(self) -> bool:
        return self.control.paused

    @property
    def over(self) -> bool:
        """Nothing more comes of it by itself."""
        return self.ended or (self.health.state == State.FAILED and self.attempt is None and self.due_ms is None)

    def save(self, health: Health) -> None:
        self.health = health
        self.unwritten = self.file.write(health)

    def progress(self, progress: Progress) -> None:
        """Called by the loop, batch by batch."""
        self.progressed = True
        decoded = dict(self.decoded)
        for topic, one in progress.decoded.items():
            decoded[topic] = decoded[topic] + one if topic in decoded else one
        self.decoded = decoded

    # -- what happens to it, each as a sentence ------------------------------------------------------------------------

    def fails(self, error: BaseException, retries: Retries, *, once: bool) -> str:
        """Note a failure and when it is tried again."""
        failure = failure_of(error)
        self.error = error if isinstance(error, HeadwaterError) else _as_ours(self.name, failure)
        if self.error is not error:
            self.error.__cause__ = error
        self.loop, self.raised = None, None
        self.save(self.health.failed(failure, retries, self.clock.now_ms()))
        pause_ms = retries.pause_ms(self.health.attempts)
        self.due_ms = self.clock.elapsed_ms() + pause_ms if self.health.state == State.RETRYING else None
        return self._failure_sentence(pause_ms, once=once)

    def _failure_sentence(self, pause_ms: int, *, once: bool) -> str:
        trouble = self.health.trouble
        assert trouble is not None
        times = "" if trouble.count == 1 else f" ({trouble.count:,} times in a row)"
        said = f"job {self.name} failed{times}: {sentence(trouble.reason)}"
        if self.health.state == State.RETRYING:
            return f"{said} It is tried again in {pause_ms / 1000:g} s."
        if once:
            return said
        restart = f'"headwater flow restart {self.app}.{self.name}"'
        return f"{said} It is not tried again by itself; {restart} does, while the app runs."

    def heals(self) -> str:
        trouble, now_ms = self.health.trouble, self.clock.now_ms()
        self.error = None
        self.save(self.health.healed(now_ms))
        if trouble is None:
            return f"job {self.name} runs again"
        seconds, times = (
            (now_ms - trouble.first_ms) / 1000,
            "once" if trouble.count == 1 else f"{trouble.count:,} times",
        )
        return f"job {self.name} runs again, {seconds:,.0f} s after it first failed; it had failed {times}"

    def warn(self, kind: str, text: str) -> str:
        self.save(self.health.warned(Warned(kind, text, self.clock.now_ms())))
        return f"warning: job {self.name}: {text}"

    def poisoned_wholly(self) -> list[str]:
        """A warning for each topic of which no record could be used; those of which one can by now are withdrawn."""
        useless = {topic: one for topic, one in self.decoded.items() if one.rows and one.poisoned == one.rows}
        texts = {_poisoned_warning(self.app, self.name, topic): one.reason for topic, one in useless.items()}
        known = {one.text for one in self.health.warnings if one.kind == POISONED}
        if known == texts.keys():
            return []
        self.save(self.health.without_warning(POISONED))
        warned = {text: self.warn(POISONED, text) for text in texts}
        return [f"{warned[text]} The first: {sentence(reason)}" for text, reason in texts.items() if text not in known]

    def stop(self) -> None:
        """Give back what it holds; its folder says that no process runs it."""
        self.open.close()
        self.save(self.health.after(Event.STOPPED))


def _poisoned_warning(app: str, job: str, source: str) -> str:
    topic, _, stream = source.partition("/")
    what = f"{topic} as {stream}" if stream else topic
    text = (
        f"no record of {what} could be used so far: all are poisoned. Compare its declared columns and format with its "
        f'records; "headwater consume {app}.{job}.poisoned" shows the reasons.'
    )
    return text[:WARNING_MAX]


def _as_ours(job: str, failure: Failure) -> HeadwaterError:
    return FlowError(f"job {job} stopped: {failure.reason}")
