"""Small charts as SVG: bars or a line over time, one panel below the other."""

from dataclasses import dataclass, field
from html import escape

WIDTH, PANEL, LEFT, RIGHT, TOP, BOTTOM = 720, 130, 44, 28, 40, 34
INK, FAINT, BAR, MARK, SHADE = "#24292f", "#d0d7de", "#0969da", "#cf222e", "#fff1e5"
FONT = 'font-family="system-ui, DejaVu Sans, sans-serif" font-size="12"'

Point = tuple[float, float]


@dataclass(frozen=True)
class Panel:
    """Values over time. `bars` are as wide as `step`; `line` is drawn over them, `marked` times stand out."""

    title: str
    bars: list[Point]
    step: float
    line: list[Point] = field(default_factory=list)
    marked: frozenset[float] = frozenset()


@dataclass(frozen=True)
class Chart:
    title: str
    panels: list[Panel]
    first: float
    last: float
    ticks: list[tuple[float, str]]
    shaded: tuple[float, float, str] | None = None
    one_scale: bool = False
    """All panels go up to the same value."""

    def svg(self) -> str:
        height = TOP + len(self.panels) * (PANEL + BOTTOM) + 8
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="{escape(self.title, quote=True)}" {FONT}>',
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            _text(LEFT, 20, self.title, weight="bold"),
        ]
        for number, panel in enumerate(self.panels):
            parts += self._panel(panel, TOP + number * (PANEL + BOTTOM))
        return "\n".join([*parts, "</svg>", ""])

    def _x(self, time: float) -> float:
        return round(LEFT + (time - self.first) / (self.last - self.first) * (WIDTH - LEFT - RIGHT), 1)

    def _panel(self, panel: Panel, top: int) -> list[str]:
        measured = self.panels if self.one_scale else [panel]
        most = max(value for one in measured for _, value in (*one.bars, *one.line))
        floor, room = top + PANEL, PANEL - 22

        def y(value: float) -> float:
            return round(floor - value / most * room, 1)

        parts = [*self._shade(top, floor), _text(LEFT, top + 12, panel.title)]
        for start, value in panel.bars:
            x, width = self._x(start), max(0.5, self._x(start + panel.step) - self._x(start) - 1)
            color = MARK if start in panel.marked else BAR
            parts.append(
                f'<rect x="{x}" y="{y(value)}" width="{width:.1f}" height="{floor - y(value):.1f}" fill="{color}"/>'
            )
        if panel.line:
            points = " ".join(f"{self._x(time)},{y(value)}" for time, value in panel.line)
            parts.append(f'<polyline points="{points}" fill="none" stroke="{INK}" stroke-width="1.5"/>')
        for value in (0, most):
            parts.append(_text(LEFT - 6, y(value) + 4, f"{value:,.0f}" if most >= 10 else f"{value:.1f}", anchor="end"))
        parts.append(f'<line x1="{LEFT}" y1="{floor}" x2="{WIDTH - RIGHT}" y2="{floor}" stroke="{INK}"/>')
        for time, name in self.ticks:
            x = self._x(time)
            parts.append(f'<line x1="{x}" y1="{floor}" x2="{x}" y2="{floor + 4}" stroke="{INK}"/>')
            parts.append(_text(x, floor + 17, name, anchor="middle"))
        return parts

    def _shade(self, top: int, floor: int) -> list[str]:
        if self.shaded is None:
            return []
        first, last, name = self.shaded
        x, width = self._x(first), self._x(last) - self._x(first)
        band = f'<rect x="{x}" y="{top + 18}" width="{width:.1f}" height="{floor - top - 18}" fill="{SHADE}"/>'
        return [band, _text(x + width / 2, top + 32, name, anchor="middle")]


def _text(x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{round(x, 1)}" y="{round(y, 1)}" text-anchor="{anchor}" font-weight="{weight}" fill="{INK}">'
        f"{escape(words)}</text>"
    )
