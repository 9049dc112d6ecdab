"""Find what is to be proved, and prove it."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.errors import FlowError, HeadwaterError, InvalidDeclaration
from headwater.flow.commit.job_context import Environment
from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.app import VIEW, App
from headwater.flow.declare.topology.graph import Job, Planned, plan
from headwater.flow.declare.topology.registered import settle
from headwater.flow.deploy.inventory import checkpoint_of
from headwater.flow.kafka.client import Client
from headwater.flow.local.session import cloned
from headwater.flow.plan.explanations import explain
from headwater.flow.proof.certificate import Certificate, Content, used_versions
from headwater.flow.proof.past_decisions import past_of
from headwater.flow.proof.verification import NOTHING, UNPROVABLE, Verified, Wanted, recomputed, verify
from headwater.flow.session import SPARK_ERRORS
from headwater.views.store import open_store

PROOFS_AT_ONCE = 3
"""Between the stages of one proof cores are idle, and Spark plans on the driver."""


@dataclass(frozen=True)
class Unproved:
    """A view of which nothing can be said, and why."""

    view: str
    why: str
    result: str = UNPROVABLE


@dataclass(frozen=True)
class Checked:
    """A certificate, and what the log says at its position."""

    certificate: Certificate
    content: Content

    @property
    def holds(self) -> bool:
        return self.content == self.certificate.content


def check_each(
    app: App, certificates: Sequence[Certificate], session: SparkSession, data: Path, address: str, *, direct: bool
) -> Iterator[Checked | Unproved]:
    """Recompute what certificates of an app say, in order."""
    settle(app, data)
    known = _views(app)
    for one in certificates:
        _known(app, one.view, known)
    for one in certificates:
        job, planned = known[one.view]
        try:
            with Client(address) as client:
                where = {"data": str(data)} if direct else {"address": address}
                environment = Environment(cloned(session), client, where)
                past = past_of(environment, app.name, job, planned, _checkpoint(app, job, planned, data), one.batch)
                yield Checked(one, recomputed(environment, job, planned, one, past))
        except (HeadwaterError, *SPARK_ERRORS) as error:
            yield _unproved(one.view, error)


def certificate_of(app: str, verified: Verified) -> Certificate | None:
    """None for a view that differs from the log."""
    if verified.content is None:
        return None
    return Certificate(app, verified.view, verified.batch, verified.position, verified.content, used_versions())


def prove_each(
    app: App, names: Sequence[str], session: SparkSession, data: Path, address: str, *, direct: bool,
    wanted: Wanted = NOTHING,
) -> Iterator[Verified | Unproved]:  # fmt: skip
    """Some views of an app, or all, in order; some are computed at once. That one cannot be proved says nothing about
    the next."""
    settle(app, data)
    known = _views(app)
    for name in names:
        _known(app, name, known)

    def proved(name: str) -> Verified | Unproved:
        try:
            return _prove(app, known[name], session, data, address, direct=direct, wanted=wanted)
        except (HeadwaterError, *SPARK_ERRORS) as error:
            return _unproved(name, error)

    with ThreadPoolExecutor(PROOFS_AT_ONCE, thread_name_prefix="headwater-proof") as pool:
        yield from pool.map(proved, names or sorted(known))


def prove(app: App, view: str, session: SparkSession, data: Path, address: str, *, direct: bool) -> Verified:
    """Recompute a view of an app in batch and compare it with what is stored."""
    settle(app, data)
    return _prove(app, _known(app, view, _views(app)), session, data, address, direct=direct)


def _prove(
    app: App, found: tuple[Job, Planned], session: SparkSession, data: Path, address: str, *, direct: bool,
    wanted: Wanted = NOTHING,
) -> Verified:  # fmt: skip
    job, planned = found
    store = open_store(planned.output.store or data, app.name, read_only=True)
    try:
        with Client(address) as client:
            # Views that SQL steps make for a moment, and settings, are those of a session: each proof has its own.
            own = cloned(session)
            environment = Environment(own, client, {"data": str(data)} if direct else {"address": address})
            folder = _checkpoint(app, job, planned, data)
            past = partial(past_of, environment, app.name, job, planned, folder)
            return verify(environment, job, planned, store, folder, past, wanted)
    finally:
        store.close()


def _checkpoint(app: App, job: Job, planned: Planned, data: Path) -> JobFolder:
    folder = checkpoint_of(data, app.name, job.name)
    if folder is None:
        raise FlowError(f"{data} has no checkpoint of job {job.name}, which keeps view {planned.name}", "Run the app.")
    return folder


def _unproved(view: str, error: Exception) -> Unproved:
    return Unproved(view, str(error) if isinstance(error, HeadwaterError) else explain(error))


def _views(app: App) -> dict[str, tuple[Job, Planned]]:
    return {one.name: (job, one) for job in plan(app, explain) for one in job.outputs if one.output.kind == VIEW}


def _known(app: App, view: str, views: Mapping[str, tuple[Job, Planned]]) -> tuple[Job, Planned]:
    if view not in views:
        known = ", ".join(sorted(views)) or "none"
        raise InvalidDeclaration(f"app {app.name} has no view {view}", f"It has: {known}.")
    return views[view]
