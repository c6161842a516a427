"""What tests of sampling share."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    """The models are tiny, and several threads on a busy machine wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
