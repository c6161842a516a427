"""JAX arrays get the weights that torch tensors get, under jit, vmap and grad too."""

import numpy as np
import pytest

from maxk.estimators import objectives
from maxk.estimators.arrays import weights
from tests.estimators.test_arrays import compared
from tests.estimators.test_objectives import COMBINATIONS, LOGS, REWARDS, ids

jax = pytest.importorskip("jax", reason="JAX is not installed: make test-jax")


@pytest.fixture(autouse=True)
def _in_float64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize(("objective", "correction", "baseline"), COMBINATIONS, ids=ids)
def test_jax_gets_what_torch_gets(objective, correction, baseline):
    compared(jax.numpy.asarray, objective, correction, baseline)


@pytest.mark.parametrize("correction", ["none", "first", "exact", "normalized"])
def test_jit_vmap_and_grad_work(correction):
    baseline = "none" if correction == "normalized" else "loo"
    r, x = jax.numpy.asarray(REWARDS.numpy()), jax.numpy.asarray(LOGS.numpy())

    def of(r, x):
        at = None if correction == "none" else x
        return weights(r, objectives.uniform(3), at, correction, baseline)

    want = of(r, x)
    np.testing.assert_allclose(jax.jit(of)(r, x), want, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(jax.vmap(of)(r, x), want, rtol=1e-12, atol=1e-14)
    slope = jax.grad(lambda r: (of(r, x) * jax.numpy.cos(x)).sum())(r)
    for i in range(5):
        step = np.zeros(5)
        step[i] = 1e-6
        change = (of(r[:1] + step, x[:1]) - of(r[:1] - step, x[:1])) / 2e-6
        found = float((change * jax.numpy.cos(x[:1])).sum())
        assert found == pytest.approx(float(slope[0, i]), abs=1e-7)
