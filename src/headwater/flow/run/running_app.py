"""An app's jobs, each as a loop of batches that is supervised."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from headwater.clock import Clock, SystemClock
from headwater.errors import HeadwaterError, InvalidDeclaration, JvmEnded, UnavailableError
from headwater.flow.commit.batch_processor import Outputs, Processor, Progress
from headwater.flow.commit.job_context import Environment, JobContext
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.commit.job_identity import identify
from headwater.flow.commit.outputs import opened_once, own_topic_sink, sink_of
from headwater.flow.declare.app import TOPIC, App
from headwater.flow.declare.retries import RETRIES_ONCE, Retries
from headwater.flow.declare.topology.graph import Job, plan
from headwater.flow.declare.topology.naming import accounts_topic, group_of, late_topic, poisoned_topic
from headwater.flow.declare.topology.registered import settle
from headwater.flow.deploy.deployment import Deployment, refuse_foreign_outputs
from headwater.flow.deploy.rebuild import beginning
from headwater.flow.deploy.resharding import finish_resharding
from headwater.flow.executors.masters import executors_elsewhere
from headwater.flow.kafka.client import Client
from headwater.flow.late.replay_batches import ReplayedLate, replay_late
from headwater.flow.plan.batch_loop import BatchLoop
from headwater.flow.plan.explanations import explain
from headwater.flow.plan.processing_time import goes_by_batches
from headwater.flow.plan.resolution import Resolved, resolve, resolve_all
from headwater.flow.run.control import control_of
from headwater.flow.run.handing_over import hand_over, taken
from headwater.flow.run.supervised_job import SupervisedJob
from headwater.flow.run.supervision import Event, State
from headwater.flow.source.reach import address_of_node

ROWS_PER_BATCH = 1_000_000
BYTES_PER_BATCH = 256 * 1024**2
LOOK_MS = 200
CREATED = "topic"
NO_RETRIES = Retries(limit=0)


@dataclass(frozen=True)
class RunSettings:
    data: Path
    address: str
    once: bool = False
    rows_per_batch: int = ROWS_PER_BATCH
    bytes_per_batch: int = BYTES_PER_BATCH
    direct: bool = True
    """Read segment files of the log, which is on this machine."""
    retries: Retries | None = None
    """Other than the app says."""
    state: str = ""
    """Where jobs are kept, if not in the data directory: the URL of a bucket, or a folder."""

    def where(self, app: App | None = None) -> dict[str, str]:
        """The options of the source for the jobs of an app."""
        reach = {"data": str(self.data)} if self.direct else {"address": self.address}
        return {
            **reach,
            "maxRowsPerBatch": str(self.rows_per_batch),
            "maxBytesPerBatch": str(self.bytes_per_batch),
            **({} if app is None else {"onLoss": app.on_loss}),
        }


Watch = Callable[[str, Progress], None]


@contextmanager
def speaking_to_spark() -> Iterator[None]:
    """JvmEnded for all that Spark's Python side raises when the JVM does not answer."""
    try:
        yield
    except Py4JJavaError:
        raise
    except (Py4JError, ConnectionError) as error:
        raise JvmEnded from error


def paused_sentence(app: str, job: str) -> str:
    return f'job {job} is paused; "headwater flow resume {app}.{job}" resumes it'


@dataclass
class RunningApp:
    """Start with `start`, then call `wait` again and again: it starts failed jobs again, and obeys what is asked of
    jobs. It returns when all jobs have ended, or were handed over to another process, and raises the first failure when
    none is left that runs."""

    app: App
    session: SparkSession
    settings: RunSettings
    clock: Clock = field(default_factory=SystemClock)
    watch: Watch = lambda job, progress: None
    report: Callable[[str], None] = lambda sentence: None
    rebuild: frozenset[str] = frozenset()
    """Outputs to rebuild from the log."""
    rollback: frozenset[str] = frozenset()
    """Of these, views that go back to what the last rebuild has replaced."""
    only: frozenset[str] | None = None
    """Jobs to run, where not all of the app are."""
    jobs: dict[str, SupervisedJob] = field(default_factory=dict)
    """All that were started, whether a loop runs for them or not."""
    _keeps_accounts: bool = False
    _ending: ExitStack = field(default_factory=ExitStack)
    _stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def loops(self) -> dict[str, BatchLoop]:
        return {name: one.loop for name, one in self.jobs.items() if one.loop is not None}

    @property
    def failures(self) -> dict[str, HeadwaterError]:
        """Of jobs that fail now, by name."""
        return {name: one.error for name, one in self.jobs.items() if one.error is not None}

    @property
    def warnings(self) -> list[str]:
        return [warning.text for one in self.jobs.values() for warning in one.health.warnings]

    @property
    def retries(self) -> Retries:
        found = self.settings.retries or self.app.retries
        return replace(found, limit=RETRIES_ONCE) if self.settings.once and found.limit is None else found

    def start(self) -> None:
        """Check the whole app, then start a loop for each job. A job that cannot be started does not keep the others
        from it; if none can, the first failure is raised."""
        if unknown := sorted(self.rebuild - self.app.outputs.keys()):
            known = ", ".join(self.app.outputs)
            raise InvalidDeclaration(f"app {self.app.name} has no output {unknown[0]} to rebuild", f"It has: {known}.")
        settle(self.app, self.settings.data)
        planned = [job for job in self._planned() if self._wanted(job)]
        with speaking_to_spark():
            resolved = resolve_all(self.session, planned)
            made = self._make_topics(planned)
            for job, columns in zip(planned, resolved, strict=True):
                folder = self._locked(job)
                control = control_of(folder.path)
                self.jobs[job.name] = SupervisedJob(self.app.name, job, columns, folder, control, self.clock)
            for one in self.jobs.values():
                self._begin(one, made)
        self._raise_if_none_is_left()

    def take_over(self) -> None:
        """Build what has to be rebuilt beside the process that runs the app, then ask that one for its jobs and wait
        until it has let them go. Call `start` after it. It returns at once where no process runs the app."""
        settle(self.app, self.settings.data)
        others = taken(self.settings.data, self.app.name)
        planned = [job for job in plan(self.app, explain) if self._wanted(job)]
        with speaking_to_spark():
            for job in planned:
                folder = next((one for one in others if one.path.name == job.name), None)
                if folder is None or folder.last_finished() is None:
                    continue
                with ExitStack() as open:
                    context, environment = self._context(job, resolve(self.session, job), folder, open)
                    self._deployment(context, environment).build_ahead(self.rebuild)
        hand_over(others, self.settings.data, self.app.name, self.report, self._stopping)

    def _planned(self) -> list[Job]:
        """All jobs of the app. They have one topic for their accounts, which is kept if one of them needs it."""
        jobs = plan(self.app, explain)
        self._keeps_accounts = any(map(goes_by_batches, jobs))
        return jobs

    def _wanted(self, job: Job) -> bool:
        return self.only is None or job.name in self.only

    def _locked(self, job: Job) -> JobFolder:
        folder = JobFolder(self.settings.data / "flows" / self.app.name / job.name)
        folder.lock()
        self._ending.callback(folder.unlock)
        folder.take(place_of(self.settings.state, self.app.name, job.name))
        return folder

    def _begin(self, one: SupervisedJob, made: Mapping[str, str]) -> None:
        if one.paused and not self.settings.once:
            one.save(one.health.begun().after(Event.PAUSED))
            self.report(paused_sentence(self.app.name, one.name))
            return
        one.save(one.health.begun())
        for topic in sorted(made.keys() & set(one.job.topics)):
            self.report(one.warn(CREATED, made[topic]))
        self._attempt(one)
        self._note_attempt(one)

    def processors(self, only: str = "") -> Iterator[Processor]:
        """Of all jobs, or one, for batches that no loop plans."""
        settle(self.app, self.settings.data)
        jobs = [job for job in self._planned() if only in ("", job.name) and self._wanted(job)]
        with speaking_to_spark():
            self._make_topics(jobs)
            for job in jobs:
                yield self.prepare(job, resolve(self.session, job))

    def replay_late(self, only: str = "") -> dict[str, ReplayedLate]:
        """Correct windows by the rows that were late for them, for every job or one; answers by name of the job."""
        return {one.context.job.name: replay_late(one) for one in self.processors(only)}

    def _make_topics(self, jobs: list[Job]) -> dict[str, str]:
        """An app may be started before the first producer is. Answers what is to be said of topics that were made,
        where nothing shows that their names are meant: none of them is captured or written by the app."""
        with Client(self.settings.address) as client:
            there = client.topics()
            missing = sorted({topic for job in jobs for topic in job.topics} - there.keys())
            for topic in missing:
                client.create_topic(topic)
        written = {one.name for one in self.app.outputs.values() if one.kind == TOPIC}
        return {topic: made_sentence(topic, there) for topic in missing if topic not in {*written, *self.app.captures}}

    def prepare(self, job: Job, resolved: Mapping[str, Resolved]) -> Processor:
        """Everything a job needs before its first batch; JobRefused if its checkpoint or outputs are not its own."""
        deployed = self._deployed(job, resolved, self._locked(job), self._ending, self.rebuild)
        return self._processor(*deployed, self._ending)

    def _deployed(
        self, job: Job, resolved: Mapping[str, Resolved], folder: JobFolder, open: ExitStack, rebuild: frozenset[str]
    ) -> tuple[JobContext, Environment]:
        """The job, with state and outputs as its code says now."""
        finish_resharding(folder)
        context, environment = self._context(job, resolved, folder, open)
        # Only now: a folder without an identity has no checkpoint.
        folder.take_over(lambda end: beginning(environment.client, end))
        folder.last_planned()
        self._deployment(context, environment).settle(rebuild)
        return context, environment

    def _context(
        self, job: Job, resolved: Mapping[str, Resolved], folder: JobFolder, open: ExitStack
    ) -> tuple[JobContext, Environment]:
        app, client = self.app.name, Client(self._address())
        open.callback(client.close)
        environment = Environment(self.session, client, self._where(), self.clock)
        identity = identify(folder, app=app, job=job.name, cluster=client.cluster_id(), shards=self._shards())
        return JobContext(app, job, resolved, identity, folder), environment

    def _where(self) -> dict[str, str]:
        """The cores of a cluster are not those of this machine."""
        context, where = self.session.sparkContext, self.settings.where(self.app)
        if not executors_elsewhere(str(context.master)):
            return where
        return {**where, "tasks": str(max(1, int(context.defaultParallelism)))}

    def _deployment(self, context: JobContext, environment: Environment) -> Deployment:
        rows, data = self.settings.rows_per_batch, self.settings.data
        return Deployment(context, environment, rows, data, self.report, self.rollback)

    def _processor(
        self, context: JobContext, environment: Environment, open: ExitStack,
        watch: Callable[[Progress], None] = lambda progress: None,
    ) -> Processor:  # fmt: skip
        outputs = self._outputs(context, environment.client, open)
        refuse_foreign_outputs(context, outputs.sinks)
        processor = Processor(context, environment, outputs, watch=watch)
        open.callback(processor.close)
        return processor

    def _address(self) -> str:
        """A node that was restarted may answer at another port."""
        if not self.settings.direct:
            return self.settings.address
        try:
            return address_of_node(self.settings.data)
        except UnavailableError:
            return self.settings.address

    def _outputs(self, context: JobContext, client: Client, open: ExitStack) -> Outputs:
        app, job, folder = context.app, context.job, context.folder
        sinks, stores = {}, opened_once()
        for one in job.outputs:
            sinks[one.name] = sink_of(
                context, one, data=self.settings.data, client=client, stopping=self._stopping, stores=stores
            )
            open.callback(sinks[one.name].close)
        poisoned = own_topic_sink(poisoned_topic(app, job.name), folder, client)
        # Proofs rest on which rows were late and, of some results, on which came in one batch.
        accounts = own_topic_sink(accounts_topic(app), folder, client, kept=self._keeps_accounts)
        late = own_topic_sink(late_topic(app, job.name), folder, client, kept=True)
        return Outputs(sinks, poisoned, late, accounts, group_of(app, job.name))

    def _loop(self, one: SupervisedJob, processor: Processor) -> BatchLoop:
        loop = BatchLoop(processor, once=self.settings.once)
        loop.start()
        return loop

    def _shards(self) -> int:
        """A power of two: so a shard of state is a partition of Spark's shuffle (operate/shard_task.py)."""
        wanted = self.app.shards or int(self.session.sparkContext.defaultParallelism) or os.cpu_count() or 1
        return 1 << max(0, wanted - 1).bit_length()

    # -- attempts ------------------------------------------------------------------------------------------------------

    def _attempt(self, one: SupervisedJob) -> None:
        """Start the job from what is on the disk: nothing of an attempt before is used again."""

        def watch(progress: Progress) -> None:
            one.progress(progress)
            self.watch(one.name, progress)
            for note in progress.notes:
                self.report(f"job {one.name}, {note}")

        one.raised, one.progressed, one.ended = None, False, False
        rebuild = frozenset[str]() if one.deployed else self.rebuild
        try:
            one.open.close()
            one.folder.refresh()
            context, environment = self._deployed(one.job, one.columns, one.folder, one.open, rebuild)
            one.deployed = True
            one.loop = self._loop(one, self._processor(context, environment, one.open, watch))
        except Exception as error:  # noqa: BLE001  whatever it is: it is reported, as the failure of this job only
            one.raised = error

    def _attempt_beside(self, one: SupervisedJob) -> None:
        """On a thread of its own: a database that does not answer keeps only its own job waiting."""

        def attempt() -> None:
            with suppress(SystemExit):  # a callback may be asked to end
                self._attempt(one)

        one.due_ms = None
        # Unlike others, such a thread closes its connection to the JVM when it ends.
        with speaking_to_spark():
            one.attempt = InheritableThread(attempt, name=f"headwater-attempt-{one.name}", daemon=True)
        one.attempt.start()

    def _note_attempt(self, one: SupervisedJob) -> None:
        if one.raised is not None and one.loop is None:
            self._failed(one, one.raised)

    def _check_jvm(self) -> None:
        """JvmEnded if it has."""
        with speaking_to_spark():
            if not self.session.version:  # it asks the JVM
                raise JvmEnded

    def _failed(self, one: SupervisedJob, error: BaseException) -> None:
        if isinstance(error, JvmEnded | Py4JError | ConnectionError):
            self._check_jvm()
        failure = one.fails(error, self.retries, once=self.settings.once)
        others = sum(not other.over for other in self.jobs.values() if other is not one)
        if others:
            self.report(f"{failure} The other {'job continues' if others == 1 else 'jobs continue'}.")
        elif not one.over:
            self.report(failure)  # else the failure is raised, and reported by the caller
        if one.unwritten:
            self.report(f"the reason is only shown here: {one.unwritten}")

    # -- supervision ---------------------------------------------------------------------------------------------------

    def obey(self) -> None:
        """Pause, resume, restart and hand over jobs as it was asked. Not where all that is there is to be done once."""
        if self.settings.once:
            return
        for one in list(self.jobs.values()):
            asked = control_of(one.folder.path)
            if asked == one.control or one.attempt is not None:
                continue
            if not one.paused:
                self._end_loop(one)
            if asked.handovers != one.control.handovers:
                self._let_go(one)
                continue
            one.control, one.due_ms = asked, None
            if asked.paused:
                one.save(one.health.after(Event.PAUSED))
                self.report(paused_sentence(self.app.name, one.name))
            else:
                one.save(one.health.resumed())
                self.report(f"job {one.name} resumes")
                self._attempt_beside(one)

    def _let_go(self, one: SupervisedJob) -> None:
        """Another process goes on with the job; from here on nothing is written into its folder."""
        one.stop()
        del self.jobs[one.name]
        one.folder.unlock()
        self.report(f"job {one.name} is handed over to the run that takes app {self.app.name} over")

    def _end_loop(self, one: SupervisedJob) -> None:
        """Between two batches, so that none has to be run again."""
        if one.loop is not None:
            one.loop.stop()
        one.loop, one.raised, one.error = None, None, None
        one.open.close()

    def wait(self, seconds: float | None = None) -> bool:
        """Did all jobs end within the time? Raises the first failure when no job is left that runs, or will. A job that
        is paused has not ended."""
        deadline_ms = None if seconds is None else self.clock.elapsed_ms() + round(1000 * seconds)
        try:
            while True:
                self.obey()
                self._check_jvm()
                for one in self.jobs.values():
                    self._look_at(one)
                if all(one.over for one in self.jobs.values()):
                    self._raise_if_none_is_left()
                    return True
                left_ms = LOOK_MS if deadline_ms is None else deadline_ms - self.clock.elapsed_ms()
                if left_ms <= 0 or self._stopping.is_set():
                    return False
                self._pause(min(left_ms, LOOK_MS) / 1000)
        except JvmEnded as error:
            for one in self.jobs.values():
                if one.health.state in (State.RUNNING, State.RETRYING):
                    one.fails(error, NO_RETRIES, once=self.settings.once)
            raise

    def _look_at(self, one: SupervisedJob) -> None:
        one.file.touch(self.clock.elapsed_ms())
        if one.attempt is not None:
            if one.attempt.is_alive():
                return
            one.attempt = None
            self._note_attempt(one)
        if one.loop is not None:
            self._look_at_loop(one, one.loop)
        for warning in one.poisoned_wholly():
            self.report(warning)
        if one.due_ms is not None and self.clock.elapsed_ms() >= one.due_ms:
            self._attempt_beside(one)

    def _look_at_loop(self, one: SupervisedJob, loop: BatchLoop) -> None:
        active = loop.active  # before its error is looked at: it notes that first
        if loop.error is not None:
            self._failed(one, loop.error)
            return
        if not active:
            one.loop, one.ended = None, True
        if one.health.state == State.RETRYING and (one.progressed or loop.idle or one.ended):
            self.report(one.heals())

    def _pause(self, seconds: float) -> None:
        """Less if a job ends before."""
        if not self.loops:
            self._stopping.wait(seconds)
            return
        next(iter(self.loops.values())).wait(seconds)

    def _raise_if_none_is_left(self) -> None:
        failures = self.failures
        if failures and all(one.over for one in self.jobs.values()):
            raise next(iter(failures.values()))

    def stop(self) -> None:
        """Let the batches under way end, and give everything back."""
        self._stopping.set()
        for one in self.jobs.values():
            if one.attempt is not None:
                one.attempt.join()
        for loop in self.loops.values():
            loop.stop_soon()
        for one in self.jobs.values():
            if one.loop is not None:
                one.loop.stop()  # whole, its batch need not be run again
            one.stop()
        self._ending.close()


def place_of(state: str, app: str, job: str) -> str:
    """Where a job is kept.

    >>> place_of("s3://bucket/flows/", "shop", "orders"), place_of("", "shop", "orders")
    ('s3://bucket/flows/shop/orders', '')
    """
    if not state:
        return ""
    whole = state if "://" in state else os.path.abspath(state)
    return f"{whole.rstrip('/')}/{app}/{job}"


def made_sentence(topic: str, there: Iterable[str]) -> str:
    """
    >>> made_sentence("ordres", ["orders", "shop.accounts", "users"])
    'topic ordres did not exist and was made, empty. If the name is a mistake: did you mean orders?'
    """
    near = get_close_matches(topic, there, n=1)
    meant = f"did you mean {near[0]}?" if near else "it is where the app says app.stream or app.table."
    return f"topic {topic} did not exist and was made, empty. If the name is a mistake: {meant}"
