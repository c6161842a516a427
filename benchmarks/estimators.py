"""Time and memory of the estimators beside the n x n matrices of the paper's equations.

    python benchmarks/estimators.py      # about a minute

Both sides run in the same process, one after the other, round after round, and the ratio of their
median times is what counts. Peak memory is the growth of the resident set's high-water mark over
one call, each in a process of its own.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import matrix_form  # noqa: E402
from maxk.estimators import METHODS, advantages, weights  # noqa: E402

Call = Callable[[], object]


def inputs(prompts: int, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rewards, sorted since the matrix form needs that, and small log-ratios; float32."""
    generator = torch.Generator().manual_seed(0)
    rewards = torch.rand(prompts, n, generator=generator).sort(-1).values
    return rewards, 0.1 * torch.randn(prompts, n, generator=generator)


def seconds(*calls: Call, rounds: int = 9) -> list[float]:
    """Median time of each call, the calls taking turns."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(rounds):
        for call, record in zip(calls, times, strict=True):
            started = time.perf_counter()
            call()
            record.append(time.perf_counter() - started)
    return [statistics.median(record) for record in times]


def cases(prompts: int, n: int, k: int) -> dict[str, Call]:
    rewards, log_ratios = inputs(prompts, n)
    deltas = log_ratios.expm1()
    return {
        "on-policy": lambda: weights(rewards, k),
        "on-policy matrix": lambda: matrix_form.on_policy(rewards, k),
        "first-order": lambda: weights(rewards, k, log_ratios, correction="first"),
        "first-order matrix": lambda: matrix_form.first_order(rewards, deltas, k),
        "exact": lambda: weights(rewards, k, log_ratios),
    }


def peak_bytes(name: str, prompts: int, n: int, k: int) -> int:
    """Memory that one call needs at its peak, measured in a fresh process."""
    command = [sys.executable, __file__, "--peak", name, str(prompts), str(n), str(k)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)


def report_peak(name: str, prompts: int, n: int, k: int) -> None:
    def high_water() -> int:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])

    cases(prompts, 16, 4)[name]()  # code and thread pools are loaded
    call = cases(prompts, n, k)[name]
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
    before = high_water()
    call()
    print(high_water() - before)


def beside_the_matrix(prompts: int, n: int, k: int) -> None:
    print(f"{prompts} prompts x n = {n}, k = {k}: beside the matrix form (wanted: 20x, 50x)")
    for name in ("on-policy", "first-order"):
        both = cases(prompts, n, k)
        torch.testing.assert_close(both[name](), both[f"{name} matrix"](), rtol=1e-3, atol=1e-6)
        ours, theirs = seconds(both[name], both[f"{name} matrix"], rounds=5)
        less, more = (peak_bytes(x, prompts, n, k) for x in (name, f"{name} matrix"))
        print(
            f"  {name:12s} {1e3 * ours:8.2f} ms against {1e3 * theirs:8.1f} ms: "
            f"{theirs / ours:6.0f}x faster;  {less / 2**20:6.1f} MiB against "
            f"{more / 2**20:7.0f} MiB: {more / less:5.0f}x less"
        )


def exact_beside_first_order(prompts: int, n: int, k: int) -> None:
    both = cases(prompts, n, k)
    ours, theirs = seconds(both["exact"], both["first-order matrix"])
    print(f"{prompts} prompts x n = {n}, k = {k}: exact beside the first-order matrix (wanted: 1x)")
    print(
        f"  exact        {1e3 * ours:8.2f} ms against {1e3 * theirs:8.1f} ms: "
        f"{theirs / ours:6.1f}x faster"
    )


def every_method(prompts: int, n: int, k: int) -> None:
    rewards, log_ratios = inputs(prompts, n)
    print(f"{prompts} prompts x n = {n}, k = {k}: every method (wanted: under 2 ms)")
    for name, method in METHODS.items():
        r = (rewards > 0.5).float() if name == "pass-at-k" else rewards
        x = log_ratios if method.off_policy else None
        (took,) = seconds(lambda r=r, x=x, name=name: advantages(name, r, k, x), rounds=51)
        print(f"  {name:18s} {1e3 * took:5.2f} ms")


def growth() -> None:
    print("growth when n or k doubles (64 prompts; time, and its ratio to the line above)")
    for name, sizes in {
        "on-policy": [(2048, 64), (4096, 64), (8192, 64), (8192, 128), (8192, 256)],
        "first-order": [(2048, 64), (4096, 64), (8192, 64), (8192, 128), (8192, 256)],
        "exact": [(128, 64), (256, 64), (512, 64), (512, 128), (512, 256)],
    }.items():
        last = None
        for n, k in sizes:
            (took,) = seconds(cases(64, n, k)[name], rounds=7)
            ratio = f"{took / last:5.1f}x" if last else ""
            print(f"  {name:12s} n = {n:5d}, k = {k:5d}  {1e3 * took:8.2f} ms  {ratio}")
            last = took


def main() -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    beside_the_matrix(8, 4096, 64)
    exact_beside_first_order(64, 256, 128)
    every_method(64, 8, 4)
    growth()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        report_peak(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        main()
