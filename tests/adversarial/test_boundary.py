"""What crosses the boundary between a program, its tests and the judge; each property with a test.

A hostile program finds the object that speaks for it and says what it likes: so it is as strong as
any attack from inside its process can be.
"""

import itertools
import os
import random
import resource
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxk.records import AssertTest, CallTest, Status, StdinTest
from maxk.verify import Limits, Verifier, WorkerFailed, wire
from maxk.verify.child import Child
from maxk.verify.program import Program
from tests.clock import cpu_seconds

LIMITS = Limits(cpu_seconds=1.0, wall_seconds=10.0, output_bytes=2**18, memory_bytes=256 * 2**20)
HONEST = "def f(x): return 2 * x"
TEST, CODE = CallTest("f", (3,), 6), AssertTest("for i in (1, 3):\n    assert f(i) == 2 * i", "f")
FAILED = {"wrong answer", "runtime error"}

# Beside the stranger's code the process has a channel; `say` answers the judge in its place.
SAY = """
import gc, os
channel = next(o for o in gc.get_objects() if type(o).__name__ == 'Channel')
answer = type(channel).reply
def say(text):
    type(channel).reply = lambda self, _: answer(self, text)
"""


@pytest.fixture(scope="module")
def verifier(tier):
    with Verifier(workers=1, limits=LIMITS, tier=tier) as running:
        yield running


def statuses(verdict) -> list[str]:
    return [test.status.value for test in verdict.tests]


def judged(verifier, program: str, tests: list[Any]) -> list[str]:
    """The statuses of a hostile program; an honest neighbour passes, and no jail is broken."""
    broken = verifier.broken_jails
    hostile, honest = verifier.judge([(program, tests), (HONEST, [TEST, CODE])])
    assert honest.passed, honest
    assert verifier.broken_jails == broken
    return statuses(hostile)


# --- nothing a child says leaves judge() as an exception, or passes ---------------------------------

trees = st.recursive(
    st.sampled_from([b"N", b"T", b"F", b"f" + bytes(8), b"c" + bytes(16), b"h" + bytes(8)])
    | st.binary(max_size=9).map(lambda b: b"s" + len(b).to_bytes(4, "big") + b)
    | st.binary(max_size=9).map(lambda b: b"b" + len(b).to_bytes(4, "big") + b)
    | st.binary(max_size=9).map(lambda b: b"i" + len(b).to_bytes(4, "big") + b)
    | st.binary(max_size=9).map(lambda b: b"n" + len(b).to_bytes(4, "big") + b),
    lambda inner: st.tuples(st.sampled_from(b"ltSZdIv"), st.lists(inner, max_size=4)).map(
        lambda t: bytes([t[0]]) + len(t[1]).to_bytes(4, "big") + b"".join(t[1])
    ),
    max_leaves=12,
)
replies = st.binary(max_size=40) | st.tuples(st.sampled_from(b"=.EMWU@~?"), trees).map(
    lambda t: bytes([t[0]]) + t[1]
)
raw = st.lists(st.tuples(st.binary(max_size=30), st.integers(0, 3)), max_size=5)


def check_fuzzed(verifier, reply: bytes, parts: list[tuple[bytes, int]]) -> None:
    """A reply of any form, or any bytes at any pace, whatever test they answer."""
    forged = f"{SAY}say({reply!r})\ndef f(x): return None"
    written = (
        f"import os, time\ndef f(x):\n    for part, pause in {parts!r}:\n"
        "        time.sleep(pause / 100)\n        os.write(40, part)\n"
        "    os._exit(0)"
    )
    expected: list[Any] = [6, [6], {6}, {6: 6}, "6", 6.5, frozenset({6}), (6,)]
    tests = [CallTest("f", (3,), value) for value in expected]
    tests += [CallTest("f", (3,), value, equality="evalplus") for value in expected]
    tests += [CODE, AssertTest("assert 6 == f(3)", "f"), AssertTest("assert f(3) == {6: {6}}")]
    for program in (forged, written):
        started = time.monotonic()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = judged(verifier, program, tests)
        assert "passed" not in found, (program, found)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown * 1024 < 4 * LIMITS.output_bytes + 2**20
        assert time.monotonic() - started < 600  # it returns: a busy machine is no failure


@settings(max_examples=6)
@given(replies, raw)
def test_no_bytes_of_a_child_pass_or_raise(verifier, reply, parts):
    check_fuzzed(verifier, reply, parts)


@pytest.mark.slow
@settings(max_examples=1000)
@given(replies, raw)
def test_no_bytes_of_a_child_pass_or_raise_at_length(verifier, reply, parts):
    check_fuzzed(verifier, reply, parts)


SPOKEN = {
    "a length of 0": "os.write(40, bytes(4))",
    "a length above the limit": "os.write(40, b'\\xff' * 4)",
    "a frame that nobody asked for": "os.write(40, (9).to_bytes(4, 'big') + bytes(8) + b'.')",
    "two replies": "answer(channel, b'=' + bytes.fromhex('690000000105'))",
    "half a frame": "os.write(40, b'\\0\\0\\0')",
}


@pytest.mark.parametrize("name", SPOKEN)
def test_what_nobody_asked_for_ends_the_process(verifier, name):
    program = f"{SAY}\ndef f(x):\n    {SPOKEN[name]}\n    return 6"
    found = judged(verifier, program, [TEST, CallTest("f", (4,), 8)])
    assert "passed" not in found
    # The first reply of two is an answer, and a wrong one, if it is read before the second comes.
    allowed = {"runtime error", "output limit"}
    assert set(found) <= (allowed | {"wrong answer"} if name == "two replies" else allowed)


def test_right_answers_that_come_twice_at_once_do_not_pass(verifier):
    program = (
        f"{SAY}\nimport time\ndef f(x):\n"
        "    frame = (15).to_bytes(4, 'big') + channel.number + b'=' + bytes.fromhex('690000000106')\n"
        "    os.write(40, frame)\n    time.sleep(5)"
    )
    assert judged(verifier, program, [TEST]) == ["passed"]  # so the frame is a right answer
    twice = program.replace("(40, frame)", "(40, frame + frame)")
    assert judged(verifier, twice, [TEST]) == ["runtime error"]


def test_a_late_frame_does_not_answer_the_next_test(verifier):
    """The reply of a test, kept and sent again with all numbers seen so far."""
    program = (
        f"{SAY}\nseen = []\ndef f(x):\n    for number in seen:\n"
        "        os.write(40, (14).to_bytes(4, 'big') + number + b'=' + bytes.fromhex('6900000001'))\n"
        "    seen.append(channel.number)\n    return 6"
    )
    tests = [CallTest("f", (i,), 6) for i in range(3)]
    assert judged(verifier, program, tests).count("passed") < 3


def test_a_reason_cannot_steer_a_terminal(verifier):
    program = f"{SAY}\nsay(b'E\\x1b[2J\\x1b]0;title\\x07KeyError')\ndef f(x): return 0"
    printing = "print('\\x1b[2J\\x9b1m\\x00gone')"
    (said,) = verifier.judge([(program, [TEST])])
    (printed,) = verifier.judge([(printing, [StdinTest("", "x")])])
    for verdict in (said, printed):
        reason = verdict.tests[0].reason
        assert reason
        assert all(char.isprintable() for char in reason)


# --- a job that breaks its jail ---------------------------------------------------------------------


@pytest.mark.parametrize("victim", ["program", "zygote", "zygote of the tests", "tester"])
def test_a_job_that_breaks_its_jail_is_told_from_a_broken_machine(victim, monkeypatch):
    """One job among 100 loses a process at every step that it reaches, every time."""
    exchange = Child.exchange
    steps = itertools.count()
    doomed = "def f(x): return 2 * x  # doomed"
    due: dict[Any, int] = {}  # requests that a doomed program still has

    def breaking(self: Any, request, clock):
        if request.startswith(b"C"):
            if request.endswith(b"# doomed"):
                due[self] = next(steps) % 4
        elif self in due and victim != "tester":
            due[self] -= 1
            if due[self] < 0 and victim == "program":
                os.kill(self.pid, 9)
            elif due[self] < 0:
                jail = self.jail if victim == "zygote" else self.second()
                jail.process.kill()
                jail.process.wait()
        reply = exchange(self, request, clock)
        if victim == "tester" and request.startswith(b"A") and b"doomed" in request:
            os.kill(self.pid, 9)
        return reply

    monkeypatch.setattr(Child, "exchange", breaking)
    code = AssertTest(CODE.code + ("  # doomed" if victim == "tester" else ""), "f")
    with Verifier(workers=2, limits=LIMITS) as verifier:
        jobs = [(HONEST, [TEST, CODE])] * 50
        verdicts = verifier.judge([*jobs, (doomed, [TEST, code]), *jobs])
    hostile = verdicts.pop(50)
    assert all(verdict.passed for verdict in verdicts)
    assert not hostile.passed
    if victim != "program":
        assert {test.reason for test in hostile.tests} == {"broke its jail"}


def test_a_broken_machine_raises(monkeypatch):
    def broken(self, request, clock):
        raise WorkerFailed("no memory left")

    with Verifier(workers=1, limits=LIMITS) as verifier:
        monkeypatch.setattr(Child, "exchange", broken)
        with pytest.raises(WorkerFailed, match="no memory left"):
            verifier.judge([(HONEST, [TEST])])


def test_an_exception_of_the_judging_is_a_wrong_answer(monkeypatch, caplog):
    from maxk.verify.answers import Answer

    def broken(self, data):
        raise RecursionError

    with Verifier(workers=1, limits=LIMITS) as verifier:
        monkeypatch.setattr(Answer, "wrong", broken)
        (verdict,) = verifier.judge([(HONEST, [TEST])])
        assert statuses(verdict) == ["wrong answer"]
        assert verifier.workers[0].unread == 1
    assert "RecursionError" in caplog.text


# --- one budget -------------------------------------------------------------------------------------

BUSY = "import time\ndef work(s):\n    end = time.process_time() + s\n    while time.process_time() < end: pass\n"


def test_a_right_answer_after_the_cpu_limit_is_a_timeout(verifier):
    """Also one that takes the whole limit without a wake-up of the judge in between."""
    late = BUSY + "def f(x):\n    work(1.05)\n    return 2 * x"
    assert judged(verifier, late, [TEST]) == ["timeout"]


def test_a_wall_limit_below_the_cpu_limit_holds():
    limits = Limits(cpu_seconds=30.0, wall_seconds=0.5, memory_bytes=256 * 2**20)
    with Verifier(workers=1, limits=limits) as verifier:
        (verdict,) = verifier.judge([(BUSY + "def f(x):\n    work(2.5)\n    return 6", [TEST])])
    assert verdict.tests[0].reason == "wall clock limit"
    assert verdict.tests[0].seconds < 2.5


def test_bytes_that_drip_do_not_move_the_deadline():
    program = (
        f"{SAY}\nimport time\ndef f(x):\n    os.write(40, (200).to_bytes(4, 'big'))\n"
        "    while True:\n        os.write(40, b'x')\n        time.sleep(0.02)"
    )
    limits = Limits(cpu_seconds=5.0, wall_seconds=1.0, memory_bytes=256 * 2**20)
    with Verifier(workers=1, limits=limits) as verifier:
        (verdict,) = verifier.judge([(program, [TEST])])
    assert verdict.tests[0].status is Status.TIMEOUT


def test_calls_of_test_code_share_one_deadline():
    """Each call is fast enough; together they are not."""
    program = BUSY + "def f(x):\n    work(0.3)\n    return 2 * x"
    test = AssertTest("for i in range(20):\n    assert f(i) == 2 * i", "f")
    with Verifier(workers=1, limits=LIMITS) as verifier:
        (verdict,) = verifier.judge([(program, [test])])
    assert statuses(verdict) == ["timeout"]
    assert verdict.tests[0].seconds < 2.0


def test_sleep_is_charged_to_the_program():
    program = "import time\ndef f(x):\n    time.sleep(0.8)\n    return 2 * x"
    limits = Limits(wall_seconds=2.0, memory_bytes=256 * 2**20)
    tests = [CallTest("f", (i,), 2 * i) for i in range(10)]
    with Verifier(workers=1, limits=limits) as verifier:
        (verdict,) = verifier.judge([(program, tests)])
    found = statuses(verdict)
    assert found[0] == "passed"
    assert found[-1] == "timeout"
    assert verdict.tests[-1].reason == "not run: it has slept too long"


def test_a_program_has_a_deadline_for_all_its_tests():
    limits = Limits(program_seconds=1.0, memory_bytes=256 * 2**20)
    tests = [CallTest("f", (i,), i) for i in range(20)]
    with Verifier(workers=1, limits=limits) as verifier:
        (verdict,) = verifier.judge([(BUSY + "def f(x):\n    work(0.2)\n    return x", tests)])
    assert statuses(verdict)[-1] == "timeout"
    assert "time limit of the program" in verdict.tests[-1].reason


def test_verdicts_do_not_depend_on_the_order_of_tests():
    program = (
        BUSY + "import os\nn = 0\ndef f(x):\n    global n\n    n += 1\n"
        "    if x == 1: work(9)\n    if x in (2, 4): os._exit(1)\n    if x == 5: work(0.2)\n"
        "    return x if x < 7 else n"
    )
    tests: list[Any] = [CallTest("f", (x,), x) for x in range(9)]
    tests += [AssertTest(f"assert {x} == f({x})", "f") for x in (3, 4, 6)]
    limits = Limits(cpu_seconds=0.5, after_timeout=0.1, memory_bytes=256 * 2**20)
    found = set()
    with Verifier(workers=1, limits=limits) as verifier:
        for seed in range(4):
            order = list(range(len(tests)))
            random.Random(seed).shuffle(order)
            (verdict,) = verifier.judge([(program, [tests[i] for i in order])])
            told = dict(zip(order, statuses(verdict), strict=True))
            found.add(tuple(told[i] for i in range(len(tests))))
    assert len(found) == 1


def test_a_long_reply_costs_the_judge_little(verifier):
    """A reply of the longest length, made once and sent for every test."""
    body = wire.encode([[[1] * 10] * 10] * 40)
    program = f"{SAY}\nsay(b'=' + bytes.fromhex({body.hex()!r}))\ndef f(x): return 0"
    tests = [CallTest("f", (i,), i) for i in range(50)]
    verifier.judge([(program, tests)])
    (verdict,) = verifier.judge([(program, tests)])
    assert set(statuses(verdict)) == {"wrong answer"}
    assert cpu_seconds(lambda: verifier.judge([(program, tests)])) < 50 * 0.005


# --- what crosses -----------------------------------------------------------------------------------

EVERYTHING = """
class Everything:
    def __init__(self, *args, **named): pass
    def __getattr__(self, name): return self
    def __call__(self, *args, **named): return self
    def __iter__(self): return iter([self])
    def __len__(self): return 1
    def __bool__(self): return True
    def __hash__(self): return hash(1)
    def __index__(self): return 1
    def __float__(self): return 1.0
    def __repr__(self): return '1'
    def __getitem__(self, key): return self
    def __contains__(self, item): return True
    def __enter__(self): return self
    def __exit__(self, *error): return True
for name in '''eq ne lt le gt ge add sub mul truediv floordiv mod pow and or xor radd rsub rmul rtruediv
neg pos abs invert round'''.split():
    setattr(Everything, f'__{name}__', lambda self, *others: True if len(name) == 2 else self)
for name in 'eq ne lt le gt ge'.split():
    setattr(Everything, f'__{name}__', lambda self, other: True)
def f(*args, **named): return Everything()
"""
FORMS = """
assert {0}
assert not {0}
assert {0} == 1
assert 1 == {0}
assert {0} != 1
assert {0} is not None
assert {0} < 1
assert 1 <= {0} <= 3
assert {0} in [1]
assert 1 in {0}
assert {0} not in [2]
assert [{0}] == [1]
assert {{1: {0}}} == {{1: 1}}
assert ({0}, 1) == (1, 1)
assert callable({0})
assert isinstance({0}, object)
assert isinstance({0}, (int, str))
assert len({0}) == 1
assert list({0}) != [2]
assert sorted({0})
assert all([{0}])
assert any([{0}])
assert max([{0}, 1]) != 2
assert sum([{0}]) != 2
assert abs({0} - 1) < 1e-6
assert round({0}) == 1
assert int({0}) == 1
assert float({0}) == 1.0
assert str({0}) == '1'
assert f'{{{0}}}' == '1'
assert repr({0})
assert '%s' % {0} == '1'
assert hash({0}) == hash(1)
assert {{{0}}} != {{2}}
assert {0}[0] == 1
assert {0}.x == 1
assert {0}() == 1
assert 1 if {0} else 0
assert {0} or 0
assert {0} and 1
assert (lambda v: v == 1)({0})
assert [v for v in {0}] != [2]
assert next(iter({0})) == 1
assert {0} + 1 != 3
assert -{0} != 3
assert [1, 2][{0}] == 2
assert set([1, {0}]) == {{1}}
for v in {0}: assert v == 1
with {0} as v: assert v == 1
a, *b = {0}; assert a == 1
try:\n    assert {0} == 1\nexcept TypeError:\n    pass
try:\n    assert {0} == 1\nexcept BaseException:\n    pass
""".strip().split("\n")


@pytest.mark.parametrize("subject", ["f(1)", "Everything()", "Everything().x", "Everything().x()"])
def test_an_object_that_answers_everything_passes_no_form_of_test(verifier, subject):
    handle = subject.startswith("Everything")
    forms = [form.replace("\\n", "\n").format(subject) for form in FORMS]
    if handle:  # of which it is true, and which tells nothing of the program
        forms = [form for form in forms if "is not None" not in form]
    tests = [AssertTest(form, "f", ("Everything",)) for form in forms]
    (verdict,) = verifier.judge([(EVERYTHING, tests)])
    passed = [t.code for t, s in zip(tests, statuses(verdict), strict=True) if s not in FAILED]
    assert not passed


def test_subclasses_are_refused_or_reduced_by_the_base_type():
    program = (
        "class I(int):\n    __index__ = __int__ = __eq__ = lambda *a: True\n"
        "class L(list):\n    def __iter__(self): return iter([6])\n    def __len__(self): return 1\n"
        "class S(str):\n    def __str__(self): return 'right'\n    def encode(self, *a): return b'right'\n"
        "class D(dict):\n    def items(self): return [(1, 6)]\n"
        "def f(x): return [I(5), L([5]), S('wrong'), D()][x]"
    )
    expected = [6, [6], "right", {1: 6}]
    for equality in ("strict", "python", "evalplus", "livecodebench"):
        tests: list[Any] = [
            CallTest("f", (i,), e, equality=equality) for i, e in enumerate(expected)
        ]
        tests += [AssertTest(f"assert f({i}) == {e!r}") for i, e in enumerate(expected)]
        tests += [AssertTest(f"assert {e!r} == f({i})", "f") for i, e in enumerate(expected)]
        with Verifier(workers=1, limits=LIMITS) as verifier:
            (verdict,) = verifier.judge([(program, tests)])
        assert set(statuses(verdict)) == {"wrong answer"}


def test_a_program_provides_only_what_is_declared(verifier):
    """It defines helpers of the test and names of Python again; the test has its own."""
    program = (
        "def helper(x): return 6\nabs = len = sorted = all = helper\ndef f(x): return 6\n"
        "import math\nmath.floor = helper\nAssertionError = None"
    )
    codes = [
        "def helper(x): return -1\nassert f(3) == helper(3)",
        "assert abs(f(3)) == 7",
        "import math\nassert math.floor(5.5) == f(3)",
        "assert all([f(3) == 7])",
    ]
    (verdict,) = verifier.judge([(program, [AssertTest(code, "f") for code in codes])])
    assert set(statuses(verdict)) == {"wrong answer"}
    with pytest.raises(ValueError, match="uses helper, and neither it nor Python defines that"):
        verifier.judge([(program, [AssertTest("assert f(3) == helper(3)", "f")])])


def test_arguments_that_are_changed_in_place_are_changed_in_the_test(verifier):
    program = (
        "def f(x, d, s, *, key):\n    x.sort()\n    d['a'] = x[:]\n    s.add(1)\n    key[0][0] = 9\n"
        "def g(): yield from (1, 2)"
    )
    code = (
        "x, d, s, key = [3, 1], {}, set(), [[0]]\nf(x, d, s, key=key)\n"
        "assert x == [1, 3] and d == {'a': [1, 3]} and s == {1} and key == [[9]]"
    )
    tests = [
        AssertTest(code),
        AssertTest("assert list(g()) == [1, 2]"),
        AssertTest("assert g() != [1]"),
    ]
    (verdict,) = verifier.judge([(program, tests)])
    assert verdict.passed, verdict
    with pytest.raises(ValueError, match="gives the program a lambda"):
        verifier.judge([(program, [AssertTest("assert f(lambda x: x)", "f")])])


NODES = (
    "class Node:\n    def __init__(self, v=0, next=None):\n        self.v, self.next = v, next\n"
)


def test_nodes_cross_as_data_in_both_directions(verifier):
    reverse = "def f(n):\n    out = None\n    while n:\n        n.next, out, n = out, n, n.next\n    return out"
    code = (
        "def made(values):\n    n = None\n    for v in values[::-1]: n = Node(v, n)\n    return n\n"
        "def same(a, b):\n    while a and b and a.v == b.v: a, b = a.next, b.next\n    return a is b\n"
        "assert same(f(made([*range(300)])), made([*range(300)][::-1]))"
    )
    test = AssertTest(code, "f", nodes=NODES)
    own = "class Node:\n    def __init__(self, v): self.v, self.next = v, None\n"
    cheat = "class Node:\n    v = 1\n    def __eq__(self, other): return True\n    next = None\ndef f(n): return Node()"
    endless = NODES + "def f(n):\n    n.next = n\n    return n"
    for program, expected in (
        (reverse, "passed"),
        (own + reverse, "passed"),
        (cheat, "wrong answer"),
        (endless, "wrong answer"),
        ("def f(n): return 5", "runtime error"),
    ):
        (verdict,) = verifier.judge([(program, [test])])
        assert statuses(verdict) == [expected], (program, verdict)


def test_nothing_that_follows_from_an_expected_value_is_sent_to_the_program(monkeypatch):
    """Every byte that a program's process is sent, searched for what it should return."""
    sent: list[bytes] = []
    exchange = Program.exchange

    def logged(self, request, clock):
        sent.append(request)
        return exchange(self, request, clock)

    monkeypatch.setattr(Program, "exchange", logged)
    secret = "Xq7secretZ"
    nodes = f"assert f(Node(1)).v == 'x' and Node({secret!r}).v == {secret!r}"
    tests: list[Any] = [
        StdinTest("1", secret),
        CallTest("f", (1,), secret),
        CallTest("f", (1,), {secret: [secret]}, equality="evalplus"),
        AssertTest(f"assert f(1) == {secret!r}"),
        AssertTest(f"want = {secret!r}\nassert f(1) == want", "f"),
        AssertTest(f"def check(c):\n    assert c(1) == {secret!r}\n    assert c(2)\ncheck(f)"),
        AssertTest(nodes, "f", nodes=NODES),
    ]
    with Verifier(workers=1, limits=LIMITS) as verifier:
        verifier.judge([("def f(x): return x", tests)])
    assert len(sent) > len(tests)
    assert not any(secret.encode() in request for request in sent)


def test_random_numbers_of_a_test_are_stable_and_unknown_to_the_program():
    program = (
        "import random\ndef f(x):\n    guesses = []\n    for seed in (0, None, 1, 'f', b'f'):\n"
        "        random.seed(seed)\n        guesses.append(random.random())\n    return x in guesses"
    )
    drawn = AssertTest("import random\nassert f(random.random())", "f")
    seen = []
    for _ in range(2):
        with Verifier(workers=1, limits=LIMITS) as verifier:
            (verdict,) = verifier.judge([(program, [drawn])])
            assert statuses(verdict) == ["wrong answer"]
            told = AssertTest("import random\nraise ValueError(f(random.random()))", "f")
            (echo,) = verifier.judge([("def f(x): raise [KeyError, IndexError][x > .5]", [told])])
            seen.append(echo.tests[0].reason)
    assert seen[0] == seen[1]
