"""numpy and JAX arrays get the weights that torch tensors get, and JAX transforms them."""

import numpy as np
import pytest
import torch

from maxk.estimators import arrays, objectives, weights
from tests.estimators.test_objectives import COMBINATIONS, LOGS, REWARDS, ids


def compared(asarray, objective, correction, baseline):
    at = None if correction == "none" else LOGS
    want = weights(REWARDS, objective, at, correction, baseline)
    x = None if at is None else asarray(at.numpy())
    got = arrays.weights(asarray(REWARDS.numpy()), objective, x, correction, baseline)
    torch.testing.assert_close(torch.tensor(np.asarray(got)), want, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("objective", "correction", "baseline"), COMBINATIONS, ids=ids)
def test_numpy_gets_what_torch_gets(objective, correction, baseline):
    compared(np.asarray, objective, correction, baseline)


def test_the_kind_that_goes_in_comes_out():
    assert arrays.weights([[0, 1, 1]], 1) == [[0.0, 1 / 3, 1 / 3]]
    assert arrays.weights(np.array([0, 1, 1], np.float32), 1).dtype == np.float32
    assert arrays.weights(np.array([0, 1, 1]), 1).dtype == np.float64


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([0.0, np.nan], 1), "rewards has an entry that is not finite"),
        ((["0"], 1), "pass numbers"),
        (([0.0, 1.0], 1, [0.0]), "log_ratios has shape"),
        (([0.0, 1.0], 1, [0.0, 0.0], "none"), "log_ratios is given but"),
        (([0.0, 1.0], 3), "k=3 is larger than n=2"),
        (([0.0, 0.5], objectives.denoised(objectives.mean(), 0.1, 0.1)), "must be 0 or 1"),
    ],
)
def test_what_cannot_be_is_an_error(given, message):
    with pytest.raises(ValueError, match=message):
        arrays.weights(*given)
