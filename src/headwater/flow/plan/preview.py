"""What Spark and an earlier run say of an app before it runs: columns of its outputs, and what will become of them."""

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.flow.declare.app import App
from headwater.flow.declare.pictures.outline import Outline, OutputPreview, outline
from headwater.flow.declare.topology.graph import Job, plan
from headwater.flow.declare.topology.registered import settle
from headwater.flow.deploy.code_changes import compare
from headwater.flow.deploy.descriptions import descriptions
from headwater.flow.deploy.inventory import checkpoint_of
from headwater.flow.formats.schema import to_ddl
from headwater.flow.plan.explanations import explain
from headwater.flow.plan.resolution import Resolved, resolve_all
from headwater.flow.plan.row_sources import exchanges, row_source


def preview(session: SparkSession, app: App, data: Path) -> Outline:
    """InvalidDeclaration where Spark does not accept what the app declares."""
    settle(app, data)
    jobs = plan(app, explain)
    previews: dict[str, OutputPreview] = {}
    runs: dict[str, tuple[str, ...]] = {}
    for job, resolved in zip(jobs, resolve_all(session, jobs), strict=True):
        previews |= _previews(resolved, app, job, data)
        runs[job.name] = str(row_source(job, resolved)), *exchanges(job, resolved)
    return outline(app, jobs, previews, runs)


def _previews(resolved: Mapping[str, Resolved], app: App, job: Job, data: Path) -> Mapping[str, OutputPreview]:
    folder = checkpoint_of(data, app.name, job.name)
    found = compare(folder, descriptions(job, resolved)) if folder else []
    verdicts = {one.output: (one.what, one.why) for one in found}
    return {
        name: OutputPreview(one.key, to_ddl(one.schema), *verdicts.get(name, ("", "")))
        for name, one in resolved.items()
    }
