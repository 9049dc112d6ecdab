"""What Spark and an earlier run say of an app before it runs: columns of its outputs, and what will become of them."""

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.flow.declare.app import App
from headwater.flow.declare.graph import Job, plan
from headwater.flow.declare.outline import Outline, Told, outline
from headwater.flow.declare.registered import settle
from headwater.flow.formats.schema import to_ddl
from headwater.flow.job.changing import compare
from headwater.flow.job.describing import descriptions
from headwater.flow.job.explaining import explain
from headwater.flow.job.inventory import checkpoint_of
from headwater.flow.job.resolving import resolve


def preview(session: SparkSession, app: App, data: Path) -> Outline:
    """InvalidDeclaration where Spark does not accept what the app declares."""
    settle(app, data)
    jobs = plan(app, explain)
    told: dict[str, Told] = {}
    for job in jobs:
        told |= _told(session, app, job, data)
    return outline(app, jobs, told)


def _told(session: SparkSession, app: App, job: Job, data: Path) -> Mapping[str, Told]:
    resolved = resolve(session, job)
    folder = checkpoint_of(data, app.name, job.name)
    found = compare(folder, descriptions(job, resolved)) if folder else []
    verdicts = {one.output: (one.what, one.why) for one in found}
    return {name: Told(one.key, to_ddl(one.schema), *verdicts.get(name, ("", ""))) for name, one in resolved.items()}
