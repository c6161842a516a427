"""What tests of training share."""

from collections.abc import Iterator

import pytest

from tests.train.torchrun import TwoProcesses


@pytest.fixture(scope="session")
def two_processes(tmp_path_factory) -> Iterator[TwoProcesses]:
    made = TwoProcesses(tmp_path_factory.mktemp("two-processes"))
    yield made
    made.close()
