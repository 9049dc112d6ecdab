from benchmarks.flow.names import CONNECTOR, FLINK, HEADWATER, JDBC, POSTGRES, RAW, ROCKS
from benchmarks.flow.tables import flow_tables, joins, joins_state, keyed, nexmark, sink, source, state, table_changes
from benchmarks.results import Case, Results


def test_the_source_is_compared_with_its_peers_and_the_goal() -> None:
    results, case = Results(), Case("source", ("8",))
    for who, rate in ((HEADWATER, 3_000_000), (RAW, 1_000_000), (f"{CONNECTOR} (4.3.0)", 500_000)):
        results.add(case, who, rows=rate)
    headwater, raw, connector = source(results).rows
    assert headwater == ["8", HEADWATER, "3,000,000", "3.00\u00a0×", "6.00\u00a0×", "2.00\u00a0×"]
    assert raw[3:] == connector[3:] == ["–", "–", "–"]


def test_a_peer_that_is_missing_leaves_a_dash() -> None:
    results, case = Results(), Case("keyed", ("20,000",))
    results.add(case, HEADWATER, rows=900)
    results.add(case, ROCKS, rows=300)
    ours, spark = keyed(results).rows
    assert ours == ["20,000", HEADWATER, "900", "3.00\u00a0×", "–", "–"]
    assert spark[3:] == ["–", "–", "–"]


def test_a_state_is_compared_with_the_smaller_one_of_as_many_shards() -> None:
    results = Results()
    for shards, keys, took in (("1", "100", 10), ("1", "1,000", 12), ("4", "100", 20), ("4", "1,000", 30)):
        results.add(Case("state", (shards, keys)), HEADWATER, milliseconds=took)
    assert [row[-1] for row in state(results).rows] == ["–", "1.20\u00a0×", "–", "1.50\u00a0×"]


def test_sinks_are_compared_with_what_is_written_by_hand() -> None:
    results, case = Results(), Case("sink", ("new",))
    results.add(case, POSTGRES, rows=500)
    results.add(case, JDBC, rows=250)
    assert [row[-1] for row in sink(results).rows] == ["2.00\u00a0×", "–"]


def test_joins_are_compared_with_each_peer_cold_and_warm() -> None:
    results, case = Results(), Case("joins", ("as-of",))
    results.add(case, HEADWATER, cold=100, warm=600, memory=2000)
    results.add(case, FLINK, cold=50, warm=200, memory=3000)
    ours, flink = joins(results).rows
    assert ours == ["as-of", HEADWATER, "100", "600", "2,000", "–", "–"]
    assert flink == ["as-of", FLINK, "50.0", "200", "3,000", "2.00\u00a0×", "3.00\u00a0×"]


def test_queries_of_nexmark_are_compared_one_by_one_and_in_their_geometric_mean() -> None:
    results = Results()
    for query, rates in (("q0", (400, 100)), ("q1", (100, 100)), ("q2", (100, None))):
        for who, rate in zip((HEADWATER, FLINK), rates, strict=True):
            if rate is not None:
                results.add(Case("nexmark", (query,)), who, cold=rate, warm=rate, cpu=3, memory=2000)
    first, _, alone, mean = nexmark(results).rows
    assert first == ["q0", "400", "100", "400", "100", *["3.00"] * 2, *["2,000"] * 2, *["4.00\u00a0×"] * 2]
    assert alone[-1] == "–"
    assert (mean[0], mean[-1]) == ("geometric mean", "2.00\u00a0×")


def test_the_state_of_joins_follows_from_the_number_of_keys() -> None:
    results = Results()
    results.add(Case("joins-state", ("100,000",)), HEADWATER, milliseconds=12, mebibytes=34)
    assert joins_state(results).rows == [["100,000", "12.0", "34.0"]]


def test_sections_that_were_not_measured_have_no_table() -> None:
    assert flow_tables(Results()) == []


def test_a_change_of_a_table_is_compared_with_that_of_a_smaller_one() -> None:
    results = Results()
    for words, took in ((("grouped", "1"), 10), (("grouped", "2"), 12), (("joined", "1"), 8)):
        metrics = {"milliseconds": took, "cpu": 5, "read": 100, "written": 200}
        results.add(Case("table-changes", words), HEADWATER, **metrics)
    assert [row[-1] for row in table_changes(results).rows] == ["–", "1.20\u00a0×", "–"]
