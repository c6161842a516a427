"""The two tiers of isolation, for modules that try both."""

import pytest

from maxk.verify.isolation.probe import probe


@pytest.fixture(scope="module", params=["A", "B"])
def tier(request):
    if request.param == "A" and probe().tier != "A":
        pytest.skip("this machine has no user namespaces")
    return request.param
