"""How a run of the shop ended: is every row accounted for, and is every view what the log says? (pure)"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.flow.commit.accounts import Account
from headwater.flow.proof.verification import RESTS_ON_LATE, Verified


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
        """Views that differ from the log, or that were not compared. Those that rest on late rows are accepted: the
        shop's customers send some events after their windows are closed, on purpose."""
        proved = {one.view for one in self.proofs if not one.different}
        return sorted(self.views - proved)

    @property
    def resting_on_late(self) -> list[str]:
        """Views that are what the log says without the rows declared late, and would be otherwise with them."""
        return sorted(one.view for one in self.proofs if one.result == RESTS_ON_LATE)

    @property
    def good(self) -> bool:
        return bool(self.accounts) and not self.out_of_balance and not self.unproved

    def views_in_words(self) -> str:
        """What the proofs of good books say."""
        late = self.resting_on_late
        proved = len(self.proofs) - len(late)
        words = f"{proved} {'view is' if proved == 1 else 'views are'} exactly what the log says"
        if not late:
            return f"and {words}"
        others = f"{len(late)} ({', '.join(late)}) {'is' if len(late) == 1 else 'are'} what it says without rows"
        return f"{words}, and {others} that were late. The demo sends some late on purpose, and accepts that"

    def to_json(self) -> dict[str, Any]:
        return {
            "accounts": {name: {**one.to_json(), "balanced": one.balanced} for name, one in self.accounts.items()},
            "views": {
                one.view: {"rows": one.rows, "different": one.different, "result": one.result, "late": one.late}
                for one in self.proofs
            },
            "out_of_balance": self.out_of_balance,
            "unproved": self.unproved,
            "resting_on_late": self.resting_on_late,
            "good": self.good,
        }
