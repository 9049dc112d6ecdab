"""How a run of the shop ended: is every row accounted for, and is every view what the log says? (pure)"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.flow.commit.accounts import Account
from headwater.flow.proof.verification import Verified


@dataclass(frozen=True)
class Verdict:
    accounts: Mapping[str, Account]
    """By output: all its batches added up."""
    proofs: Sequence[Verified]
    """One for every view."""
    views: frozenset[str]
    """Those that there have to be."""

    @property
    def out_of_balance(self) -> list[str]:
        """Outputs whose rows do not add up, or that had none: then nothing was shown."""
        return [name for name, account in self.accounts.items() if not account.balanced or not account.rows_in]

    @property
    def unproved(self) -> list[str]:
        """Views that differ from the log, or that were not compared."""
        proved = {one.view for one in self.proofs if not one.different}
        return sorted(self.views - proved)

    @property
    def good(self) -> bool:
        return bool(self.accounts) and not self.out_of_balance and not self.unproved

    def to_json(self) -> dict[str, Any]:
        return {
            "accounts": {name: {**one.to_json(), "balanced": one.balanced} for name, one in self.accounts.items()},
            "views": {one.view: {"rows": one.rows, "different": one.different} for one in self.proofs},
            "out_of_balance": self.out_of_balance,
            "unproved": self.unproved,
            "good": self.good,
        }
