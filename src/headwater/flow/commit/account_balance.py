"""The accounts of a batch: for every output, what was read for it and what became of that."""

from collections.abc import Mapping
from dataclasses import replace

from headwater.errors import FlowError
from headwater.flow.commit.accounts import Account
from headwater.flow.commit.batch_evaluation import BatchResults
from headwater.flow.declare.topology.graph import Job, Planned
from headwater.flow.declare.topology.nodes import STATEFUL, Dedupe, Node, Source, source_id, walk
from headwater.flow.plan.operator_levels import Root, roots_of
from headwater.flow.rows.counters import MADE
from headwater.flow.rows.evaluation import Evaluation
from headwater.flow.source.staging import Staged


def accounts_of(
    job: Job, evaluation: Evaluation, results: BatchResults, staged: list[Staged], replayed: Mapping[Node, int]
) -> dict[str, Account]:
    """FlowError if the accounts of one do not balance. `replayed`: rows that were late before, and are no longer."""
    ended: dict[Node, Account] = dict.fromkeys(job.operators, Account())
    nodes = {name: node for node, name in job.operators.items()}
    for one in results.reports:
        ended[nodes[one.operator]] += Account(
            rows_out=one.rows, expanded=one.made, duplicates=one.duplicates, late=one.late, filtered=one.filtered,
            expired=one.expired,
        )  # fmt: skip
    read = {source: _read(source, staged) for source in job.sources}
    accounts = {}
    for planned in job.outputs:
        account, roots = Account(), roots_of(planned)
        for node in _downstream(planned, roots):
            account += _lost(planned, _whole(evaluation, node, ended))
        for root in roots:
            account += ended[root.node] if root.stateful else Account(rows_out=results.outputs[planned.name].count)
            account += _on_the_way(evaluation, root, read, ended)
            back = replayed.get(root.node, 0)
            account += Account(rows_out=back, late=-back)
        accounts[planned.name] = _checked(planned, account)
    return accounts


def _downstream(planned: Planned, roots: list[Root]) -> list[Node]:
    """Operators that are given only rows that others have made."""
    known = {node for root in roots for node in (root.node, *root.passed())}
    operators = [node for node in walk(planned.node) if isinstance(node, STATEFUL) and node not in known]
    return [node for node in operators if any(not one.keyed for one in node.inputs)]


def _whole(evaluation: Evaluation, node: Node, ended: Mapping[Node, Account]) -> Account:
    made = Account(expanded=evaluation.counter(node).totals()[MADE])
    return made + _counted(evaluation, node) + ended[node]


def _lost(planned: Planned, account: Account) -> Account:
    """Of rows that were made, those that went no further; the others are in what they were made from."""
    lost = replace(_checked(planned, account), expanded=0, rows_out=0)
    return replace(lost, expanded=lost.filtered + lost.duplicates + lost.late)


def _on_the_way(
    evaluation: Evaluation, root: Root, read: Mapping[Source, Account], ended: Mapping[Node, Account]
) -> Account:
    """What was read for it, and what left on the way to it."""
    account = Account(expanded=evaluation.counter(root.node).totals()[MADE])
    for source in root.paths():
        account += read[source]
    for node in root.passed():
        account += _counted(evaluation, node)
        account += Account(duplicates=ended[node].duplicates, late=ended[node].late)
    # What leaves before a stream of first rows is counted for that, also where it is the output itself.
    return account if isinstance(root.node, Dedupe) else account + _counted(evaluation, root.node)


def _counted(evaluation: Evaluation, node: Node) -> Account:
    totals = evaluation.counter(node).totals()
    fewer = max(0, totals["before"] - totals["after"])
    more = max(0, totals["after"] - totals["before"])
    return Account(
        filtered=totals["filtered"] + fewer, expanded=totals["expanded"] + more, duplicates=totals["duplicates"],
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
    own = [one.counts for one in staged if one.range.topic == source_id(source)]
    return Account(
        rows_in=sum(counts.rows for counts in own),
        poisoned=sum(counts.poisoned for counts in own),
        lost=sum(counts.lost for counts in own),
    )
