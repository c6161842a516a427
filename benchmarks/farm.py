"""How many cores judge 1,000 programs a second, and how long a program waits: a simulation.

    make bench-farm                                             simulate, with the times kept here
    python benchmarks/farm.py --measure --mbpp FILE --contests FILE     measure the times again

Programs arrive at nodes at random, or all at once at the end of a batch. Each node is one actor of
`maxk.integrations.ray_pool`: a number of jails, four places per jail, and callers that find it full
and ask again after a wait that doubles. Service times are drawn from verdict_times.json: what the
real Verifier took, one jail at a time, for real solutions of real problems.
"""

import argparse
import heapq
import itertools
import json
import math
import platform
import random
import statistics
import sys
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TIMES = Path(__file__).with_name("verdict_times.json")
LEVELS = [i / 100 for i in range(100)] + [0.995, 0.999, 1.0]
SHORTEST, LONGEST = 0.01, 1.0  # seconds a refused caller waits, as in maxk.integrations.ray_pool
QUEUE = 4  # places per jail, there too


# --- the simulation ------------------------------------------------------------------------------


@dataclass
class Node:
    """Jails, and the programs that the actor holds."""

    jails: int
    queue: deque[int] = field(default_factory=deque)
    busy: int = 0
    worked: float = 0.0  # seconds of all jails

    def full(self) -> bool:
        return self.busy + len(self.queue) >= QUEUE * self.jails


@dataclass(frozen=True)
class Outcome:
    """What became of every program."""

    latency: list[float]  # from arrival to verdict, in the order of arrival
    span: float  # from the first arrival to the last verdict
    utilisation: float
    refusals: int

    def quantile(self, q: float) -> float:
        ordered = sorted(self.latency)
        return ordered[min(int(q * len(ordered)), len(ordered) - 1)]


def simulate(
    arrivals: Iterable[float],
    service: Callable[[], float],
    nodes: int,
    jails: int,
    seed: int = 0,
    bounded: bool = True,
) -> Outcome:
    """Programs at nodes, each served in order of admission; nodes take turns."""
    draw = random.Random(seed)
    farm = [Node(jails) for _ in range(nodes)]
    born = list(arrivals)
    end = (
        born[-1] if born[-1] > born[0] else math.inf
    )  # of the time in which cores are counted busy
    place = [farm[i % nodes] for i in range(len(born))]
    latency = [0.0] * len(born)
    number = itertools.count()
    events = [(t, next(number), i, 0) for i, t in enumerate(born)]  # time, order, program, refusals
    heapq.heapify(events)
    refusals = 0

    def start(node: Node, i: int, now: float) -> None:
        took = service()
        node.busy += 1
        node.worked += max(0.0, min(now + took, end) - now)
        heapq.heappush(events, (now + took, next(number), i, -1))

    now = 0.0
    while events:
        now, _, i, tried = heapq.heappop(events)
        node = place[i]
        if tried == -1:
            latency[i] = now - born[i]
            node.busy -= 1
            if node.queue:
                start(node, node.queue.popleft(), now)
        elif bounded and node.full():
            refusals += 1
            wait = min(SHORTEST * 2 ** min(tried + 1, 10), LONGEST) * draw.uniform(0.5, 1.5)
            heapq.heappush(events, (now + wait, next(number), i, tried + 1))
        elif node.busy < node.jails:
            start(node, i, now)
        else:
            node.queue.append(i)
    worked = sum(node.worked for node in farm)
    busy = worked / ((min(now, end) - born[0]) * nodes * jails)
    return Outcome(latency, now - born[0], busy, refusals)


def poisson(rate: float, seconds: float, seed: int = 0) -> Iterator[float]:
    """Arrivals at random, `rate` a second on average."""
    draw, now = random.Random(seed), 0.0
    while (now := now + draw.expovariate(rate)) < seconds:
        yield now


@dataclass(frozen=True)
class Times:
    """A distribution by its quantiles, straight lines between their logarithms."""

    quantiles: list[float]

    def at(self, level: float) -> float:
        above = bisect_right(LEVELS, level)
        if above == len(LEVELS):
            return self.quantiles[-1]
        low, high = LEVELS[above - 1], LEVELS[above]
        part = (level - low) / (high - low)
        return self.quantiles[above - 1] ** (1 - part) * self.quantiles[above] ** part

    def mean(self) -> float:
        pieces = zip(itertools.pairwise(LEVELS), itertools.pairwise(self.quantiles), strict=True)
        return sum(
            (b - a) * (x if x == y else (y - x) / math.log(y / x)) for (a, b), (x, y) in pieces
        )


def mixture(kinds: list[Times], seed: int = 0) -> Callable[[], float]:
    """One of several distributions each time, all equally often."""
    draw = random.Random(seed)
    return lambda: draw.choice(kinds).at(draw.random())


# --- measuring -----------------------------------------------------------------------------------


def mbpp(file: Path) -> tuple[list[Any], list[Any]]:
    """Solutions, and the tests of each."""
    from maxk.data import load

    problems = [p for p in load("mbpp", "train", file) if p.reference]
    return [p.reference for p in problems], [p.tests for p in problems]


def contests(file: Path, most: int | None = None) -> tuple[list[Any], list[Any]]:
    """The same, the first `most` tests of each."""
    import gzip

    from maxk.records import StdinTest

    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    pairs = [zip(row["test_input"], row["test_output"], strict=True) for row in rows]
    tests = [[StdinTest(a, b) for a, b in pair][:most] for pair in pairs]
    return [row["solution"] for row in rows], tests


def measure(programs: list[str], tests: list[Any], shift: int, limit: int) -> dict[str, Any]:
    """Seconds to a verdict with one jail; shift > 0 gives programs the tests of other problems."""
    from maxk.verify import Verifier

    seconds, passed, count = [], 0, 0
    with Verifier(workers=1) as verifier:
        for i in range(min(limit, len(programs))):
            asked = tests[(i + shift) % len(tests)]
            begun = time.perf_counter()
            [verdict] = verifier.judge([(programs[i], asked)])
            seconds.append(time.perf_counter() - begun)
            passed += verdict.passed
            count += len(asked)
    seconds.sort()
    found = [seconds[min(int(q * len(seconds)), len(seconds) - 1)] for q in LEVELS]
    return {
        "programs": len(seconds),
        "passed": passed,
        "tests_per_program": round(count / len(seconds), 1),
        "mean": round(statistics.fmean(seconds), 5),
        "quantiles": [round(s, 5) for s in found],
    }


def measure_all(options: argparse.Namespace) -> None:
    kinds = {}
    sources = {
        "mbpp": mbpp(options.mbpp),
        "contests": contests(options.contests),
        "contests, 10 tests": contests(options.contests, 10),
    }
    for name, source in sources.items():
        for what, shift in (("right", 0), ("wrong", 7)):
            kinds[f"{name}, {what}"] = measure(*source, shift, options.limit)
            print(
                name, what, {k: v for k, v in kinds[f"{name}, {what}"].items() if k != "quantiles"}
            )
    how = {
        "how": "python benchmarks/farm.py --measure: seconds from judge() to its return, one jail, "
        "default limits, under nice -n -20 on two cores; right: solutions with their own tests, "
        "wrong: with the tests of the problem 7 places on",
        "sources": "MBPP train; 390 CodeContests problems with all their tests, and the first 10",
        "machine": f"Linux {platform.release().split('-')[0]}, Python {platform.python_version()}",
        "date": time.strftime("%Y-%m-%d"),
        "levels": LEVELS,
    }
    TIMES.write_text(json.dumps(how | {"kinds": kinds}, indent=1) + "\n")


# --- what is printed -----------------------------------------------------------------------------


def report(rate: float, seconds: float, jails: int) -> None:
    kept = json.loads(TIMES.read_text())
    times = {name: Times(kind["quantiles"]) for name, kind in kept["kinds"].items()}
    mixes = {
        name.removesuffix(", right"): [time, times[name.replace(", right", ", wrong")]]
        for name, time in times.items()
        if name.endswith(", right")
    }
    for name, kinds in mixes.items():
        mean = statistics.fmean(kind.mean() for kind in kinds)
        print(f"\n{name}, half right and half wrong: {1e3 * mean:.1f} ms of a core on average")
        print(f"steady, {rate:.0f} programs/s for {seconds:.0f} s, nodes of {jails} jails")
        print("cores  busy  median s  99 % s  longest s  refused")
        for nodes in sorted({math.ceil(rate * mean / load / jails) for load in (0.95, 0.8, 0.6)}):
            out = simulate(poisson(rate, seconds), mixture(kinds), nodes, jails)
            figures = [out.quantile(q) for q in (0.5, 0.99, 1.0)]
            print(
                f"{nodes * jails:5d}  {out.utilisation:3.0%}  "
                + "  ".join(f"{x:8.2f}" for x in figures)
                + f"  {out.refusals / len(out.latency):7.2f}"
            )
        print(f"all at once: {rate:.0f} programs, seconds to half of the verdicts and to the last")
        for nodes in (1, 4, 16):
            out = simulate([0.0] * int(rate), mixture(kinds), nodes, jails)
            print(f"{nodes * jails:5d} cores  {out.quantile(0.5):6.2f}  {out.span:6.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="measure the times again")
    parser.add_argument("--mbpp", type=Path, help="mbpp.jsonl")
    parser.add_argument("--contests", type=Path, help="CodeContests rows as gzipped JSON lines")
    parser.add_argument("--limit", type=int, default=200, help="programs of each kind")
    parser.add_argument("--rate", type=float, default=1000.0, help="programs a second")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--jails", type=int, default=8, help="of a node: its cores")
    options = parser.parse_args()
    if options.measure:
        measure_all(options)
    report(options.rate, options.seconds, options.jails)
    return 0


if __name__ == "__main__":
    sys.exit(main())
