"""numpy and JAX arrays get the weights that torch tensors get, and JAX transforms them."""

import numpy as np
import pytest
import torch

from maxk.estimators import weights
from maxk.estimators.arrays import group_weights, library_of
from tests.estimators.test_objectives import COMBINATIONS, LOGS, REWARDS, ids


def compared(lib, asarray, objective, correction, baseline):
    at = None if correction == "none" else LOGS
    want = weights(REWARDS, objective, at, correction, baseline)
    r = REWARDS if objective.threshold is None else (objective.threshold <= REWARDS).double()
    x = None if at is None else asarray(at.numpy())
    got = group_weights(lib, asarray(r.numpy()), objective.of(5), x, correction, baseline)
    torch.testing.assert_close(torch.tensor(np.asarray(got)), want, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("objective", "correction", "baseline"), COMBINATIONS, ids=ids)
def test_numpy_gets_what_torch_gets(objective, correction, baseline):
    compared(library_of([]), np.asarray, objective, correction, baseline)
