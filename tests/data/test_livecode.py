"""LiveCodeBench and LiveBench: the packed tests, and what never may come out of them."""

import base64
import collections
import json
import os
import pickle
import zlib

import pytest

from maxk.data import LazyTests, livecode, load, load_with_account
from maxk.records import CallTest, Problem, StdinTest
from tests.clock import cpu_seconds
from tests.data import published


def bench(tmp_path, *rows, split="test"):
    return load(
        "live-code-bench", split, published.write_jsonl(tmp_path / "test.jsonl", list(rows))
    )


def squeezed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def test_public_tests_are_shown_and_private_ones_graded_too(tmp_path):
    [problem] = bench(tmp_path, published.live_code_bench())
    assert problem.examples == (StdinTest("3\n", "6\n", equality="livecodebench"),)
    assert list(problem.tests) == [
        StdinTest("3\n", "6\n", equality="livecodebench"),
        StdinTest("4\n", "8\n", equality="livecodebench"),
    ]
    assert (problem.entry_point, problem.difficulty) == (None, "easy")


def test_private_tests_may_be_plain_json(tmp_path):
    row = published.live_code_bench(private_test_cases=json.dumps(published.STDIN_PRIVATE))
    [problem] = bench(tmp_path, row)
    assert problem.tests[1] == StdinTest("4\n", "8\n", equality="livecodebench")


def test_a_functional_test_has_one_argument_a_line(tmp_path):
    row = published.live_code_bench(
        starter_code="class Solution:\n    def f(self, a, s):\n        ",
        public_test_cases=json.dumps(published.CALL_PUBLIC),
        private_test_cases=published.packed(published.CALL_PUBLIC),
        metadata='{"func_name": "f"}',
    )
    [problem] = bench(tmp_path, row)
    assert problem.entry_point == "Solution().f"
    assert problem.starter == row["starter_code"]
    assert (
        list(problem.tests)
        == [CallTest("Solution().f", ([1, 2], "ab"), [2], equality="livecodebench")] * 2
    )


def test_a_function_outside_a_class_is_called_by_its_name(tmp_path):
    row = published.live_code_bench(
        starter_code="def f(a, s):\n",
        public_test_cases=json.dumps(published.CALL_PUBLIC),
        metadata='{"func_name": "f"}',
    )
    [problem] = bench(tmp_path, row)
    assert problem.entry_point == "f"


def test_carriage_returns_leave_packed_tests(tmp_path):
    crlf = [{"input": "4\r\n5\r\n", "output": "8\r\n", "testtype": "stdin"}]
    [problem] = bench(
        tmp_path, published.live_code_bench(private_test_cases=published.packed(crlf))
    )
    assert problem.tests[1] == StdinTest("4\n5\n", "8\n", equality="livecodebench")


def test_a_problem_without_any_tests_is_dropped(tmp_path):
    row = published.live_code_bench(public_test_cases="[]", private_test_cases="[]")
    path = published.write_jsonl(tmp_path / "test.jsonl", [row])
    problems, account = load_with_account("live-code-bench", "test", path)
    assert problems == []
    assert account.dropped == {"no tests": 1}


def test_packed_tests_that_turn_out_empty_are_an_error(tmp_path):
    row = published.live_code_bench(public_test_cases="[]", private_test_cases=published.packed([]))
    [problem] = bench(tmp_path, row)
    with pytest.raises(ValueError, match="abc301_a, field private_test_cases: holds no tests"):
        len(problem.tests)


def test_the_split_v6_is_the_last_file(tmp_path):
    for number, name in enumerate(("test.jsonl", "test2.jsonl", "test6.jsonl")):
        published.write_jsonl(tmp_path / name, [published.live_code_bench(f"q{number}")])
    assert [p.id for p in load("live-code-bench", "v6", tmp_path)] == ["live-code-bench/q2"]
    assert len(load("live-code-bench", "test", tmp_path)) == 3


# --- lazily --------------------------------------------------------------------------------------


def test_a_thousand_problems_load_in_three_seconds_and_nothing_is_unpacked(tmp_path, monkeypatch):
    noise = base64.b64encode(os.urandom(3000)).decode()  # so that packing does not make it small
    blob = published.packed([{"input": noise, "output": "1", "testtype": "stdin"}] * 20)
    rows = [published.live_code_bench(f"q{i}", private_test_cases=blob) for i in range(1000)]
    path = published.write_jsonl(tmp_path / "test.jsonl", rows)

    def refuse(blob):
        raise AssertionError("unpacked while loading")

    monkeypatch.setattr(livecode, "unpacked", refuse)
    problems: list[Problem] = []
    assert cpu_seconds(lambda: problems.extend(load("live-code-bench", "test", path))) < 3
    assert len(problems) == 1000
    with pytest.raises(AssertionError, match="unpacked while loading"):
        len(problems[0].tests)


def test_lazy_tests_are_decoded_once():
    calls = []

    def decode():
        calls.append(1)
        return [StdinTest("1", "2"), StdinTest("3", "4")]

    tests = LazyTests(decode)
    assert (calls, tests.decoded) == ([], False)
    assert len(tests) == 2
    assert tests[1] == StdinTest("3", "4")
    assert list(tests[:1]) == [StdinTest("1", "2")]
    assert calls == [1]


def test_lazy_tests_that_fail_fail_again():
    def decode():
        raise ValueError("broken")

    tests = LazyTests(decode)
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            len(tests)


# --- hostile and broken --------------------------------------------------------------------------


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil-was-here",)


def test_a_pickle_that_calls_a_function_is_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="it has the instruction STACK_GLOBAL"):
        livecode.unpacked(squeezed(pickle.dumps(Evil())))
    assert not (tmp_path / "evil-was-here").exists()


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("value", [["[]"], {"a": 1}, b"[]", None, 3, ("[]", "[]")])
def test_a_pickle_of_anything_but_text_is_refused_and_text_is_read(value, protocol):
    with pytest.raises(ValueError, match="not the pickle of a plain string"):
        livecode.unpacked(squeezed(pickle.dumps(value, protocol)))
    assert livecode.unpacked(squeezed(pickle.dumps('["\u00e9\\n"]', protocol))) == ["\u00e9\n"]


def test_a_pickle_that_would_take_all_memory_is_not_run():
    grow = b"\x80\x04\x8c\x02[]r\xff\xff\xff\x7f."  # LONG_BINPUT at place 2^31 - 1
    assert livecode.unpacked(squeezed(grow)) == []
    assert cpu_seconds(lambda: livecode.unpacked(squeezed(grow))) < 0.1


@pytest.mark.parametrize("value", [collections.OrderedDict(), range(3), len])
def test_a_pickle_that_names_a_class_is_refused(value):
    with pytest.raises(ValueError, match="it has the instruction"):
        livecode.unpacked(squeezed(pickle.dumps(value)))


def test_a_bomb_is_an_error_at_the_limit(monkeypatch):
    monkeypatch.setattr(livecode, "MAX_BYTES", 1000)
    text = json.dumps("x" * 2000)
    with pytest.raises(ValueError, match="more than 1000 bytes when decompressed"):
        livecode.unpacked(squeezed(pickle.dumps(text)))


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        ("not base64!", "neither JSON nor base64"),
        (base64.b64encode(b"plain bytes").decode(), "not compressed by zlib"),
        (base64.b64encode(zlib.compress(b"x" * 99)[:-5]).decode(), "ends too early"),
        (squeezed(b"no pickle"), "not the pickle of a plain string"),
        (squeezed(b"\x80\x04\x96\xff\xff\xff\xff\xff\xff\xff\x7f."), "not the pickle of a plain"),
        (squeezed(pickle.dumps("{broken")), "the packed text is not JSON"),
        (published.packed({"input": "1"}), "holds an object; use a list"),
        (published.packed([{"input": "1", "output": "2"}]), "test 1: no 'testtype'"),
        (published.packed(published.CALL_PUBLIC), "test 1: calls a function that the metadata"),
        (published.packed(["1"]), "test 1: "),
    ],
)
def test_a_broken_blob_names_the_problem_and_the_field(tmp_path, blob, message):
    [problem] = bench(tmp_path, published.live_code_bench(private_test_cases=blob))
    with pytest.raises(ValueError, match="live-code-bench/abc301_a, field private_test_cases") as e:
        len(problem.tests)
    assert message in str(e.value)


def test_broken_metadata_names_file_line_and_field(tmp_path):
    rows = [published.live_code_bench("a"), published.live_code_bench("b", metadata="{")]
    with pytest.raises(ValueError, match=r"test\.jsonl, line 2, field metadata: is not JSON"):
        bench(tmp_path, *rows)


# --- LiveBench -----------------------------------------------------------------------------------


def test_live_bench_takes_the_question_of_the_original(tmp_path):
    path = published.write_parquet(tmp_path / "data/test-0.parquet", [published.live_bench()])
    [problem] = load("live-bench", "test", path.parent.parent)
    assert problem.id == "live-bench/a1b2"
    assert problem.statement == "Print twice the number."
    assert problem.tags == ("LCB_generation",)
    assert list(problem.tests) == [
        StdinTest("3\n", "6\n", equality="livecodebench"),
        StdinTest("4\n", "8\n", equality="livecodebench"),
    ]
    assert problem.starter is None


def test_a_completion_task_starts_with_the_partial_solution(tmp_path):
    row = published.live_bench(
        task="coding_completion",
        partial_solution="n = int(input())\n",
        remainder="print(2 * n)",
        solution="n = int(input())\nprint(2 * n)",
    )
    [problem] = load("live-bench", "test", published.write_jsonl(tmp_path / "t.jsonl", [row]))
    assert problem.starter == "n = int(input())\n"
    assert problem.reference == "n = int(input())\nprint(2 * n)"
