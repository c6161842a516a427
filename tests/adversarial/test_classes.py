"""At least five programs for every class of attack, and those that go through other checkers.

Each is judged with an honest program behind it, in tiers A and B. It earns nothing: what it would
have to give for a reward it can only learn, forge or borrow.
"""

import os
import platform

import pytest

from maxk.data.base import Account
from maxk.data.constants import constant_programs, with_tests_that_ask
from maxk.records import AssertTest, CallTest, Problem, Status, StdinTest, Test
from maxk.verify import Limits, Verifier
from tests.adversarial.test_boundary import SAY, SPOKEN
from tests.adversarial.test_hostile import ASSERTS, CALLS, PROGRAMS
from tests.adversarial.test_two_jails import LEAVES_TRACES
from tests.clock import cpu_seconds
from tests.peer.attacks import MACHINE, REWARD, WRONG

HONEST = "def f(x): return 2 * x"
TESTS: list[Test] = [
    CallTest("f", (3,), 6),
    AssertTest("for i in (4, 10):\n    assert f(i) == 2 * i", "f"),
]
LIMITS = Limits(cpu_seconds=0.2, wall_seconds=1.5, after_timeout=0.05, memory_bytes=192 * 2**20)


@pytest.fixture(scope="module")
def verifier(tier):
    with Verifier(workers=1, limits=LIMITS, tier=tier) as running:
        yield running


def said(data: str) -> str:
    """A program that says these bytes, in hexadecimal, whatever it is asked."""
    return f"{SAY}\nsay(bytes.fromhex('{data}'))\ndef f(x): return -1\n"


CHANNEL = {
    "the answer to another question": f"{SAY}\nanswer(channel, bytes.fromhex('3d690000000108'))\n{WRONG}",
    "a number of its own": "import os\ndef f(x):\n"
    "    os.write(40, bytes([0, 0, 0, 15]) + os.urandom(8) + bytes.fromhex('3d690000000106'))\n"
    "    while True: pass\n",
    "half a frame, then the end": "import os\ndef f(x):\n    os.write(40, bytes([0, 0, 0, 99]) + b'x')\n"
    "    os._exit(0)\n",
    "an integer in too many bytes": said("3d69000000020006"),
    "a handle for a value": said("3d68" + "00" * 8),
    "a name of Python's for a value": said("3d6e0000000465786974"),
    "members that are there twice": said("3d5300000002690000000106690000000106"),
    "a key that cannot be hashed": said("3d64000000016c000000004e"),
    "text that is not UTF-8": said("3d7300000001ff"),
    "a count of four billion": said("3d6cffffffff"),
    "done, and nothing else": said("2e"),
}
BUDGET = {
    "threads that share the work": "import threading\ndef work():\n    while True: pass\n"
    "def f(x):\n    for _ in range(4): threading.Thread(target=work, daemon=True).start()\n    work()\n",
    "one call that does not come back": "def f(x): return sum(range(10**12))\n",
    "a result whose end loops": "class A(int):\n    def __del__(self):\n        while True: pass\n"
    "def f(x):\n    A(1)\n    return 2 * x\n",
    "the limit caught": "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
    "def f(x):\n    while True: pass\n",
    "work before the first answer": "while True: pass\n" + HONEST,
    "a conversion that is slow": "import sys\nsys.set_int_max_str_digits(0)\n"
    "def f(x): return int('9' * 10**7)\n",
    "short naps": "import time\ndef f(x):\n    while True: time.sleep(0.01)\n",
}
CROSSES = {
    "an int that lies": "class I(int):\n    def __eq__(self, o): return True\n"
    "    __index__ = __int__ = lambda self: 6\ndef f(x): return I(-1)\n",
    "a list that lies": "class L(list):\n    def __iter__(self): return iter([6])\n"
    "    def __eq__(self, o): return True\ndef f(x): return L([1])\n",
    "a metaclass that lies": "class M(type):\n    def __eq__(self, o): return True\n"
    "    __hash__ = type.__hash__\nclass A(metaclass=M): pass\ndef f(x): return A\n",
    "NotImplemented": "def f(x): return NotImplemented\n",
    "an endless iterator": "import itertools\ndef f(x): return itertools.repeat(2 * x)\n",
    "a function": "def f(x): return f\n",
    "an exception as a value": "def f(x): return AssertionError()\n",
    "an AssertionError": "def f(x): raise AssertionError\n",
    "a class in place of the function": "class f:\n    def __init__(self, x): pass\n"
    "    def __eq__(self, o): return True\n",
    "an array that lies": "import numpy as np\nclass A(np.ndarray):\n"
    "    def __eq__(self, o): return True\ndef f(x): return np.zeros(1).view(A)\n",
}


def call(number: int, *arguments: object) -> str:
    """A program that returns the right answer if the kernel does this for it."""
    listed = ", ".join(map(str, (number, *arguments)))
    return (
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        f"def f(x): return 2 * x if libc.syscall({listed}) >= 0 else -1\n"
    )


KERNEL = {  # on x86-64
    "ptrace": call(101, 0, 0, 0, 0),
    "unshare": call(272, 0x10000000),
    "mount": call(165, 0, 'b"/tmp"', 'b"tmpfs"', 0, 0),
    "keyctl": call(250, 0, -3, 1),
    "perf_event_open": call(298, "b'\\0' * 128", 0, -1, -1, 0),
    "userfaultfd": call(323, 1),
    "process_vm_readv": call(310, "os.getppid()", 0, 0, 0, 0, 0),
    "pidfd_open": call(434, "os.getpid()", 0),
    "io_uring_setup": call(425, 1, "bytes(120)"),
    "memfd_create": call(319, 'b"x"', 0),
    "socket": call(41, 1, 1, 0),
    "bpf": call(321, 0, "bytes(48)", 48),
}
ELSEWHERE = {
    name: program.format(mark="/tmp/maxk-mark", port=9) for name, program in MACHINE.items()
}
CLASSES = {
    "the channel": CHANNEL,
    "one budget": BUDGET,
    "what crosses": CROSSES,
    "the kernel": KERNEL,
    "what earns a reward elsewhere": REWARD,
    "what reaches the machine elsewhere": {n: p + WRONG for n, p in ELSEWHERE.items()},
}


@pytest.mark.parametrize("name", CLASSES)
def test_no_program_of_a_class_earns_anything(verifier, name):
    if name == "the kernel" and platform.machine() != "x86_64":
        pytest.skip("system calls have other numbers here")
    programs = CLASSES[name]
    jobs = [(program, TESTS) for each in programs.values() for program in (each, HONEST)]
    verdicts = verifier.judge(jobs)
    earned = [n for n, v in zip(programs, verdicts[::2], strict=True) if v.fraction]
    assert earned == []
    assert all(verdict.passed for verdict in verdicts[1::2])
    assert not os.path.exists("/tmp/maxk-mark")


OUTPUTS = {
    "digits": "'7' * 10**6",
    "signs": "'+-' * 500_000",
    "dots": "'1.' * 500_000",
    "exponents": "'1e5' * 300_000",
    "blanks": "' ' * 999_999 + '2'",
    "line ends": "'\\n' * 999_999 + '2'",
    "tokens": "'1.5 ' * 250_000",
}


def test_no_output_keeps_the_judge_busy(verifier):
    """The CPU time of the judge for a megabyte, compared as tokens, numbers and lines."""
    tests: list[Test] = [
        StdinTest("", "1.5 2.5"),
        StdinTest("", "1.5 2.5", tolerance=1e-6),
        StdinTest("", "1.5 2.5", equality="livecodebench"),
    ]
    jobs = [(f"print({text}, end='')", tests) for text in OUTPUTS.values()]
    verdicts = []
    seconds = cpu_seconds(lambda: verdicts.extend(verifier.judge(jobs)))
    assert {test.status for v in verdicts for test in v.tests} == {Status.WRONG_ANSWER}
    assert seconds < 0.2 * len(jobs)


def test_programs_that_do_not_look_at_their_task_earn_nothing(verifier):
    """Of tests as HumanEval has them, with `assert True` among them."""
    asserts = ("assert True", "assert candidate(3) == 6", "assert True, 'fine'")
    codes = [f"def check(candidate):\n    {line}\ncheck(f)" for line in asserts]
    given = Problem("p", "?", tuple(AssertTest(code, "f") for code in codes), entry_point="f")
    problem = with_tests_that_ask(given, Account())
    assert problem is not None
    programs = constant_programs(problem)
    verdicts = verifier.judge([(program, problem.tests) for program in programs.values()])
    assert [v.fraction for v in verdicts] == [0.0] * len(programs)


def test_there_are_enough_programs_of_every_class():
    tables = [PROGRAMS, CALLS, ASSERTS, SPOKEN, LEAVES_TRACES, *CLASSES.values(), OUTPUTS]
    assert sum(map(len, tables)) >= 130
    most = {"what earns a reward elsewhere": 4}  # which other checkers let through
    assert all(len(programs) >= most.get(name, 5) for name, programs in CLASSES.items())
    assert len(OUTPUTS) >= 5
    assert len(LEAVES_TRACES) >= 5
