"""verl finds maxk by itself, in a fresh process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from maxk.estimators import METHODS

pytest.importorskip("verl", reason="verl has an environment of its own: make test-verl")
ROOT = Path(__file__).parents[2]

SEEN = """
import verl, sys
loaded = "maxk.integrations.verl" in sys.modules
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY
found = sorted(n for n in ADV_ESTIMATOR_REGISTRY if n.startswith("maxk-"))
print(loaded, *found, "maxk" in TRAINER_REGISTRY)
"""
ALL = sorted(f"maxk-{name}" for name in METHODS)


def fresh(code: str, cwd: Path, **environment: str) -> str:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("VERL_", "PYTHONPATH"))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=kept | environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_importing_verl_is_enough_once_maxk_is_installed(tmp_path):
    assert fresh(SEEN, tmp_path).split() == ["True", *ALL, "True"]


def test_it_can_be_named_where_plugins_are_off(tmp_path):
    off = {"VERL_USE_EXTERNAL_PLUGINS": "none"}
    assert fresh(SEEN, tmp_path, **off).split() == ["False", "False"]
    named = off | {"VERL_USE_EXTERNAL_MODULES": "maxk.integrations.verl"}
    assert fresh(SEEN, tmp_path, **named).split() == ["True", *ALL, "True"]


def test_without_verl_s_queue_the_estimators_are_there_and_the_trainer_is_missed_aloud(tmp_path):
    code = """
import sys
sys.modules["transfer_queue"] = None
import verl
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY
print(*sorted(n for n in ADV_ESTIMATOR_REGISTRY if n.startswith("maxk-")))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.split() == ALL
    assert "verl's trainer cannot be loaded" in done.stderr
