"""How much CPU time something takes, on a machine of any speed, and whether that is linear."""

import gc
import time
from collections.abc import Callable

_ROUNDS_A_SECOND = 7.5e6  # of the yardstick, on the machine that the limits were chosen on


def cpu_seconds(work: Callable[[], object]) -> float:
    """The CPU seconds that a call takes; fewer of them are counted on a slower machine.

    A machine whose other core is busy runs at half its speed. So a fixed loop is timed before and
    after, and the slower of the two tells how much slower than usual the machine is.
    """
    before = _slowness()
    started = time.process_time()
    work()
    taken = time.process_time() - started
    return taken / max(before, _slowness(), 1.0)


def doubled(work: Callable[[int], object], size: int, little: float) -> float:
    """CPU seconds for twice the size: below 2.5 times those for the size, or little.

    Tried up to eight times: what takes quadratic time takes four times as long in every one.
    """
    gc.collect()  # what earlier tests left would be counted here
    small = large = 0.0
    for _ in range(8):  # a busy machine takes the memory's caches away
        small, large = (cpu_seconds(lambda n=n: work(n)) for n in (size, 2 * size))
        if large < max(2.5 * small, little):
            return large
    raise AssertionError(f"{size} takes {small:.3f} s and twice as much {large:.3f} s")


def _slowness(rounds: int = 40_000) -> float:
    started = time.process_time()
    length = 0
    for i in range(rounds):
        length += len(str(i))
    return (time.process_time() - started) * _ROUNDS_A_SECOND / rounds
