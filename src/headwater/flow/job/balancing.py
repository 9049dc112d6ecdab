"""The accounts of a batch: for every output, what was read for it and what became of that."""

from collections.abc import Mapping

from headwater.errors import FlowError
from headwater.flow.declare.graph import Job, Planned
from headwater.flow.declare.nodes import Dedupe, Node, Source, lane_of
from headwater.flow.job.accounts import Account
from headwater.flow.job.collecting import Collected
from headwater.flow.job.evaluating import Evaluation
from headwater.flow.job.merging import Told
from headwater.flow.job.roots import Root, roots_of
from headwater.flow.source.staging import Staged


def accounts_of(
    job: Job, evaluation: Evaluation, collected: Mapping[str, Collected], told: list[Told], staged: list[Staged],
    admitted: Mapping[Node, int],
) -> dict[str, Account]:  # fmt: skip
    """FlowError if the accounts of one do not balance. `admitted` were late before, and are no longer."""
    ended: dict[Node, Account] = dict.fromkeys(job.operators, Account())
    nodes = {name: node for node, name in job.operators.items()}
    for one in told:
        ended[nodes[one.operator]] += Account(rows_out=one.rows, duplicates=one.duplicates, late=one.late)
    read = {source: _read(source, staged) for source in job.sources}
    accounts = {}
    for planned in job.outputs:
        account = Account()
        for root in roots_of(planned):
            account += ended[root.node] if root.stateful else Account(rows_out=len(collected[planned.name].rows))
            account += _on_the_way(evaluation, root, read, ended)
            back = admitted.get(root.node, 0)
            account += Account(rows_out=back, late=-back)
        accounts[planned.name] = _checked(planned, account)
    return accounts


def _on_the_way(
    evaluation: Evaluation, root: Root, read: Mapping[Source, Account], ended: Mapping[Node, Account]
) -> Account:
    """What was read for it, and what left on the way to it."""
    account = Account()
    for source in root.paths():
        account += read[source]
    for node in root.passed():
        account += _counted(evaluation, node)
        account += Account(duplicates=ended[node].duplicates, late=ended[node].late)
    # What leaves before a stream of first rows is counted for that, also where it is the output itself.
    return account if isinstance(root.node, Dedupe) else account + _counted(evaluation, root.node)


def _counted(evaluation: Evaluation, node: Node) -> Account:
    totals = evaluation.counter(node).totals()
    gone = max(0, totals["before"] - totals["after"])
    more = max(0, totals["after"] - totals["before"])
    return Account(
        filtered=totals["filtered"] + gone, expanded=totals["expanded"] + more, duplicates=totals["duplicates"],
        late=totals["late"],
    )  # fmt: skip


def _checked(planned: Planned, account: Account) -> Account:
    if not account.balanced:
        raise FlowError(
            f"the accounts of {planned.output} do not balance: {account}",
            "This is a bug in headwater; nothing of the batch was written. Please report it with this sentence.",
        )
    return account


def _read(source: Source, staged: list[Staged]) -> Account:
    own = [one.counts for one in staged if one.range.topic == lane_of(source)]
    return Account(
        rows_in=sum(counts.rows for counts in own),
        poisoned=sum(counts.poisoned for counts in own),
        lost=sum(counts.lost for counts in own),
    )
