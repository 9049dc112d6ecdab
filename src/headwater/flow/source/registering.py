"""The option `registry` of the source: its schema is asked for once, where Spark plans, and handed to the tasks."""

from collections.abc import Mapping
from pathlib import Path

from headwater.errors import InvalidSetting
from headwater.flow.formats.schema import parse_ddl
from headwater.flow.registry.client import RegistryClient
from headwater.flow.registry.describing import KINDS, describe

FORMAT = "format."


def with_registered(given: Mapping[str, str]) -> dict[str, str]:
    """Options in which the registry's answer stands instead of the question; the same if nothing was asked."""
    said = {name.lower(): value for name, value in given.items()}
    if "registry" not in said:
        return dict(given)
    topics = [name.strip() for name in said.get("topic", "").split(",") if name.strip()]
    if len(topics) != 1:
        raise InvalidSetting("registry", said["registry"], "it goes with one topic, which names the subject")
    format = said.get("format", "avro")
    if format not in KINDS:
        raise InvalidSetting("format", format, f"a registry has schemas for {', '.join(KINDS)}")
    where = said["registry"] or (str(Path(said["data"]).absolute()) if "data" in said else "")
    if not where:
        raise InvalidSetting("registry", "", "say its URL, or in the option data where the node is")
    own = {name.removeprefix(FORMAT): value for name, value in said.items() if name.startswith(FORMAT)}
    declared = parse_ddl(said["schema"]) if "schema" in said else None
    found = describe(RegistryClient(where, patience_seconds=0), topics[0], format, own, declared)
    rest = {
        name: value
        for name, value in given.items()
        if name.lower() not in ("registry", "schema", "format") and not name.lower().startswith(FORMAT)
    }
    options = {f"{FORMAT}{name}": value for name, value in found.options.items()}
    return {**rest, **options, "format": format, "schema": found.schema.ddl}
