"""Methods that experiments register are gone after each test."""

from collections.abc import Iterator

import pytest

from maxk.estimators import FACTS, METHODS


@pytest.fixture(autouse=True)
def own_registry() -> Iterator[None]:
    methods, facts = METHODS.copy(), FACTS.copy()
    yield
    for registry, before in ((METHODS, methods), (FACTS, facts)):
        registry.clear()
        registry.update(before)
