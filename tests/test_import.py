"""What importing maxk costs: neither numpy nor torch, and no torch for the metrics."""

import subprocess
import sys


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_maxk_and_using_the_metrics_does_not_import_torch():
    code = """
import sys, numpy, maxk
rewards = [0.0, 1.0, 0.5]
assert maxk.max_at_k(rewards, 2) == maxk.estimators.max_at_k(numpy.array(rewards), 2)
assert maxk.pass_at_k([0.0, 1.0], [1, 2]) == [0.5, 1.0]
dir(maxk.estimators)
print("torch" in sys.modules)
"""
    assert run(code) == "False"


def test_without_torch_the_metrics_work_and_the_rest_says_what_to_install():
    code = """
import sys
sys.modules["torch"] = None  # as if it were not installed
import maxk
print(maxk.max_at_k([0.0, 1.0], 1))
try:
    maxk.estimators.weights
except ModuleNotFoundError as error:
    print(error)
"""
    first, second = run(code).splitlines()
    assert first == "0.5"
    assert second.startswith("maxk.estimators.weights needs PyTorch: pip install torch")


def test_importing_maxk_or_its_sampling_loads_nothing_heavy():
    heavy = "{'numpy', 'torch', 'pyarrow', 'scipy', 'pydantic', 'rich', 'tyro'}"
    for module in ("maxk", "maxk.sample"):
        assert run(f"import sys, {module}; print(*{heavy} & set(sys.modules))") == ""
    assert run("import maxk; print(*(name in dir(maxk) for name in maxk.__all__))") == (
        "True True True True"
    )


def test_unknown_names_are_attribute_errors():
    assert run("import maxk; print(hasattr(maxk.estimators, 'wieghts'))") == "False"
