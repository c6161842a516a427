"""From what a program prints or returns to its verdict, through the sandbox and back."""

import pytest

from maxk.records import CallTest, Status, StdinTest
from maxk.verify import Limits, Verifier


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=1, limits=Limits(cpu_seconds=1.0, wall_seconds=5.0)) as running:
        yield running


RIGHT = {
    "a dict in another order": ("{'b': 2, 'a': 1}", {"a": 1, "b": 2}),
    "a dict in a list": ("[{'b': [2.0], 'a': ()}]", [{"a": (), "b": [2.0]}]),
    "dicts in a dict": ("{1: {'b': 2, 'a': 1}}", {1: {"a": 1, "b": 2}}),
    "a set of tuples": ("{(2, 'b'), (1, 'a')}", {(1, "a"), (2, "b")}),
    "a frozenset as a key": ("{frozenset((3, 4)): 1.0, 2: 0}", {2: 0, frozenset((4, 3)): 1.0}),
    "a float nearby": ("{'b': 0.1 + 0.2, 'a': 1}", {"a": 1, "b": 0.3}),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_is_right_however_it_is_written(verifier, name):
    """None of them is sent as the bytes that are expected."""
    value, expected = RIGHT[name]
    (verdict,) = verifier.judge([(f"def f(): return {value}", [CallTest("f", (), expected)])])
    assert verdict.passed, verdict


WRONG = {
    "another key": ("{'b': 2, 'c': 1}", {"a": 1, "b": 2}),
    "another value": ("{'b': 1, 'a': 2}", {"a": 1, "b": 2}),
    "a key more": ("{'b': 2, 'a': 1, 'c': 3}", {"a": 1, "b": 2}),
    "a list in a dict, not a tuple": ("{'b': [], 'a': 1}", {"a": 1, "b": ()}),
    "a float too far": ("{'b': 0.301, 'a': 1}", {"a": 1, "b": 0.3}),
    "pairs": ("[('a', 1), ('b', 2)]", {"a": 1, "b": 2}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_wrong(verifier, name):
    value, expected = WRONG[name]
    (verdict,) = verifier.judge([(f"def f(): return {value}", [CallTest("f", (), expected)])])
    assert verdict.tests[0].status is Status.WRONG_ANSWER


def test_an_empty_input_is_empty_also_after_a_longer_one(verifier):
    program = "import sys\nprint(len(sys.stdin.read()))"
    texts = ["", "ten bytes\n", "", "two", ""]
    tests = [StdinTest(text, str(len(text))) for text in texts]
    (verdict,) = verifier.judge([(program, tests)])
    assert verdict.passed, verdict


def test_a_function_that_reads_finds_nothing(verifier):
    program = (
        "import sys\ndef rest(): return sys.stdin.read()\n"
        "def line():\n    try: return input()\n    except EOFError: return 'the end'"
    )
    tests = [CallTest("rest", (), ""), CallTest("line", (), "the end")]
    (verdict,) = verifier.judge([(program, tests)])
    assert verdict.passed, verdict
