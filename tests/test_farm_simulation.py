"""The simulation of the verification farm against queues that are solved."""

import json
import math
import random
import statistics

import pytest

from benchmarks.farm import LEVELS, TIMES, Times, mixture, poisson, simulate


def erlang_c(servers: int, load: float) -> float:
    """The chance to wait in M/M/c, load = arrival rate * mean service time."""
    top = load**servers / math.factorial(servers) * servers / (servers - load)
    return top / (sum(load**i / math.factorial(i) for i in range(servers)) + top)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (4, 3.2)])
def test_waits_are_those_of_a_queue_with_random_service(servers, load):
    """Mean wait = C / (c - load). 60,000 arrivals: the error of the mean is below 3 % (5 sigma)."""
    draw = random.Random(1)
    out = simulate(poisson(load, 60_000), lambda: draw.expovariate(1.0), 1, servers, bounded=False)
    wait = statistics.fmean(out.latency) - 1.0
    assert wait == pytest.approx(erlang_c(servers, load) / (servers - load), rel=0.08)
    assert out.utilisation == pytest.approx(load / servers, rel=0.03)


def test_waits_are_those_of_a_queue_with_constant_service():
    """M/D/1, Pollaczek-Khinchine: half the wait of random service."""
    out = simulate(poisson(0.5, 60_000), lambda: 1.0, 1, 1, bounded=False)
    assert statistics.fmean(out.latency) - 1.0 == pytest.approx(0.5, rel=0.05)


def test_all_at_once_is_work_over_cores():
    out = simulate([0.0] * 64, lambda: 0.5, 2, 8, bounded=False)
    assert out.span == 64 * 0.5 / 16
    assert out.utilisation == 1.0


def test_a_bounded_queue_loses_nothing_and_only_delays():
    free = simulate([0.0] * 400, lambda: 0.1, 1, 4, bounded=False)
    full = simulate([0.0] * 400, lambda: 0.1, 1, 4)
    assert full.refusals > 0
    assert min(full.latency) > 0
    assert free.span <= full.span < 1.5 * free.span


def test_the_kept_times_are_a_distribution_with_the_measured_mean():
    kept = json.loads(TIMES.read_text())
    assert kept["levels"] == LEVELS
    for kind in kept["kinds"].values():
        assert kind["quantiles"] == sorted(kind["quantiles"])
        times = Times(kind["quantiles"])
        assert times.mean() == pytest.approx(kind["mean"], rel=0.1)
        service = mixture([times])
        drawn = statistics.fmean(service() for _ in range(200_000))
        assert drawn == pytest.approx(times.mean(), rel=0.05)
