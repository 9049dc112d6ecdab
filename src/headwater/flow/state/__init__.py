"""Versioned state of operators, in shards: load version b − 1, look up, write what changed, commit version b."""

from headwater.flow.state.background import BackgroundMerger
from headwater.flow.state.inspecting import ShardSummary, VersionSummary, describe, show
from headwater.flow.state.manifest import DELETED, EMPTY, HASH, Manifest, RunInfo, StateSchema
from headwater.flow.state.resharding import reshard
from headwater.flow.state.runs.merge_plan import MergePlan, plan_merge
from headwater.flow.state.runs.open_runs import open_files
from headwater.flow.state.shard import Found, ShardState, StateHandle, shard_of
from headwater.flow.state.store import StateStore

__all__ = [
    "DELETED",
    "EMPTY",
    "HASH",
    "BackgroundMerger",
    "Found",
    "Manifest",
    "MergePlan",
    "RunInfo",
    "ShardState",
    "ShardSummary",
    "StateHandle",
    "StateSchema",
    "StateStore",
    "VersionSummary",
    "describe",
    "open_files",
    "plan_merge",
    "reshard",
    "shard_of",
    "show",
]
