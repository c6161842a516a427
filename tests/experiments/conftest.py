"""Methods that experiments register are gone after each test."""

from collections.abc import Iterator

import pytest

from maxk.estimators.methods import METHODS


@pytest.fixture(autouse=True)
def own_registry() -> Iterator[None]:
    before = METHODS.copy()
    yield
    METHODS.clear()
    METHODS.update(before)
