"""How the functions behave as torch code: dtypes, devices, gradients, torch.compile."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from maxk.estimators import METHODS, advantages, max_at_k, pass_at_k, subset_max, weights
from maxk.estimators.combinations import BASELINES

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def group(dtype=torch.float64, device="cpu"):
    generator = torch.Generator().manual_seed(0)
    r = (torch.rand(6, 8, generator=generator) * 4).round() / 4  # exact in every dtype
    x = (torch.randn(6, 8, generator=generator) * 4).round() / 8
    return r.to(device, dtype), x.to(device, dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_results_are_the_float64_results_in_the_dtype_and_on_the_device_of_the_input(dtype, device):
    r64, x64 = group()
    r, x = group(dtype, device)
    for got, want in [
        (max_at_k(r, 4), max_at_k(r64, 4)),
        (pass_at_k(r, 4), pass_at_k(r64, 4)),
        (subset_max(r, x, 4), subset_max(r64, x64, 4)),
        *(
            (weights(r, 4, x, o, b), weights(r64, 4, x64, o, b))
            for o in ("first", "exact")
            for b in BASELINES
        ),
    ]:
        assert got.dtype == dtype
        assert got.device.type == device
        torch.testing.assert_close(got.cpu(), want.to(dtype))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_runs_on_every_device(method, device):
    r, x = group(torch.float32, device)
    r = (r >= 1).float() if method == "pass-at-k" else r
    x = x if METHODS[method].off_policy else None
    got = advantages(method, r, 4, x)
    want = advantages(method, r.cpu(), 4, None if x is None else x.cpu())
    torch.testing.assert_close(got.cpu(), want)


def test_integer_and_boolean_rewards_give_the_default_dtype():
    for r in (torch.tensor([0, 1, 1, 0]), torch.tensor([False, True, True, False])):
        assert weights(r, 2).dtype == torch.float32
        torch.testing.assert_close(max_at_k(r, 2), torch.tensor(5 / 6))


def test_mixed_dtypes_are_promoted():
    r, x = group(torch.float32)
    assert weights(r, 4, x.bfloat16()).dtype == torch.float32
    assert weights(r, 4, x.double()).dtype == torch.float64


def test_weights_and_advantages_are_constants_of_the_loss():
    r, x = group()
    x.requires_grad_()
    assert not weights(r, 4, x).requires_grad
    assert not advantages("off-policy-exact", r, 4, x).requires_grad


def test_subset_max_backpropagates_through_a_model():
    """The chain rule into logits gives the weighted policy gradient."""
    r, _ = group()
    logits = torch.zeros(6, 8, dtype=torch.float64, requires_grad=True)
    log_ratios = logits.log_softmax(-1) - logits.log_softmax(-1).detach()
    subset_max(r, log_ratios, 4).sum().backward()
    w = weights(r, 4)
    torch.testing.assert_close(logits.grad, w - w.sum(-1, keepdim=True) / 8)


def test_subset_max_passes_gradcheck_in_both_arguments():
    r, x = group()
    r = r + torch.arange(8) * 1e-3  # apart, so that a finite step changes no order
    torch.autograd.gradcheck(
        lambda r, x: subset_max(r, x, 3), (r[:2].requires_grad_(), x[:2].requires_grad_()), eps=1e-7
    )


def test_max_at_k_is_differentiable_in_the_rewards():
    r = torch.tensor([0.1, 0.4, 0.2], dtype=torch.float64, requires_grad=True)
    max_at_k(r, 2).backward()
    torch.testing.assert_close(r.grad, torch.tensor([0, 2, 1], dtype=torch.float64) / 3)


def test_a_second_derivative_is_an_error_and_not_a_silent_zero():
    r, x = group()
    x.requires_grad_()
    with pytest.raises(NotImplementedError, match="subset_max has no second derivative"):
        torch.autograd.grad(subset_max(r, x, 4).sum(), x, create_graph=True)


def test_everything_runs_under_no_grad_and_inference_mode():
    r, x = group()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert not subset_max(r, x.requires_grad_(), 4).requires_grad
            assert weights(r, 4, x).isfinite().all()


def test_a_batch_of_no_prompts_gives_a_result_for_no_prompts():
    r = torch.zeros(0, 8)
    assert max_at_k(r, 4).shape == subset_max(r, r, 4).shape == (0,)
    for order in ("first", "exact"):
        assert weights(r, 4, r, order, "loo").shape == (0, 8)
    assert advantages("bon-mean", r, 4).shape == (0, 8)


def test_inputs_are_left_as_they_were():
    r, x = group()
    before = r.clone(), x.clone()
    for order in ("first", "exact"):
        for baseline in BASELINES:
            weights(r, 4, x, order, baseline)
    subset_max(r, x, 4)
    max_at_k(r, 4)
    assert torch.equal(r, before[0])
    assert torch.equal(x, before[1])


def test_the_kind_that_goes_in_comes_out():
    assert isinstance(max_at_k([0.0, 1.0], 1), float)
    assert max_at_k([[0, 1], [1, 1]], 2) == [1.0, 1.0]
    assert max_at_k(np.array([[0.0, 1.0]]), [1, 2]).tolist() == [[0.5, 1.0]]
    assert max_at_k(np.array([0.0, 1.0], dtype=np.float32), 1).dtype == np.float32
    assert max_at_k(np.array([False, True]), 1).dtype == np.float64
    assert pass_at_k(np.ones((2, 3, 4)), 2).shape == (2, 3)
    assert pass_at_k(((0.0, 1.0), (1.0, 1.0)), range(1, 3)) == [[0.5, 1.0], [1.0, 1.0]]


COMPILED = """
import torch
from maxk.estimators import METHODS, advantages, max_at_k, subset_max, weights

generator = torch.Generator().manual_seed(0)
r = (torch.rand(3, 5, generator=generator) * 4).round() / 4
x = torch.randn(3, 5, generator=generator) / 4
calls = {
    "max_at_k": lambda r, x: max_at_k(r, 3),
    "on-policy": lambda r, x: weights(r, 3, baseline="loo"),
    "first": lambda r, x: weights(r, 3, x, correction="first", baseline="loo"),
    "exact": lambda r, x: weights(r, 3, x, baseline="loo"),
    "exact loo-1": lambda r, x: weights(r, 3, x, baseline="loo-1"),
    "max-rl": lambda r, x: advantages("max-rl", r),
    "pass-at-k": lambda r, x: advantages("pass-at-k", (r >= 1).float(), 3),
    "off-policy": lambda r, x: advantages("off-policy", r, 3, x),
}
def everything(r, x):
    return [call(r, x) for call in calls.values()]

# Traced together, for a trace takes a second; with no_grad, as a trainer calls them.
with torch.no_grad():
    compiled = torch.compile(everything, fullgraph=True, backend=BACKEND)(r, x)
for name, got, want in zip(calls, compiled, everything(r, x), strict=True):
    torch.testing.assert_close(got, want, msg=name)

loss = torch.compile(lambda r, x: subset_max(r, x, 4).sum(), backend=BACKEND)
gradients = []
for f in (loss, lambda r, x: subset_max(r, x, 4).sum()):
    y = x.clone().requires_grad_()
    f(r, y).backward()
    gradients.append(y.grad)
torch.testing.assert_close(*gradients)
print("compiled", len(calls) + 1)
"""


def run(code: str) -> str:
    """In a fresh interpreter: without the shape checks of this suite, which torch cannot trace."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_all_functions_compile_as_one_graph_to_the_same_numbers():
    assert run(COMPILED.replace("BACKEND", '"aot_eager"')) == "compiled 9\n"


@pytest.mark.slow
def test_all_functions_compile_with_inductor_to_the_same_numbers():
    assert run(COMPILED.replace("BACKEND", '"inductor"')) == "compiled 9\n"
