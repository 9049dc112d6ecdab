"""A picture of boxes and arrows as SVG, written by hand: columns from left to right, each box right of its inputs.

An arrow that passes a column is led through a gap between its boxes, as if there were a thin box on its way.
"""

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from xml.sax import saxutils

from headwater.flow.declare.pictures.picture import (
    OPERATOR_BOX,
    SINK_BOX,
    SOURCE_BOX,
    STEP_BOX,
    TOPIC_BOX,
    VIEW_BOX,
    Box,
    Picture,
)

BOX_WIDTH, COLUMN_GAP, ROW_GAP, MARGIN = 236, 56, 20, 24
LINE_HEIGHT, PADDING = 17, 10
LINE_CHARACTERS, LINES_MAX = 36, 6
WAYPOINT_HEIGHT = 4

TEXT, QUIET, LINE = "#1c2430", "#4a5566", "#7d8899"
FILLS = {
    TOPIC_BOX: "#dcebfa",
    SOURCE_BOX: "#f1f4f8",
    STEP_BOX: "#ffffff",
    OPERATOR_BOX: "#fdf0cd",
    VIEW_BOX: "#dff3e3",
    SINK_BOX: "#efe4f5",
}
ROUND = {TOPIC_BOX: 14, VIEW_BOX: 14}

FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")
"""What XML cannot hold, not even escaped."""


def escape(text: str) -> str:
    return saxutils.escape(FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text))


@dataclass
class Spot:
    """Where a box lies, or where an arrow passes a column (then it has no box)."""

    id: str
    column: int
    box: Box | None
    top: float = 0
    order: float = 0

    @property
    def lines(self) -> list[str]:
        return wrapped(self.box) if self.box else []

    @property
    def height(self) -> float:
        return 2 * PADDING + LINE_HEIGHT * (1 + len(self.lines)) if self.box else WAYPOINT_HEIGHT

    @property
    def left(self) -> float:
        return MARGIN + self.column * (BOX_WIDTH + COLUMN_GAP)

    @property
    def middle(self) -> float:
        return self.top + self.height / 2


def as_svg(picture: Picture) -> str:
    columns = columns_of(picture)
    spots = {box.id: Spot(box.id, columns[box.id], box) for box in picture.boxes}
    routes = [_route(start, end, spots) for start, end in picture.arrows]
    _place(spots, routes)
    width = MARGIN + max(spot.left + BOX_WIDTH for spot in spots.values())
    height = 2 * MARGIN + LINE_HEIGHT + max(spot.top + spot.height for spot in spots.values())
    parts = [_head(picture.title, width, height)]
    parts += [_arrow([spots[id] for id in route]) for route in routes]
    parts += [_box(spot) for spot in spots.values() if spot.box]
    return "\n".join([*parts, "</g>", "</svg>"])


def columns_of(picture: Picture) -> dict[str, int]:
    """Each box one column to the right of the rightmost of its inputs."""
    inputs: dict[str, list[str]] = {box.id: [] for box in picture.boxes}
    for start, end in picture.arrows:
        inputs[end].append(start)
    found: dict[str, int] = {}

    def column(id: str) -> int:
        if id not in found:
            found[id] = max((column(one) + 1 for one in inputs[id]), default=0)
        return found[id]

    return {box.id: column(box.id) for box in picture.boxes}


def wrapped(box: Box) -> list[str]:
    """The lines of a box below its title, as many as fit; all of it is in the tooltip."""
    lines = [part for line in box.lines for part in textwrap.wrap(line, LINE_CHARACTERS)]
    return lines if len(lines) <= LINES_MAX else [*lines[: LINES_MAX - 1], "…"]


def _route(start: str, end: str, spots: dict[str, Spot]) -> list[str]:
    """The spots an arrow passes, from box to box; those between are added."""
    route = [start]
    for column in range(spots[start].column + 1, spots[end].column):
        spot = Spot(f"{start}-{end}-{column}", column, None)
        spots[spot.id] = spot
        route.append(spot.id)
    return [*route, end]


def _place(spots: Mapping[str, Spot], routes: list[list[str]]) -> None:
    """Column by column: each spot at the height of what it is made from, as far as there is room."""
    before: dict[str, list[str]] = {id: [] for id in spots}
    for route in routes:
        for one, other in pairwise(route):
            before[other].append(one)
    for column in range(1 + max(spot.column for spot in spots.values())):
        own = [spot for spot in spots.values() if spot.column == column]
        for place, spot in enumerate(own):
            middles = [spots[id].middle for id in before[spot.id]]
            spot.order = sum(middles) / len(middles) if middles else float(place)
        own.sort(key=lambda spot: spot.order)
        bottom = float(MARGIN + LINE_HEIGHT)
        for spot in own:
            wanted = spot.order - spot.height / 2 if before[spot.id] else bottom
            spot.top = max(bottom, wanted)
            bottom = spot.top + spot.height + ROW_GAP


def _head(title: str, width: float, height: float) -> str:
    arrow = '<path d="M0,0 L8,4 L0,8 z" fill="{}"/>'.format(LINE)  # noqa: UP032  braces would have to be doubled
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" role="img">',
            f"<title>{escape(title)}</title>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
            f'orient="auto">{arrow}</marker></defs>',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<g font-family="Helvetica, Arial, sans-serif" font-size="12" fill="{TEXT}">',
            f'<text x="{MARGIN}" y="{MARGIN}" font-size="15" font-weight="bold">{escape(title)}</text>',
        ]
    )


def _arrow(route: list[Spot]) -> str:
    x, y = route[0].left + BOX_WIDTH, route[0].middle
    path = f"M{x:.0f},{y:.0f}"
    for spot in route[1:]:
        half = COLUMN_GAP / 2
        path += f" C{x + half:.0f},{y:.0f} {spot.left - half:.0f},{spot.middle:.0f} {spot.left:.0f},{spot.middle:.0f}"
        x, y = spot.left, spot.middle
        if spot.box is None:
            x += BOX_WIDTH
            path += f" H{x:.0f}"
    return f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.4" marker-end="url(#head)"/>'


def _box(spot: Spot) -> str:
    box = spot.box
    assert box is not None
    whole = "\n".join([box.title, *box.lines])
    lines = [
        f"<g><title>{escape(whole)}</title>",
        f'<rect x="{spot.left:.0f}" y="{spot.top:.0f}" width="{BOX_WIDTH}" height="{spot.height:.0f}" '
        f'rx="{ROUND.get(box.kind, 4)}" fill="{FILLS[box.kind]}" stroke="{LINE}"/>',
        _text(spot, 0, box.title, 'font-weight="bold"'),
        *(_text(spot, place, line, f'fill="{QUIET}"') for place, line in enumerate(spot.lines, 1)),
        "</g>",
    ]
    return "\n".join(lines)


def _text(spot: Spot, line: int, text: str, style: str) -> str:
    short = text if len(text) <= LINE_CHARACTERS else f"{text[: LINE_CHARACTERS - 1]}…"
    y = spot.top + PADDING + LINE_HEIGHT * (line + 1) - 5
    return f'<text x="{spot.left + PADDING:.0f}" y="{y:.0f}" {style}>{escape(short)}</text>'
