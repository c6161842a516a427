"""What `Verifier` promises: order, statuses, limits, restarts; a fault is never a reward."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from maxk.records import AssertTest, CallTest, Status, StdinTest, TestResult, Verdict
from maxk.verify import Limits, Verifier, VerifierSettings, WorkerFailed, child, jail, protocol
from maxk.verify.child import Child
from maxk.verify.clock import Clock, ProgramClock
from maxk.verify.isolation.probe import Kernel, probe
from maxk.verify.judge import choose_tier
from maxk.verify.program import Program
from maxk.verify.worker import Worker

DOUBLE = "print(int(input()) * 2)"
TESTS = [StdinTest(str(i), str(2 * i)) for i in range(6)]
FAST = Limits(cpu_seconds=0.4, wall_seconds=8)


@pytest.fixture(scope="module")
def verifier():
    with Verifier(workers=2, limits=FAST) as running:
        yield running


def statuses(verdict: Verdict) -> list[str]:
    return [test.status.value for test in verdict.tests]


def test_verdicts_come_in_the_order_of_the_programs(verifier):
    jobs = [(f"print({i})", [StdinTest("", str(i % 7))]) for i in range(60)]
    assert [v.fraction for v in verifier.judge(jobs)] == [float(i == i % 7) for i in range(60)]


def test_the_fraction_of_tests_passed_is_the_continuous_reward(verifier):
    (verdict,) = verifier.judge([("n = int(input()); print(n * 2 if n < 3 else 0)", TESTS)])
    assert verdict.fraction == verdict.reward() == 0.5
    assert verdict.reward("binary") == 0.0
    assert not verdict.passed
    assert verdict.tier == verifier.tier


@pytest.mark.parametrize(
    ("program", "status", "reason"),
    [
        ("print(3)", Status.WRONG_ANSWER, "got 3"),
        ("while True: pass", Status.TIMEOUT, "CPU limit"),
        ("import time; time.sleep(99)", Status.TIMEOUT, "wall clock limit"),
        ("x = 'a' * 10**10", Status.MEMORY, "MemoryError"),
        ("print('a' * 10**7)", Status.OUTPUT_LIMIT, "1048576 bytes"),
        ("\n\nraise KeyError(1)", Status.RUNTIME_ERROR, "KeyError at line 3"),
        ("def f():\n    return 1 / 0\nf()", Status.RUNTIME_ERROR, "ZeroDivisionError at line 2"),
        ("x = = 1", Status.DID_NOT_COMPILE, "SyntaxError at line 1"),
        ("", Status.WRONG_ANSWER, ""),
    ],
)
def test_each_way_to_fail_has_its_status_and_a_short_reason(verifier, program, status, reason):
    (verdict,) = verifier.judge([(program, [StdinTest("1", "2")])])
    assert verdict.tests[0].status is status
    assert verdict.tests[0].reason == reason


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("{'a': {2}}", "got {'a': {2}}"),
        ("frozenset()", "got frozenset()"),
        ("list(range(10**5))", "got [0, 1, 2, 3, 4, 5, ...]"),
        ("10**5000", "got 16610 bits"),
        ("'\\ud800'", "got '\\ud800'"),
    ],
)
def test_a_wrong_value_is_told_in_short(verifier, value, reason):
    test = CallTest("f", (), None)
    (verdict,) = verifier.judge([(f"def f(): return {value}", [test])])
    assert (verdict.tests[0].status, verdict.tests[0].reason) == (Status.WRONG_ANSWER, reason)


def test_a_long_wrong_output_is_cut(verifier):
    (verdict,) = verifier.judge([("print('ab' * 1000)", [StdinTest("", "x")])])
    assert verdict.tests[0].reason == "got " + "ab" * 40 + "..."


def test_a_test_that_dies_does_not_take_the_others_along(verifier):
    program = "import os\nn = int(input())\nif n == 1: os.abort()\nif n == 3: 1 / 0\nprint(n * 2)"
    (verdict,) = verifier.judge([(program, TESTS)])
    passed, died = "passed", "runtime error"
    assert statuses(verdict) == [passed, died, passed, died, passed, passed]


def test_restarts_are_capped(verifier):
    (verdict,) = verifier.judge([("while True: pass", TESTS * 10)])
    assert statuses(verdict) == ["timeout"] * 60
    assert verdict.tests[-1].reason == "not run: too many restarts"
    assert sum(test.seconds > 0 for test in verdict.tests) == 4
    assert sum(test.seconds for test in verdict.tests) < 5 * FAST.cpu_seconds


def test_after_a_timeout_the_other_tests_have_less_time():
    """Quick ones keep their credit; a program that never ends costs little more than one limit."""
    program = (
        "import time\nn = int(input())\ntakes = 9 if n == 1 else 0.5 * (n > 3)\n"
        "while time.process_time() < takes: pass\nprint(n * 2)"
    )
    passed, late = "passed", "timeout"
    for seconds, expected in (
        (0.3, [passed, late, passed, passed, late, late]),
        (4.0, [passed, late, passed, passed, passed, passed]),
    ):
        limits = Limits(cpu_seconds=1, wall_seconds=20, after_timeout=seconds)
        with Verifier(workers=1, limits=limits) as running:
            (verdict,) = running.judge([(program, TESTS)])
            assert statuses(verdict) == expected
    assert 0.9 < verdict.tests[1].seconds < 3
    assert Limits().after_timeout < Limits().cpu_seconds


def test_after_too_much_memory_the_other_tests_have_less_time_too():
    program = (
        "import time\nn = int(input())\nx = [0] * 10**9 if n == 1 else []\n"
        "while time.process_time() < 0.7 * (n > 3): pass\nprint(n * 2)"
    )
    limits = Limits(cpu_seconds=3, after_timeout=0.3)
    with Verifier(workers=1, limits=limits) as running:
        (verdict,) = running.judge([(program, TESTS)])
        (patient,) = running.judge([(program.replace("10**9", "10"), TESTS)])
    assert statuses(verdict) == [*("passed", "memory", "passed", "passed", "timeout", "timeout")]
    assert patient.passed


def test_leaving_by_os_exit_is_no_restart(verifier):
    (verdict,) = verifier.judge(
        [(DOUBLE + "\nimport os, sys\nsys.stdout.flush()\nos._exit(0)", TESTS)]
    )
    assert verdict.passed


@pytest.mark.parametrize(
    "program",
    [
        "print(int(open(0).read()) * 2)",
        "import sys; print(int(sys.stdin.buffer.readline()) * 2)",
        "import os; os.write(1, b'%d' % (2 * int(os.read(0, 99))))",
        "import sys; sys.stdout.write(str(int(next(sys.stdin)) * 2)); sys.exit()",
        "from sys import *\nstdout.buffer.write(b'%d' % (int(input()) * 2))",
        "import io, os, sys\nsys.stdin = io.BytesIO(os.read(0, os.fstat(0).st_size))\n"
        "print(int(sys.stdin.read()) * 2)",
        "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(2**26)\n"
        "t = threading.Thread(target=lambda: print(int(input()) * 2)); t.start(); t.join()",
        "if __name__ == '__main__':\n    print(int(input()) * 2)",
        "import atexit, sys, io\nout = sys.stdout = io.StringIO()\n"
        "atexit.register(lambda: sys.__stdout__.write(out.getvalue()))\nprint(int(input()) * 2)",
        "class F:\n    def __init__(self, f): self.mode, self.fd = f.mode, f.fileno()\n"
        "import sys; F(sys.stdin), F(sys.stdout)\nprint(int(input()) * 2)",
    ],
)
def test_all_the_ways_in_which_programs_read_and_print(verifier, program):
    (verdict,) = verifier.judge([(program, TESTS)])
    assert verdict.passed, verdict


def test_a_large_input_arrives_whole(verifier):
    text = "x" * 40_000_000
    (verdict,) = verifier.judge([("print(len(input()))", [StdinTest(text, "40000000")])])
    assert verdict.passed


def test_functions_and_methods_are_called(verifier):
    program = "def f(a, b=1): return [a, b]\nclass Solution:\n    def g(self, s): return s | {3}"
    tests = [
        CallTest("f", (1,), [1, 1]),
        CallTest("f", ("a", None), ["a", None]),
        CallTest("Solution().g", ({1},), {1, 3}),
        CallTest("f", ({"k": (1, 2.0)},), [{"k": (1, 2.0)}, 1]),
        CallTest("f", (1,), (1, 1)),
        CallTest("h", (), 1),
    ]
    (verdict,) = verifier.judge([(program, tests)])
    assert statuses(verdict) == ["passed"] * 4 + ["wrong answer", "runtime error"]


def test_assert_lines_and_check_functions(verifier):
    program = "LIMIT = 3\ndef f(x):\n    if x > LIMIT: raise ValueError('big')\n    return {x: [x]}"
    tests = [
        AssertTest("assert f(1) == {1: [1]}"),
        AssertTest("assert f(1) == {1: [2]}"),
        AssertTest(
            "N = 3\ndef check(g):\n    assert all(g(i)[i] == [i] for i in range(N))\ncheck(f)"
        ),
        AssertTest("try:\n    f(9)\nexcept ValueError:\n    pass\nelse:\n    assert False"),
        AssertTest("import math\nassert math.isclose(list(f(2))[0], 2.0)"),
        AssertTest("f(9)"),
        AssertTest("assert nobody_defines_this(1)"),
    ]
    (verdict,) = verifier.judge([(program, tests)])
    passed, wrong, error = "passed", "wrong answer", "runtime error"
    assert statuses(verdict) == [passed, wrong, passed, passed, passed, error, error]


def test_objects_of_the_program_can_be_made_passed_and_changed_by_test_code(verifier):
    program = (
        "class Node:\n    def __init__(self, v): self.v, self.next = v, None\n"
        "def total(n): return n.v + (total(n.next) if n.next else 0)\n"
        "def kind(x, t): return isinstance(x, t)\n"
        "def sum(a, b): return a * b"
    )
    tests = [
        AssertTest(
            "a, b = Node(1), Node(2)\na.next = b\nassert total(a) == 3 and a.next == b",
            function="total",
            classes=("Node",),
        ),
        AssertTest("assert kind(1, int) and not kind(1, str)"),
        AssertTest("assert sum(2, 3) == 6", function="sum"),
        AssertTest("assert sum([2, 3]) == 5"),
    ]
    (verdict,) = verifier.judge([(program, tests)])
    assert statuses(verdict) == ["passed"] * 4


def test_code_of_a_test_sees_nothing_of_the_tests_before_it(verifier):
    program = "def f(x): return x"
    tests = [
        AssertTest("mine = 5\nimport random\nfirst = random.random()\nassert f(mine) == 5"),
        AssertTest("assert mine == 5"),
        AssertTest("import random\nassert f(random.random()) != 0.8444218515250481"),  # of seed 0
        AssertTest("assert f(1) == 2"),
        AssertTest("assert f(1) == 1"),
    ]
    (verdict,) = verifier.judge([(program, tests)])
    passed, wrong, error = "passed", "wrong answer", "runtime error"
    assert statuses(verdict) == [passed, error, passed, wrong, passed]


def test_one_process_runs_the_test_code_of_a_program_until_something_breaks_it():
    program = (
        "import os\ndef f(x):\n    if x == 3: os._exit(1)\n    while x == 4: pass\n"
        "    if x == 6: raise MemoryError\n    return x"
    )

    def processes(*numbers: int) -> tuple[int, list[str]]:
        with Verifier(workers=1, limits=FAST) as own:
            tests = [AssertTest(f"assert {i} == f({i})") for i in numbers]
            (verdict,) = own.judge([(program, tests)])
            (worker,) = own.workers
            return worker.job + worker.second().job, statuses(verdict)

    passed = "passed"
    assert processes(1, 2, 5) == (2, [passed] * 3)
    assert processes(1, 3, 5) == (4, [passed, "runtime error", passed])
    assert processes(1, 4, 5) == (4, [passed, "timeout", passed])
    assert processes(1, 6, 7) == (3, [passed, "memory", passed])


def test_test_code_has_the_cpu_limit_for_every_test_anew(verifier):
    slow = (
        "import time\nend = time.process_time() + 0.25\nwhile time.process_time() < end: pass\nf(1)"
    )
    (verdict,) = verifier.judge([("def f(x): return x", [AssertTest(slow)] * 4)])
    assert statuses(verdict) == ["passed"] * 4
    endless = [AssertTest("while True: pass"), AssertTest("assert 1 == f(1)")]
    (verdict,) = verifier.judge([("def f(x): return x", endless)])
    assert statuses(verdict) == ["timeout", "passed"]


def test_isolated_tests_do_not_see_each_other():
    kinds: list[tuple[Any, float]] = [("program", 1 / 3), ("test", 1.0)]
    program = "import math\nprint(getattr(math, 'seen', 0))\nmath.seen = 1"
    tests = [StdinTest("", "0")] * 3
    for isolate, fraction in kinds:
        with Verifier(workers=1, isolate=isolate) as verifier:
            assert verifier.judge([(program, tests)])[0].fraction == fraction


def test_string_hashes_and_so_the_order_of_sets_are_the_same_every_time():
    outputs = set()
    for _ in range(2):
        with Verifier(workers=1) as verifier:
            program = "def f(): return ''.join(set('abcdefghijklmnop'))"
            outputs.update(verifier.call(program, "f", [()]))
    assert len(outputs) == 1


def test_with_two_hash_seeds_only_what_passes_under_both_counts():
    """The order of a set of texts follows from the seed; sorted() does not."""
    lucky = "def f(): return ''.join(set('abcdefghijkl'))\ndef g(): return sorted(set('cab'))[0]"
    with Verifier(workers=1) as once:
        (first,) = once.call(lucky, "f", [()])
        tests = [CallTest("f", (), first), CallTest("g", (), "a"), CallTest("g", (), "b")]
        (verdict,) = once.judge([(lucky, tests)])
        assert [test.status for test in verdict.tests] == [
            Status.PASSED,
            Status.PASSED,
            Status.WRONG_ANSWER,
        ]
        assert "hash_seeds" not in VerifierSettings.of(once).of_verdicts()
    with Verifier(workers=1, hash_seeds=2) as twice:
        jobs = [(lucky, tests), (lucky, []), ("def", tests)]
        verdict, empty, broken = twice.judge(jobs)
        assert [test.status for test in verdict.tests] == [
            Status.WRONG_ANSWER,
            Status.PASSED,
            Status.WRONG_ANSWER,
        ]
        assert verdict.tests[0].reason.startswith("with another hash seed: got ")
        assert empty.tests == ()
        assert broken.status == "did not compile"
        twice.workers[1].close()  # each seed has its jail, which is replaced like any other
        assert twice.judge(jobs)[0].tests[0].status is Status.WRONG_ANSWER
        settings = VerifierSettings.of(twice)
    assert settings.of_verdicts()["hash_seeds"] == 2
    with pytest.raises(ValueError, match="hash_seeds=0 must be at least 1"):
        Verifier(hash_seeds=0)


def test_a_program_may_end_itself_by_any_signal(verifier):
    numbers = [int(number) for number in sorted(signal.valid_signals())]
    program = "import signal\nsignal.raise_signal(int(input()))\nwhile True: pass"
    jobs = [(program, [StdinTest(str(number), "none")]) for number in numbers]
    verdicts = verifier.judge([*jobs, (DOUBLE, TESTS)])
    reasons = {n: v.tests[0].reason for n, v in zip(numbers, verdicts[:-1], strict=True)}
    assert reasons[signal.SIGSEGV] == "SIGSEGV"
    assert reasons[signal.SIGRTMIN + 5] == f"signal {signal.SIGRTMIN + 5}"
    assert not any(v.passed for v in verdicts[:-1])
    assert verdicts[-1].passed


def test_a_killed_zygote_is_replaced_and_no_program_pays_for_it():
    limits = Limits(cpu_seconds=0.4, wall_seconds=60)
    with Verifier(workers=2, limits=limits) as verifier:
        stop = threading.Event()
        killed: list[object] = []

        def kill_after_some_programs() -> None:
            while not stop.wait(0.01):
                worker = verifier.workers[0]
                # By programs, not by time: where a start is slow, one would lose three zygotes.
                if worker not in killed and worker.job >= 50:
                    worker.process.kill()
                    killed.append(worker)

        killer = threading.Thread(target=kill_after_some_programs)
        killer.start()
        try:
            verdicts = verifier.judge([(DOUBLE, TESTS)] * 400)
        finally:
            stop.set()
            killer.join()
        assert killed
        assert len(verdicts) == 400
        assert all(v.passed for v in verdicts)


@pytest.mark.parametrize("starts", [1, 2, 3])
def test_a_zygote_killed_while_it_starts_is_started_again_twice(starts, monkeypatch):
    killed: list[Worker] = []

    def ready(worker: Worker) -> None:
        if len(killed) < starts:
            worker.process.kill()
            killed.append(worker)
        wait(worker)

    with Verifier(workers=1, limits=Limits(wall_seconds=60)) as verifier:
        wait = Worker.ready
        monkeypatch.setattr(Worker, "ready", ready)
        verifier.workers[0].close()
        if starts < 3:
            assert all(v.passed for v in verifier.judge([(DOUBLE, TESTS)] * 2))
        else:
            with pytest.raises(WorkerFailed, match="SIGKILL"):
                verifier.judge([(DOUBLE, TESTS)])
        assert len(killed) == starts


def test_a_zygote_killed_while_a_program_runs_says_so():
    with Verifier(workers=1, limits=Limits(wall_seconds=60)) as verifier:
        worker = verifier.workers[0]
        killer = threading.Timer(0.5, worker.process.kill)
        killer.start()
        with pytest.raises(WorkerFailed, match="SIGKILL"):
            worker.judge("import time\ntime.sleep(60)", [StdinTest("", "1")])
        killer.join()


def test_a_machine_that_cannot_run_programs_raises_and_does_not_score(monkeypatch):
    with Verifier(workers=1, limits=FAST) as verifier:
        monkeypatch.setattr(sys, "executable", "/bin/false")
        verifier.workers[0].close()
        with pytest.raises(WorkerFailed):
            verifier.judge([(DOUBLE, TESTS)])


def test_a_busy_machine_changes_no_verdict():
    """Work for two thirds of the CPU limit while all cores are taken: CPU time decides."""
    program = "import time\nwhile time.process_time() < 0.25: pass\n" + DOUBLE
    jobs = [(program, TESTS[:1]), ("while True: pass", TESTS[:1])] * 2
    burn = [sys.executable, "-c", "while True: pass"]
    with Verifier(workers=2, limits=Limits(cpu_seconds=0.4, wall_seconds=20)) as verifier:
        idle = [statuses(v) for v in verifier.judge(jobs)]
        load = [subprocess.Popen(burn) for _ in range(4)]
        try:
            busy = [statuses(v) for v in verifier.judge(jobs)]
        finally:
            for process in load:
                process.kill()
                process.wait()
    assert idle == busy == [["passed"], ["timeout"]] * 2


def test_workers_end_when_the_process_that_started_them_is_killed():
    code = (
        "import os, sys\nfrom maxk.verify import Verifier\n"
        "v = Verifier(workers=1)\nprint(v.workers[0].process.pid, flush=True)\n"
        "from maxk.records import StdinTest\nv.judge([('while True: pass', [StdinTest('', '')])])"
    )
    judge = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert judge.stdout is not None
    pid = int(judge.stdout.readline())
    time.sleep(0.5)
    judge.kill()
    judge.wait()
    judge.stdout.close()
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{pid}")


def test_a_worker_at_rest_takes_less_than_60_mb(verifier):
    with open(f"/proc/{verifier.workers[0].process.pid}/status") as file:
        resident = next(line for line in file if line.startswith("VmRSS"))
    assert int(resident.split()[1]) < 60_000


def test_without_a_tier_programs_run_only_on_request():
    nothing = Kernel(namespaces=True, landlock=False, seccomp=True)
    with pytest.raises(RuntimeError, match=r"no landlock.*Linux 5\.13.*allow_unsafe=True"):
        choose_tier(nothing, None, allow_unsafe=False)
    assert choose_tier(nothing, None, allow_unsafe=True) == "U"
    with pytest.raises(RuntimeError, match="needs user namespaces"):
        choose_tier(Kernel(False, True, True), "A", allow_unsafe=True)


def test_closing_a_worker_twice_closes_no_descriptor_of_another():
    verifier = Verifier(workers=1)
    verifier.close()
    mine = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]  # the numbers are taken again
    verifier.close()
    for fd in mine:
        os.close(fd)


def test_no_programs_and_no_tests(verifier):
    assert verifier.judge([]) == []
    (verdict,) = verifier.judge([(DOUBLE, [])])
    assert verdict.fraction == 0.0
    assert not verdict.passed


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="workers=0 must be at least 1"):
        Verifier(workers=0)
    with pytest.raises(ValueError, match="kind='half' is unknown"):
        Verdict((TestResult(Status.PASSED),), "A").reward("half")  # pyright: ignore[reportArgumentType]


def test_threads_may_share_a_verifier(verifier):
    results = {}

    def judge(number: int) -> None:
        jobs = [(f"print({number} * {i})", [StdinTest("", str(number * i))]) for i in range(20)]
        results[number] = [v.fraction for v in verifier.judge(jobs)]

    threads = [threading.Thread(target=judge, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: [1.0] * 20 for number in range(4)}


def test_a_fork_of_the_process_may_not_use_its_verifier(verifier):
    pid = os.fork()
    if pid == 0:
        try:
            verifier.judge([(DOUBLE, TESTS)])
        except RuntimeError as error:
            os._exit(7 if "make a Verifier in each process" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert verifier.judge([(DOUBLE, TESTS)])[0].passed


def test_a_closed_verifier_says_so():
    with Verifier(workers=1) as closed:
        pass
    with pytest.raises(RuntimeError, match="this Verifier is closed"):
        closed.judge([(DOUBLE, TESTS)])


def test_a_process_with_thousands_of_descriptors_can_judge():
    # select() knows descriptors below 1024 only.
    code = (
        "import os, resource\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))\n"
        "held = [os.open('/dev/null', os.O_RDONLY) for _ in range(1500)]\n"
        "from maxk.records import StdinTest\n"
        "from maxk.verify import Verifier\n"
        "with Verifier(workers=1) as v:\n"
        f"    print(v.judge([({DOUBLE!r}, [StdinTest('2', '4')])])[0].fraction)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "1.0\n", run.stderr


@pytest.mark.parametrize("tier", ["A", "B"])
@pytest.mark.parametrize("held", [0, 36, 60, 1500])
def test_a_program_has_no_descriptor_but_its_own(tier, held):
    """However many the judge has: the channel to the zygote must not reach a program."""
    if probe().tier == "B" and tier == "A":
        pytest.skip("this machine has no user namespaces: tier B")
    look = (
        "import os\\nfound = []\\nfor fd in range(5000):\\n    try: os.fstat(fd)\\n"
        "    except OSError: continue\\n    found.append(fd)\\nprint(*found)"
    )
    code = (
        "import os, resource\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))\n"
        f"held = [os.open('/dev/null', os.O_RDONLY) for _ in range({held})]\n"
        "from maxk.records import StdinTest\n"
        "from maxk.verify import Verifier\n"
        f"with Verifier(workers=3, tier={tier!r}) as v:\n"
        f"    jobs = [('{look}', [StdinTest('', '0 1 2 40 41 42')])] * 6\n"
        "    print([verdict.fraction for verdict in v.judge(jobs)])\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == f"{[1.0] * 6}\n", run.stderr


def test_verdicts_are_reported_as_they_come(verifier):
    seen = {}
    jobs = [(f"print({i})", [StdinTest("", str(i % 3))]) for i in range(20)]
    verdicts = verifier.judge(jobs, done=seen.__setitem__)
    assert [seen[i] for i in range(20)] == verdicts


def test_an_error_in_the_callback_is_raised_and_the_verifier_goes_on(verifier):
    def fail(i, verdict):
        raise KeyError(i)

    with pytest.raises(KeyError):
        verifier.judge([(DOUBLE, TESTS)] * 4, done=fail)
    assert verifier.judge([(DOUBLE, TESTS)])[0].passed


def test_arguments_that_no_program_could_be_given_are_named(verifier):
    import numpy as np

    for bad in (np.arange(3), bytearray(b"a"), object()):
        with pytest.raises(ValueError, match=r"args=.* of a CallTest: a .* is not a plain value"):
            verifier.judge([("def f(x): return 1", [CallTest("f", (bad,), 1)])])


def test_one_list_in_two_places_arrives_as_two(verifier):
    row = [0, 0]
    program = "def f(grid):\n    grid[0][0] = 1\n    return grid"
    test = CallTest("f", ([row, row],), [[1, 0], [0, 0]])
    assert verifier.judge([(program, [test])])[0].passed


def test_tests_made_on_the_fly_are_never_mistaken_for_each_other(verifier):
    class Lazy(list):
        """A new object at every reading, so that addresses are used again."""

        def __init__(self, i: int) -> None:
            super().__init__([i])

        def __iter__(self):
            i = self[0]
            return (CallTest("f", (i + j,), i + j) for j in range(3))

    jobs = [("def f(x): return x", Lazy(10 * i)) for i in range(50)]
    assert all(verdict.passed for verdict in verifier.judge(jobs))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has another user to become")
@pytest.mark.parametrize("tier", [t for t in "AB" if t == "B" or probe().tier == "A"])
def test_root_becomes_a_real_other_user_in_every_jail(tier):
    with Verifier(workers=2, tier=tier) as v:
        users = []
        for worker in v.workers:
            for own in (worker, worker.second()):
                process = Child(own, 1)
                process.exchange(b"C", Clock(own.limits, ProgramClock(own.limits)))
                pids = [*pids_below(own.process.pid), *[own.process.pid] * (tier == "B")]
                ids = {frozenset(uids_of(pid)) for pid in pids}
                assert len(ids) == 1  # the zygote and its child
                users.append(*ids)
                process.close()
    assert all(len(ids) == 1 and 0 not in ids for ids in users), users
    assert len(set(users)) == 4  # no two jails have the same


def uids_of(pid: int) -> set[int]:
    """Real, effective, saved and file-system uid of a process, seen from outside."""
    with open(f"/proc/{pid}/status") as file:
        line = next(line for line in file if line.startswith("Uid:"))
    return set(map(int, line.split()[1:]))


def test_a_zygote_killed_with_a_message_unread_is_a_fault_of_the_machine():
    with Verifier(workers=1) as v:
        (worker,) = v.workers
        below = [worker.process.pid, *pids_below(worker.process.pid)]
        for pid in below:
            os.kill(pid, signal.SIGSTOP)
        worker.send(protocol.KILL, 1)
        for pid in below:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorkerFailed, match="the zygote does not answer"):
            worker._receive(protocol.EXIT, 10.0, 1)


def changed_zygote(folder, monkeypatch, lines: str) -> None:
    """Put lines where a process takes its limits on, which knows the number of CPU seconds."""
    source = jail._ZYGOTE.read_text()
    line = "        limits.limit(resource.RLIMIT_CPU, cpu_seconds)\n"
    assert source.count(line) == 1
    (folder / "zygote.py").write_text(source.replace(line, line + lines))
    for name in ("wire", "protocol", "channel", "runner", "tester", "plain"):
        shutil.copy(jail._ZYGOTE.with_name(f"{name}.py"), folder)
    shutil.copytree(jail._ZYGOTE.with_name("isolation"), folder / "isolation")
    monkeypatch.setattr(jail, "_ZYGOTE", folder / "zygote.py")


def test_a_process_that_cannot_lock_itself_in_is_no_fault_of_the_program(tmp_path, monkeypatch):
    """Neither that of the program nor the one for the code of its tests.

    No kernel that passes the checks at the start refuses it later, so that the refusal is made up:
    it meets a process that asks for more than 100 s of CPU time.
    """
    refusal = "        if cpu_seconds > 100:\n            raise OSError('refused')\n"
    changed_zygote(tmp_path, monkeypatch, refusal)
    double = "def double(x): return 2 * x"
    test = AssertTest("for i in range(3):\n    assert double(i) == 2 * i", "double")
    with Verifier(workers=1, limits=Limits(cpu_seconds=4)) as verifier:
        (worker,) = verifier.workers
        with pytest.raises(WorkerFailed, match="lock itself in: OSError"):
            worker.judge(double, [test for _ in range(100)])
        clock = ProgramClock(worker.limits)
        program = Program(worker, 1, {}, clock, worker.second)
        assert program.compile(double) is None
        program.tests = 100  # for the other process
        with pytest.raises(WorkerFailed, match="lock itself in: OSError"):
            program.run(test)
        program.close()
        assert [result.status for result in worker.judge(double, [test])] == [Status.PASSED]


def test_a_program_larger_than_its_memory_is_its_own_fault():
    """Its process ends while the judge still sends: not before it was locked in, for all that."""
    program = "x" * (70 * 2**20)
    with Verifier(workers=1, limits=Limits(memory_bytes=64 * 2**20)) as verifier:
        (verdict,) = verifier.judge([(program, TESTS)])
    assert {result.status for result in verdict.tests} == {Status.DID_NOT_COMPILE}


def test_a_process_that_ends_before_it_is_locked_in_is_no_fault_of_the_program(monkeypatch):
    """It is handed a descriptor too few, and does not know which is its channel."""
    send = Worker.send

    def one_less(self, kind, job, number=0, fds=()):
        send(self, kind, job, number, fds[:1] * 3)

    with Verifier(workers=1, limits=FAST) as verifier:
        (worker,) = verifier.workers
        monkeypatch.setattr(Worker, "send", one_less)
        with pytest.raises(WorkerFailed, match="before it was locked in: exited with 1"):
            worker.judge(DOUBLE, [*TESTS])
        monkeypatch.undo()
        assert {result.status for result in worker.judge(DOUBLE, [*TESTS])} == {Status.PASSED}


def test_a_process_that_never_starts_is_no_fault_of_the_program(tmp_path, monkeypatch):
    """It hangs before it can say that it is locked in."""
    changed_zygote(tmp_path, monkeypatch, "        while cpu_seconds > 100: pass\n")
    with Verifier(workers=1, limits=Limits(cpu_seconds=2)) as verifier:
        (worker,) = verifier.workers
        monkeypatch.setattr(child, "_START", 0.5)
        with pytest.raises(WorkerFailed, match="a child did not start"):
            worker.judge(DOUBLE, [*TESTS] * 50)
        monkeypatch.setattr(child, "_START", 120.0)
        assert {result.status for result in worker.judge(DOUBLE, [*TESTS])} == {Status.PASSED}


def pids_below(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        children = [int(child) for child in file.read().split()]
    return children + [below for child in children for below in pids_below(child)]


def test_random_numbers_are_the_same_every_time(verifier):
    program = "import random\ndef f(): return random.random()"
    ((first,), (second,)) = (verifier.call(program, "f", [()]) for _ in range(2))
    assert first == second
    script = "import random\nprint(random.random())"
    jobs = [(script, [StdinTest("", str(first))])] * 8  # on several workers
    assert all(verdict.passed for verdict in verifier.judge(jobs))
    with Verifier(workers=1) as other:
        assert other.call(program, "f", [()]) == [first]


def test_a_call_gives_values_with_their_types_and_says_what_failed(verifier):
    program = (
        "def f(x):\n    if x == 1: return {'a': (1, {2}), 3: [None, 1.5]}\n"
        "    if x == 2: raise KeyError\n    if x == 3:\n        while True: pass\n"
        "    if x == 4: return object()\n    return x"
    )
    values = verifier.call(program, "f", [(1,), (2,), (3,), (4,), (5,)])
    assert values[0] == {"a": (1, {2}), 3: [None, 1.5]}
    assert [v.status for v in values[1:4]] == [
        Status.RUNTIME_ERROR,
        Status.TIMEOUT,
        Status.WRONG_ANSWER,
    ]
    assert values[4] == 5
    (failed,) = verifier.call("def f(:", "f", [(1,)])
    assert failed.status is Status.DID_NOT_COMPILE
