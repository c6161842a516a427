"""MethodSettings: one default for each setting, and no setting that cannot be."""

import dataclasses
import math
import re
import subprocess
import sys
from typing import Any

import pytest

from maxk.estimators import FACTS, METHODS, MethodSettings
from maxk.estimators.methods import Method
from maxk.estimators.settings import MASKINGS, MethodFacts

OFF_POLICY = ["off-policy", "off-policy-exact", "off-policy-normalized"]


def test_thirteen_methods_have_a_function_and_facts_each():
    assert len(FACTS) == 13
    assert list(METHODS) == list(FACTS)
    for name, facts in FACTS.items():
        method = METHODS[name]
        assert isinstance(method, Method)
        for field in dataclasses.fields(MethodFacts):
            assert getattr(method, field.name) == getattr(facts, field.name)
        assert facts.summary


def test_what_the_methods_need():
    """Spelled out here once more, so that a change of the table is a change of two places."""
    k = {"pass-at-k", "bon-loo", "bon-mean", "bon-centered", *OFF_POLICY}
    assert {name for name, facts in FACTS.items() if facts.uses_k} == k
    assert {name for name, facts in FACTS.items() if facts.needs_k_below_n} == k - {"bon-loo"}
    assert [name for name, facts in FACTS.items() if facts.off_policy] == OFF_POLICY
    for name, facts in FACTS.items():
        own = (0.5, "sequence") if name in OFF_POLICY else (None, "none")
        assert (facts.clamp_delta, facts.masking) == own


def test_settings_need_no_torch():
    code = "import sys, maxk.estimators.settings as s; s.MethodSettings().check(8);"
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("masking", MASKINGS)
def test_what_is_given_is_in_force(masking):
    given = MethodSettings("off-policy", clamp_delta=0.2, masking=masking)
    assert (given.clamp_delta, given.masking) == (0.2, masking)
    assert MethodSettings("off-policy", clamp_delta=math.inf).clamp_delta == math.inf


def test_what_is_not_given_is_the_method_s():
    assert (MethodSettings().method, MethodSettings().k) == ("off-policy-exact", 4)
    assert (MethodSettings().clamp_delta, MethodSettings().masking) == (0.5, "sequence")
    on_policy = MethodSettings("bon-mean")
    assert (on_policy.clamp_delta, on_policy.masking) == (None, "none")


def test_k_of_a_step():
    linear = MethodSettings(k=1, k_schedule="linear", k_end=7)
    assert [linear.k_at(step, 7) for step in range(7)] == [1, 2, 3, 4, 5, 6, 7]
    late = MethodSettings(k=2, k_schedule="step", k_end=3, k_switch=0.75)
    assert [late.k_at(step, 4) for step in range(4)] == [2, 2, 2, 3]
    assert MethodSettings("bon-loo", k=8).k_at(3, 4) == 8
    assert MethodSettings("grpo").k_at(0, 4) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"method": "ppo"}, "method='ppo' is unknown; use one of grpo, dr-grpo"),
        ({"clamp_delta": 0.0}, "clamp_delta=0.0 must be above 0; use inf for no clamp"),
        ({"clamp_delta": math.nan}, "clamp_delta=nan must be above 0"),
        ({"method": "rloo", "clamp_delta": 0.5}, "clamp_delta=0.5 is for the off-policy methods"),
        ({"masking": "completion"}, "masking='completion' is unknown; use one of sequence, token"),
        ({"method": "rloo", "masking": "word"}, "masking='word' is unknown"),
        ({"method": "rloo", "masking": "sequence"}, "masking='sequence' is for the off-policy"),
        ({"method": "rloo", "masking": "token"}, "masking='token' is for the off-policy methods"),
        ({"k_schedule": "cosine"}, "k_schedule='cosine' is unknown; use one of constant, linear"),
        ({"k_schedule": "linear"}, "k_end=None; k_schedule='linear' needs the last k"),
        ({"k_end": 3}, "k_end=3 with k_schedule='constant'; use 'linear' or 'step'"),
        ({"method": "grpo", "k": 4}, "k=4, but method='grpo' has no k; leave k out"),
        ({"k_switch": 0.5}, "k_switch=0.5 with k_schedule='constant', which has no switch"),
        ({"k_switch": -0.1}, "k_switch=-0.1 must be a share between 0 and 1"),
        (
            {"method": "rloo", "k_schedule": "step", "k_end": 3},
            "k_schedule='step', but method='rloo' has no k",
        ),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], said):
    with pytest.raises(ValueError, match=re.escape(said)):
        MethodSettings(**given)


@pytest.mark.parametrize(
    ("given", "n", "said"),
    [
        ({"k": 5}, 4, "k=5 must be between 1 and num_generations=4"),
        ({"k": 0}, 4, "k=0 must be between 1 and num_generations=4"),
        ({"k": 4}, 4, "k=4 equal to num_generations=4 leaves method='off-policy-exact' nothing"),
        ({"k": 1, "k_schedule": "linear", "k_end": 4}, 4, "k_end=4 equal to num_generations=4"),
        ({"k": 1, "k_schedule": "linear", "k_end": 9}, 4, "k_end=9 must be between 1"),
    ],
)
def test_groups_that_are_too_small_are_refused(given: dict[str, Any], n, said):
    with pytest.raises(ValueError, match=said):
        MethodSettings(**given).check(n)


def test_groups_that_are_large_enough_are_not():
    MethodSettings(k=3).check(4)
    MethodSettings("bon-loo", k=4).check(4)
    MethodSettings("grpo").check(2)  # which has no k
