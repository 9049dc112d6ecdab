"""Jobs that ran without Spark, and are taken over by it.

What a job's code says is kept with its state, so that a change of it is noticed. A PySpark column is kept as the text
that it shows, and one of Spark's shows another text than a local one.
"""

from collections.abc import Callable, Collection

from pyspark.sql import SparkSession

from headwater.flow.commit.job_folder import JobFolder
from headwater.flow.declare.app import App
from headwater.flow.declare.topology.graph import plan
from headwater.flow.deploy.code_changes import KEEP, compare, save
from headwater.flow.deploy.descriptions import descriptions
from headwater.flow.local.columns import local_columns
from headwater.flow.local.session import LocalSession
from headwater.flow.plan.explanations import explain
from headwater.flow.plan.resolution import resolve


def hand_over(app: App, session: SparkSession, names: Collection[str], folder: Callable[[str], JobFolder]) -> None:
    """Keep, of jobs that are what they were when they ran last, what Spark says that they are."""
    with local_columns():
        ran = [job for job in plan(app, explain) if job.name in names and folder(job.name).last_finished()]
        said = {job.name: descriptions(job, resolve(LocalSession.as_spark(), job)) for job in ran}
    unchanged = [name for name, now in said.items() if all(one.what == KEEP for one in compare(folder(name), now))]
    for job in plan(app, explain):
        if job.name in unchanged:
            save(folder(job.name), descriptions(job, resolve(session, job)))
