"""Recorded steps: the same samples as without, in padded rows and places."""

from typing import Any

import pytest
import torch

from maxk.sample import Request, Settings, slots
from maxk.sample import transformers_ as back_end
from maxk.sample.graphs import Steps, rows_for
from maxk.sample.transformers_ import TransformersSampler
from tests.tiny import tiny_model

SETTINGS = Settings(max_tokens=100, chat=False, seed=3)
REQUESTS = [Request(str(i), "x = 3 " * i + "y", tuple(range(40))) for i in range(1, 4)]


def drawn(pair: tuple[Any, Any], **options: Any) -> dict[tuple[str, int], Any]:
    found = TransformersSampler(*pair, **options).sample(REQUESTS, SETTINGS)
    return {(each.problem, each.sample): each for each in found}


class Repeating:
    """Records nothing: calls the step again, as a graph would on the same memory."""

    def __init__(self) -> None:
        self.recorded = self.repeated = 0

    def __call__(self, step):
        self.recorded += 1

        def repeat():
            self.repeated += 1
            return step()

        return repeat


def test_steps_on_fixed_memory_draw_what_others_draw(monkeypatch):
    pair = tiny_model()
    plain = drawn(pair, batch=48)
    lengths = {each.tokens for each in plain.values()}
    assert len(lengths) > 20
    assert max(lengths) > 64
    repeating = Repeating()
    monkeypatch.setattr(slots, "_GROWTH", 64)  # so that they grow once on the way

    def steps(model: Any, rows: Any) -> Steps:
        return Steps(model, rows, repeating)

    monkeypatch.setattr(back_end, "Steps", steps)
    sampler = TransformersSampler(*pair, batch=48)
    sampler.graphs = True  # which the constructor grants on a GPU alone
    found = {(each.problem, each.sample): each for each in sampler.sample(REQUESTS, SETTINGS)}
    assert found.keys() == plain.keys()
    for key, one in found.items():
        assert one.ids == plain[key].ids
        assert one.logprob == pytest.approx(plain[key].logprob, abs=1e-4)
        assert one.entropy == pytest.approx(plain[key].entropy, abs=1e-4)
    assert 2 <= repeating.recorded <= 6  # of few rows and many, before and after growing
    assert repeating.repeated > 100


def test_the_number_of_rows_is_one_of_a_few():
    assert [rows_for(count, 512) for count in (512, 129, 128, 33, 32, 8, 1)] == [
        *(512, 512, 128, 128, 32, 8, 2)
    ]
    assert rows_for(1, 3) == 3
    for most in range(1, 70):
        assert all(count <= rows_for(count, most) <= most for count in (1, most))


def test_without_a_gpu_there_are_no_graphs():
    with pytest.raises(ValueError, match="needs a GPU"):
        TransformersSampler(*tiny_model(), graphs=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_graphs_draw_what_steps_draw():
    pair: Any = tiny_model()
    pair[0].to("cuda")
    plain, found = drawn(pair, batch=48), drawn(pair, batch=48, graphs=True)
    assert found.keys() == plain.keys()
    same = [key for key in found if found[key].ids == plain[key].ids]
    assert len(same) >= 0.95 * len(found)  # a rounding may decide a draw
    for key in same:
        assert found[key].logprob == pytest.approx(plain[key].logprob, abs=1e-2)
