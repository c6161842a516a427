"""Whether something takes linear time."""

import gc
import time
from collections.abc import Callable


def seconds(work: Callable[[], object]) -> float:
    found = []
    for _ in range(2):  # the quicker: a busy machine takes the memory's caches away
        gc.collect()  # what earlier tests left would be counted here
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return min(found)


def doubled(work: Callable[[int], object], size: int, little: float) -> float:
    """Seconds for twice the size: below 2.5 times those for the size, or little.

    Tried up to four times: what takes quadratic time takes four times as long in every one.
    """
    small = large = 0.0
    for _ in range(4):
        small, large = seconds(lambda: work(size)), seconds(lambda: work(2 * size))
        if large < max(2.5 * small, little):
            return large
    raise AssertionError(f"{size} takes {small:.3f} s and twice as much {large:.3f} s")
