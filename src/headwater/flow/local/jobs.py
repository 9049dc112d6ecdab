"""Which jobs of an app can run without Spark, and why others cannot."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headwater.errors import HeadwaterError
from headwater.flow.declare.app import App
from headwater.flow.declare.topology.graph import Job, plan
from headwater.flow.declare.topology.nodes import Apply, Lesson, Sql, walk
from headwater.flow.expressions.tree import Untranslatable
from headwater.flow.local.columns import local_columns
from headwater.flow.local.session import LocalSession
from headwater.flow.plan.explanations import explain
from headwater.flow.plan.resolution import resolve

NOT_YET = {Sql: "a query in SQL", Apply: "a function of frames", Lesson: "k-means"}
"""Steps and operators whose rows only Spark moves."""


@dataclass(frozen=True)
class LocalJobs:
    """`names` are the jobs that need no Spark; `reasons` says of each output of the others why they do."""

    names: frozenset[str] = frozenset()
    reasons: Mapping[str, str] = field(default_factory=dict)


def local_jobs(app: App, known: Mapping[str, str]) -> LocalJobs:
    """`known` are jobs of which it turned out while they ran that they need Spark, and why."""
    with local_columns():
        try:
            jobs = plan(app, explain)
        except Exception as error:  # noqa: BLE001  whatever it is: it is raised, or not, with Spark
            return LocalJobs(reasons=dict.fromkeys(app.outputs, reason_of(error)))
        found = {job: known.get(job.name) or _needs(job) for job in jobs}
    reasons = {one.name: why for job, why in found.items() if why for one in job.outputs}
    return LocalJobs(frozenset(job.name for job, why in found.items() if not why), reasons)


def _needs(job: Job) -> str:
    """What of a job only Spark can do; nothing if it can run without."""
    for planned in job.outputs:
        for node in walk(planned.node):
            for kind, said in NOT_YET.items():
                if isinstance(node, kind):
                    return f"{planned.name} has {said}"
    try:
        resolve(LocalSession.as_spark(), job)
    except Exception as error:  # noqa: BLE001
        return reason_of(error)
    return ""


def reason_of(error: BaseException) -> str:
    """What Spark is needed for, of an error that says so somewhere; else that Spark has to decide on it."""
    for one in _causes(error):
        if isinstance(one, Untranslatable):
            return str(one)
    said = str(error) if isinstance(error, HeadwaterError) else explain(error)
    return f"only it can say whether this is a mistake: {said}"


def _causes(error: BaseException) -> Iterable[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def is_untranslatable(error: BaseException) -> bool:
    return any(isinstance(one, Untranslatable) for one in _causes(error))
