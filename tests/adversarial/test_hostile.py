"""Hostile programs, one property each. Each scores what it honestly earns, and harms nobody else.

After every one an honest program is judged by the same worker and must pass all its tests.
"""

import os
import time
from collections.abc import Iterator

import pytest

import maxk
from maxk.records import AssertTest, CallTest, Status, StdinTest
from maxk.verify import Limits, Verifier, judge

TESTS = [StdinTest("3", "6"), StdinTest("5", "10")]
HONEST = "print(int(input()) * 2)"
RIGHT = "print(int(input()) * 2)\n"  # for programs that answer and misbehave beside it

ANY_FAILURE = set(Status) - {Status.PASSED}
RUNTIME, TIMEOUT, MEMORY = {Status.RUNTIME_ERROR}, {Status.TIMEOUT}, {Status.MEMORY}
WRONG, OUTPUT, COMPILE = {Status.WRONG_ANSWER}, {Status.OUTPUT_LIMIT}, {Status.DID_NOT_COMPILE}
PASSES = {Status.PASSED}

# Until the wall clock stops them, once for each test; one test says as much.
WAITING = {"sleep", "patched builtins", "patched runner"}

# name: (program, the status that both tests must have)
PROGRAMS: dict[str, tuple[str, set[Status]]] = {
    # leaving early
    "os._exit without an answer": ("import os; os._exit(0)", WRONG),
    "os._exit after an answer": (RIGHT + "import os, sys; sys.stdout.flush(); os._exit(0)", PASSES),
    "posix._exit with a code": ("import posix; posix._exit(3)", RUNTIME),
    "silent sys.exit": ("import sys; sys.exit(0)", WRONG),
    "sys.exit after an answer": (RIGHT + "import sys; sys.exit(0)", PASSES),
    "raise SystemExit in a thread": (
        "import threading\nt = threading.Thread(target=exit); t.start(); t.join()", WRONG),
    "atexit prints the answer, as a script may": (
        "import atexit; n = int(input()); atexit.register(lambda: print(n * 2))", PASSES),
    "atexit never ends": ("import atexit\n@atexit.register\ndef f():\n    while True: pass", TIMEOUT),
    "atexit kills the runner": (RIGHT + "import atexit, os; atexit.register(os._exit, 1)", RUNTIME),
    # killing
    "kill the parent": ("import os; os.kill(os.getppid(), 9)", RUNTIME),
    "kill the group": ("import os; os.killpg(0, 9)", RUNTIME),
    "kill everyone": ("import os; os.kill(-1, 9)", RUNTIME),
    "kill itself": ("import os; os.abort()", RUNTIME),
    "null dereference": ("import ctypes; ctypes.string_at(0)", ANY_FAILURE),
    # processes and threads
    "fork": ("import os; os.fork()\n" + RIGHT, RUNTIME),
    "fork bomb that ignores errors": (
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", TIMEOUT),
    "subprocess": ("import subprocess; subprocess.run(['ls'])", RUNTIME),
    "posix_spawn": ("import os; os.posix_spawn('/bin/ls', ['ls'], {})", RUNTIME),
    "os.system": ("import os; r = os.system('echo 6'); print(r)", ANY_FAILURE),
    "double-fork daemon": ("import os\nif os.fork() == 0:\n    os.setsid(); os.fork()", RUNTIME),
    "multiprocessing": ("import multiprocessing as m; m.Pool(2)", ANY_FAILURE),
    "thread bomb": (
        "import threading, time\nwhile True:\n"
        "    threading.Thread(target=time.sleep, args=(99,), daemon=True).start()", ANY_FAILURE),
    # memory
    "heap bomb": ("x = bytearray(10**11)", MEMORY),
    "heap bomb in small pieces": ("x = []\nwhile True: x.append(bytearray(10**6))", MEMORY | TIMEOUT),
    "string that doubles": ("x = 'a'\nwhile True: x += x", MEMORY),
    "memfd bomb": ("import os; fd = os.memfd_create('x'); os.truncate(fd, 10**12)", RUNTIME),
    "shared mapping bomb": ("import mmap; m = mmap.mmap(-1, 10**11)", ANY_FAILURE),
    "pipe bomb": ("import os; x = [os.pipe() for _ in range(10**5)]", RUNTIME),
    # output
    "endless stdout": ("while True: print('x' * 1000)", OUTPUT),
    "endless stdout, errors ignored": (
        "import os\nwhile True:\n    try: os.write(1, b'x' * 10**5)\n    except OSError: pass", ANY_FAILURE),
    "endless stderr": ("import sys\nwhile True: sys.stderr.write('x' * 1000)", TIMEOUT),
    "right first line, then rubbish": (RIGHT + "print('rubbish')", WRONG),
    "answer twice": (RIGHT + "print(6)", WRONG),
    # time
    "endless loop": ("while True: pass", TIMEOUT),
    "power tower": ("x = 9 ** 9 ** 9", TIMEOUT),
    "regex that holds the GIL": ("import re; re.match('(a+)+b', 'a' * 60)", TIMEOUT),
    "sleep": ("import time; time.sleep(99)", TIMEOUT),
    "ignored signals, endless": (
        "import signal\nfor s in (2, 15, 24, 14, 1): signal.signal(s, signal.SIG_IGN)\nwhile True: pass",
        TIMEOUT),
    "catches everything, endless": (
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass", TIMEOUT),
    # the interpreter
    "deep recursion": ("def f(n): return f(n + 1)\nf(0)", RUNTIME),
    "deep recursion without a limit": (
        "import sys; sys.setrecursionlimit(10**9)\ndef f(n): return f(n + 1)\nf(0)", ANY_FAILURE),
    "C stack overflow": (
        "import sys; sys.setrecursionlimit(10**9)\nx = []\nfor _ in range(10**6): x = [x]\nrepr(x)", ANY_FAILURE),
    "parser bomb": ("(" * 10**5, COMPILE),
    "deep unary minus": ("x = " + "-" * 10**5 + "1", COMPILE | RUNTIME),
    "NUL bytes": ("print(1)\0", COMPILE),
    "not Python": ("int main() { return 0; }", COMPILE),
    "lone surrogate": ("print('\ud800')", ANY_FAILURE),
    # files
    "write to /tmp": ("open('/tmp/maxk-hostile', 'w').write('x')", RUNTIME),
    "write to the working folder": ("open('maxk-hostile', 'w').write('x')", RUNTIME),
    "write to /dev/shm": ("open('/dev/shm/maxk-hostile', 'w').write('x')", RUNTIME),
    "delete system files": ("import shutil; shutil.rmtree('/usr')", RUNTIME),
    "read /etc/passwd": ("print(open('/etc/passwd').read())", RUNTIME),
    "read /proc": ("print(open('/proc/1/environ').read())", RUNTIME),
    "read the parent's memory": ("import os; open(f'/proc/{os.getppid()}/mem', 'rb')", RUNTIME),
    # the network and the kernel
    "read the judge's own source": (f"print(open({judge.__file__!r}).read())", RUNTIME),
    "read the answers of the bundled problems": (
        f"print(open({os.path.dirname(maxk.__file__) + '/data/starter.jsonl'!r}).read())", RUNTIME),
    "import the judge": ("import maxk.verify.judge", RUNTIME),
    "TCP": ("import socket; socket.create_connection(('127.0.0.1', 1))", RUNTIME),
    "unix socket": ("import socket; socket.socket(socket.AF_UNIX)", RUNTIME),
    "vsock": ("import socket; socket.socket(40, 1)", RUNTIME),
    "fetch a page": ("import urllib.request as u; u.urlopen('http://127.0.0.1:1')", RUNTIME),
    # looking for the answer
    "walk the frames": (
        "import sys\nf = sys._getframe()\nwhile f:\n    for v in list(f.f_locals.values()):\n"
        "        if hasattr(v, 'output'): print(v.output)\n    f = f.f_back", WRONG),
    "search the garbage collector": (
        "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'StdinTest': print(o.output)",
        WRONG),
    "search the runner": (
        "import __main__\nprint([v for v in vars(__main__).values() if isinstance(v, str)][:0])", WRONG),
    # the channel
    "forged reply": (
        "import os; os.write(40, (1).to_bytes(4, 'big') + b'.'); os.write(40, b'junk' * 9)", ANY_FAILURE),
    "huge frame": ("import os; os.write(40, b'\\xff' * 4)", OUTPUT | RUNTIME),
    "endless frame": ("import os\nos.write(40, b'\\0\\x0f\\xff\\xff')\nwhile True: os.write(40, b'x' * 999)",
                      ANY_FAILURE),
    "closed descriptors": ("import os; os.closerange(0, 99)", RUNTIME),
    "closed descriptors after an answer": (
        RIGHT + "import os, sys; sys.stdout.flush(); os.closerange(0, 99)", PASSES | RUNTIME),
    "patched builtins": (
        "import builtins; builtins.len = lambda x: 0; builtins.open = None; builtins.print = None", ANY_FAILURE),
    "patched modules": (
        "import os, struct, json\nos.write = os.read = None; struct.pack = None", ANY_FAILURE),
    "patched sys.stdout": ("import sys; sys.stdout = None", ANY_FAILURE),
    "patched runner": (
        "import __main__, sys\nfor n, v in list(vars(__main__).items()):\n"
        "    if callable(v): setattr(__main__, n, lambda *a: b'.')", ANY_FAILURE),
}  # fmt: skip


@pytest.fixture(scope="module")
def verifier(tier) -> Iterator[Verifier]:
    limits = Limits(cpu_seconds=0.3, wall_seconds=2.0, memory_bytes=128 * 2**20)
    with Verifier(workers=1, limits=limits, tier=tier) as running:
        yield running


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_scores_what_it_earns_and_the_next_program_scores_one(verifier, name):
    program, allowed = PROGRAMS[name]
    tests = TESTS[:1] if name in WAITING else TESTS
    hostile, honest = verifier.judge([(program, tests), (HONEST, TESTS)])
    assert {test.status for test in hostile.tests} <= allowed, hostile
    assert honest.fraction == 1.0, honest


CALLS: dict[str, tuple[str, CallTest]] = {
    "__eq__ that always agrees": (
        "class Yes:\n    def __eq__(self, other): return True\ndef f(): return Yes()", CallTest("f", (), 1)),
    "subclass of int": (
        "class I(int):\n    def __eq__(self, other): return True\ndef f(): return I(2)", CallTest("f", (), 1)),
    "bool for int": ("def f(): return True", CallTest("f", (), 1)),
    "int for float": ("def f(): return 1", CallTest("f", (), 1.0)),
    "NaN for a number": ("def f(): return float('nan')", CallTest("f", (), 1.0)),
    "tuple for list": ("def f(): return (1, 2)", CallTest("f", (), [1, 2])),
    "cyclic result": ("def f():\n    x = []; x.append(x); return x", CallTest("f", (), [[]])),
    "result 10^5 deep": (
        "def f():\n    x = []\n    for _ in range(10**5): x = [x]\n    return x", CallTest("f", (), [])),
    "object that unpickles": (
        "class P:\n    def __reduce__(self): return (print, ('x',))\ndef f(): return P()", CallTest("f", (), 1)),
    "huge result": ("def f(): return 'x' * 10**8", CallTest("f", (), "x")),
    "generator": ("def f(): yield 1", CallTest("f", (), [1])),
    "changes its argument only": ("def f(x): x.append(1)", CallTest("f", ([],), [1])),
    "no such function": ("def g(): return 1", CallTest("f", (), 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_result_that_is_not_the_plain_expected_value_is_wrong(verifier, name):
    program, test = CALLS[name]
    hostile, honest = verifier.judge([(program, [test]), (HONEST, TESTS)])
    assert hostile.fraction == 0.0, hostile
    assert honest.fraction == 1.0


ASSERTS: dict[str, str] = {
    "__eq__ that always agrees": (
        "class Yes:\n    def __eq__(self, other): return True\ndef f(x): return Yes()"),
    "patches assert's exception": "import builtins\nbuiltins.AssertionError = None\ndef f(x): return 0",
    "leaves in the middle": "import os\ndef f(x): os._exit(0)",
    "raises SystemExit": "def f(x): raise SystemExit(0)",
    "forged reply to the test": (
        "import os\ndef f(x):\n    os.write(40, (1).to_bytes(4, 'big') + b'.')\n    return 0"),
    "exit in the place of its function": (
        "import os\nos.write(40, b'\\0\\0\\0\\n=n\\0\\0\\0\\4exit')\ndef f(x): return 0"),
    "its function is exit": "f = exit",
    "raises StopIteration": "def f(x): raise StopIteration",
    "an exception that is none": (
        "import os\ndef f(x):\n    os.write(40, b'\\0\\0\\0\\6Eprint'); return 0"),
    "traces the caller": (
        "import sys\ndef f(x):\n    g = sys._getframe()\n    while g.f_back: g = g.f_back\n"
        "    return g.f_locals.get('expected')"),
}  # fmt: skip


@pytest.mark.parametrize("name", ASSERTS)
def test_an_assert_cannot_be_forged_by_the_program_it_tests(verifier, name):
    test = AssertTest("expected = 4\nassert f(2) == expected\nassert f(3) == 6")
    right = "def f(x): return 2 * x"
    hostile, honest = verifier.judge([(ASSERTS[name], [test]), (right, [test])])
    assert hostile.fraction == 0.0, hostile
    assert honest.fraction == 1.0, honest


def test_stop_iteration_of_a_program_does_not_end_a_loop_of_its_test_early(verifier):
    test = AssertTest("assert all(map(f, [1, 2]))")
    lazy, honest = verifier.judge(
        [("def f(x): raise StopIteration", [test]), ("def f(x): return x > 0", [test])]
    )
    assert lazy.fraction == 0.0
    assert honest.fraction == 1.0


def test_state_left_by_a_program_does_not_reach_the_next(verifier):
    leave = "import sys, builtins, math\nbuiltins.secret = 1\nmath.pi = 3\nsys.modules['secret'] = math\n"
    find = (
        "import sys, builtins, math\n"
        "assert not hasattr(builtins, 'secret') and math.pi > 3 and 'secret' not in sys.modules\n"
    )
    first, second = verifier.judge([(leave + RIGHT, TESTS), (find + RIGHT, TESTS)])
    assert first.fraction == second.fraction == 1.0


def test_nothing_is_left_behind():
    descriptors = len(os.listdir("/proc/self/fd"))
    limits = Limits(cpu_seconds=0.3, wall_seconds=1.0)
    with Verifier(workers=2, limits=limits) as verifier:
        names = ["fork bomb that ignores errors", "thread bomb", "kill everyone", "write to /tmp"]
        verifier.judge([(PROGRAMS[name][0], TESTS[:1]) for name in names])
        pids = [worker.process.pid for worker in verifier.workers]
    deadline = time.monotonic() + 5
    while any(_children_of_session(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_children_of_session(pid) for pid in pids)
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert not os.path.exists("/tmp/maxk-hostile")
    assert not os.path.exists("/dev/shm/maxk-hostile")


def _children_of_session(session: int) -> list[str]:
    """Processes of the worker's session: the zygote and all it ever forked."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            found.append(pid)
    return found
