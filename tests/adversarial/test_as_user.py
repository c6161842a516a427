"""The same promises where an ordinary user judges: tests are run by root mostly, jails are not."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from maxk.verify.isolation.namespaces import closed_directories
from maxk.verify.isolation.probe import probe
from tests.adversarial.test_boundary import SAY
from tests.adversarial.test_hostile import PROGRAMS

PYTHON = f"/usr/bin/python3.{sys.version_info.minor}"
SOURCE = Path(__file__).parents[2] / "src"
CHOSEN = [
    *("kill the parent", "kill everyone", "fork", "write to /tmp", "read /etc/passwd", "heap bomb"),
    *("endless loop", "endless stdout", "forged reply", "import the judge", "TCP", "memfd bomb"),
]
SCRIPT = """
import json, os, sys
from maxk.records import AssertTest, CallTest, StdinTest
from maxk.verify import Limits, Verifier
given = json.loads(sys.stdin.read())
out = {"uid": os.getuid()}
limits = Limits(cpu_seconds=1.0, wall_seconds=30.0, memory_bytes=256 * 2**20)
calls = [CallTest("f", (3,), 6), AssertTest("for i in (1, 3):\\n    assert f(i) == 2 * i", "f")]
with Verifier(workers=1, limits=limits, tier=given["tier"]) as verifier:
    (honest,) = verifier.judge([("def f(x): return 2 * x", calls)])
    out["honest"] = honest.passed
    (forged,) = verifier.judge([(given["say"] + "say(b'=x')\\ndef f(x): return 6", calls)])
    out["forged"] = forged.fraction
    tests = [StdinTest("3", "6"), StdinTest("5", "10")]
    jobs = [(program, tests) for program in given["programs"]]
    out["hostile"] = [verdict.fraction for verdict in verifier.judge(jobs)]
    out["seen"], out["threads"] = (verifier.call(text, "f", [()])[0] for text in given["calls"])
    out["broken"] = verifier.broken_jails
print(json.dumps(out))
"""
SEEN = """
import os
def f(): return [p for p in ('/proc', '/home', '/etc/passwd', '/var') if os.path.exists(p)]
"""
THREADS = """
import threading
def f():
    go, n = threading.Event(), 1
    threading.stack_size(2**16)
    try:
        while n < 40:
            threading.Thread(target=go.wait, daemon=True).start()
            n += 1
    except RuntimeError: pass
    go.set()
    return n
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="then all other tests are run by a user")
@pytest.mark.parametrize("tier", ["A", "B"])
def test_an_ordinary_user_is_promised_the_same(tier, tmp_path):
    if tier == "A" and probe().tier != "A":
        pytest.skip("this machine has no user namespaces")
    if not os.path.exists(PYTHON) or closed_directories(os.path.realpath(PYTHON)):
        pytest.skip("no Python of this version here that every user can read")
    if closed_directories(str(SOURCE)) or not shutil.which("setpriv"):
        pytest.skip("other users cannot read the package, or cannot be had")
    given = {
        "tier": tier,
        "say": SAY,
        "programs": [PROGRAMS[name][0] for name in CHOSEN],
        "calls": [SEEN, THREADS],
    }
    run = subprocess.run(
        ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", PYTHON, "-c", SCRIPT],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]},
    )
    assert run.returncode == 0, run.stderr
    out = json.loads(run.stdout)
    assert (out["uid"], out["honest"], out["forged"], out["broken"]) == (12345, True, 0.0, 0)
    assert out["hostile"] == [0.0] * len(CHOSEN)
    if tier == "A":
        assert (out["seen"], out["threads"]) == ([], 16)
