"""Every row accounted for: what came in is what went out, was filtered, came late, or could not be read.

    in + expanded = out + filtered + duplicates + late + poisoned

`in` and `poisoned` are counted where records are decoded, `filtered` and `duplicates` where rows leave a flow, `out` at
its far end. They are counted in different processes by different code, so that the sum is a check and no definition.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Account:
    """One output and one batch (or many, added up)."""

    rows_in: int = 0
    expanded: int = 0
    rows_out: int = 0
    filtered: int = 0
    duplicates: int = 0
    late: int = 0
    poisoned: int = 0
    lost: int = 0
    """Offsets that retention had removed before they were read, where the user allows that; not part of `in`."""
    expired: int = 0
    """Keys whose state has ended (keep=); no rows, and so no part of the balance."""

    @property
    def balanced(self) -> bool:
        left = self.rows_out + self.filtered + self.duplicates + self.late + self.poisoned
        return self.rows_in + self.expanded == left

    def __add__(self, other: "Account") -> "Account":
        mine, theirs = asdict(self), asdict(other)
        return replace(self, **{name: mine[name] + theirs[name] for name in mine})

    def __str__(self) -> str:
        parts = [f"{self.rows_out:,} out"]
        for name in ("filtered", "duplicates", "late", "poisoned", "lost", "expired"):
            if count := getattr(self, name):
                parts.append(f"{count:,} {name}")
        return f"{self.rows_in:,} in: {', '.join(parts)}"

    def to_json(self) -> dict[str, Any]:
        return {"in": self.rows_in, "out": self.rows_out, **{k: v for k, v in asdict(self).items() if "rows" not in k}}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> "Account":
        return cls(rows_in=row["in"], rows_out=row["out"], **{k: v for k, v in row.items() if k not in ("in", "out")})
