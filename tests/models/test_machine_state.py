"""Rounds of the benchmark are repeated when the round trip between the cores changes, here with a fake probe."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from machine_state import PROBES, Rounds, RoundTrips, summary

NEAR, FAR = 110.0, 530.0


def measured(round_trips, wanted=2, engines=("peer", "ours"), turn=lambda name: [1.0]):
    """Rounds over these round trips, of which each round takes one more than it has turns; and its progress lines."""
    times = iter([time for time in round_trips for _ in range(PROBES)])
    rounds = Rounds(wanted, RoundTrips(lambda: {"exchange_ns": next(times)}))
    lines = list(rounds.run(lambda: list(engines), turn))
    assert next(times, None) is None, "round trips are left"
    return rounds, lines


def test_rounds_of_one_state_all_count():
    rounds, lines = measured([110, 140, 120, 105, 130, 112])
    assert rounds.entry() == {
        "state": "near",
        "round_trips_ns": [[110, 140, 120], [105, 130, 112]],
        "wanted": 2,
        "counted": 2,
        "repeated": 0,
    }
    assert lines == ["round 1 of 2: near, round trips 110 140 120 ns", "round 2 of 2: near, round trips 105 130 112 ns"]
    assert summary(rounds.entry()) == "near 116 ns"


def test_a_round_whose_turns_differ_is_repeated():
    rounds, lines = measured([NEAR] * 3 + [NEAR, NEAR, FAR] + [NEAR] * 3)
    entry = rounds.entry()
    assert (entry["state"], entry["counted"], entry["repeated"]) == ("near", 2, 1)
    assert entry["round_trips_ns"] == [[NEAR] * 3] * 2
    assert lines[1] == "round 2 of 2: changed, round trips 110 110 530 ns"
    assert lines[2] == "repeat 1 of at most 2: near, round trips 110 110 110 ns"
    assert summary(entry) == "near 110 ns, 1 repeated"


def test_times_are_those_of_rounds_that_count():
    times = iter([[1.0], [2.0], [90.0], [91.0], [3.0], [4.0]])
    rounds, _ = measured([NEAR] * 3 + [FAR, NEAR, NEAR] + [NEAR] * 3, turn=lambda name: next(times))
    assert rounds.turns_of("peer") == [[1.0], [3.0]]
    assert rounds.turns_of("ours") == [[2.0], [4.0]]


def test_a_round_in_another_state_than_the_rest_is_repeated():
    rounds, _ = measured([NEAR] * 3 + [FAR] * 3 + [FAR] * 3)
    entry = rounds.entry()
    assert (entry["state"], entry["counted"], entry["repeated"]) == ("far", 2, 1)


def test_near_counts_where_as_many_rounds_are_far():
    rounds, _ = measured([FAR] * 3 + [NEAR] * 3 + [NEAR, NEAR, FAR] + [FAR, NEAR, NEAR])
    entry = rounds.entry()
    assert (entry["state"], entry["counted"], entry["repeated"]) == ("near", 1, 2)
    assert summary(entry) == "near 110 ns, 2 repeated, 1 of 2 count"


def test_rounds_are_kept_after_as_many_repeats_as_rounds():
    rounds, lines = measured([NEAR, FAR, NEAR] * 4)
    entry = rounds.entry()
    assert (entry["state"], entry["counted"], entry["repeated"]) == ("changed", 4, 2)
    assert rounds.turns_of("ours") == [[1.0]] * 4
    assert len(lines) == 4
    assert summary(entry) == "changed 110 ns, 2 repeated, states differ"


def test_the_smallest_round_trip_of_the_run_decides_between_near_and_far():
    probed = iter([time for time in (300.0, 310.0, 320.0, 100.0) for _ in range(PROBES)])
    trips = RoundTrips(lambda: {"exchange_ns": next(probed)})
    first = [trips.measure() for _ in range(3)]
    assert trips.state_of(first) == "near"  # nothing nearer is known yet
    trips.measure()
    assert trips.state_of(first) == "far"
    assert trips.state_of([100.0, 199.0]) == "near"
    assert trips.state_of([100.0, 201.0]) == "changed"


def test_two_states_that_are_both_far_do_not_count_together():
    rounds, lines = measured([45.0] * 3 + [NEAR] * 3 + [FAR] * 3 + [FAR] * 3)
    assert [line.split(":")[1].split(",")[0].strip() for line in lines] == ["near", "far", "far", "far"]
    assert rounds.entry()["round_trips_ns"] == [[FAR] * 3] * 2


def test_one_odd_probe_changes_nothing():
    probed = iter([110.0, 255.0, 112.0, 46.0, 111.0, 113.0])
    trips = RoundTrips(lambda: {"exchange_ns": next(probed)})
    assert [trips.measure(), trips.measure()] == [112.0, 111.0]
    assert trips.smallest_ns == 111.0


@pytest.mark.parametrize("answer", [{"error": "no probe"}, {"exchange_ns": 0}])
def test_nothing_is_repeated_where_the_round_trip_is_unknown(answer):
    rounds = Rounds(2, RoundTrips(lambda: answer))
    lines = list(rounds.run(lambda: ["ours"], lambda name: [1.0]))
    assert lines[0] == "round 1 of 2: unknown, round trips - - ns"
    entry = rounds.entry()
    assert (entry["state"], entry["counted"], entry["repeated"]) == ("unknown", 2, 0)
    assert summary(entry) == "unknown"


def test_an_engine_that_fails_has_no_more_turns():
    engines = ["peer", "ours"]

    def turn(name):
        if name == "peer":
            engines.remove(name)
            return None
        return [2.0]

    probe = RoundTrips(lambda: {"exchange_ns": NEAR})
    rounds = Rounds(2, probe)
    assert len(list(rounds.run(lambda: list(engines), turn))) == 2
    assert [len(one.round_trips_ns) for one in rounds.all] == [3, 2]
    assert rounds.turns_of("peer") == []
    assert rounds.turns_of("ours") == [[2.0], [2.0]]
