"""Problems whose own solution fails are known, dropped by default, and counted."""

import json

import pytest

from maxk.data import load, load_with_account, references
from maxk.data.references import Slow, broken, slow, verify_references
from maxk.records import Problem, StdinTest
from maxk.verify import Limits, Verifier
from tests.data import published


def test_known_failures_are_dropped_with_a_count_unless_they_are_asked_for(tmp_path, monkeypatch):
    path = published.write_jsonl(tmp_path / "x.jsonl", [published.mbpp(602), published.mbpp(603)])
    known = {"mbpp/603": "1 of 3 tests, timeout"}
    monkeypatch.setattr("maxk.data.broken", lambda name: known if name == "mbpp" else {})
    problems, account = load_with_account("mbpp", "train", path)
    assert [problem.id for problem in problems] == ["mbpp/602"]
    assert account.dropped == {"its own solution fails: 1 of 3 tests, timeout": 1}
    assert account.kept == 1
    assert len(load("mbpp", "train", path, keep_broken=True)) == 2


def test_the_list_that_ships_is_readable_and_names_its_data_sets():
    assert "mbpp/123" in broken("mbpp")
    assert len(broken("code-contests")) > 50
    assert broken("no such set") == {}
    for name in ("mbpp", "code-contests"):
        assert all(key.startswith(f"{name}/") for key in broken(name))
        assert all(" tests, " in how for how in broken(name).values())


@pytest.mark.parametrize(("most", "failed", "tests"), [(None, 2, 3), (2, 1, 2)])
def test_a_failing_reference_is_reported_with_its_first_failure(most, failed, tests):
    cases = (StdinTest("1", "1"), StdinTest("2", "4"), StdinTest("3", "9"))
    problems = [
        Problem("right", "", cases, reference="print(int(input()) ** 2)"),
        Problem("wrong", "", cases, reference="print(input())"),
        Problem("none", "", cases),
    ]
    with Verifier(workers=1) as verifier:
        (failure,), slow_ones = verify_references(problems, verifier, most)
    assert slow_ones == []
    assert failure == references.Failure("wrong", failed, tests, "wrong answer", "got 2")
    assert str(failure) == f"wrong: {failed} of {tests} tests, wrong answer, got 2"


def test_a_reference_that_needs_more_than_a_quarter_of_the_limit_is_named():
    loop = "import time\nwhile time.process_time() < {}: pass\nprint(input())"
    problems = [
        Problem(str(seconds), "", (StdinTest("1", "1"),), reference=loop.format(seconds))
        for seconds in (0.9, 0.1)
    ]
    with Verifier(workers=1, limits=Limits(cpu_seconds=2.0)) as verifier:
        failures, (found,) = verify_references(problems, verifier)
    assert failures == []
    assert (found.id, found.limit) == ("0.9", 2.0)
    assert 0.5 < found.seconds < 2.0


def test_slow_references_are_noted_and_not_dropped(tmp_path, monkeypatch):
    path = published.write_jsonl(tmp_path / "x.jsonl", [published.mbpp(602)])
    known = {"mbpp": {"mbpp/602": Slow("mbpp/602", 1.5, 4.0).how}}
    (tmp_path / "broken.json").write_text(json.dumps(known))
    monkeypatch.setattr(references, "BROKEN", tmp_path / "broken.json")
    assert (broken("mbpp"), list(slow("mbpp"))) == ({}, ["mbpp/602"])
    problems, account = load_with_account("mbpp", "train", path)
    assert len(problems) == 1
    remark = "its own solution takes more than a quarter of the CPU limit of a test"
    assert account.noted == {remark: 1}
