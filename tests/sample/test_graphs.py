"""Recorded steps: the same samples as without, in padded rows and places."""

from typing import Any

import pytest
import torch

from maxk.sample import Request, Sampling
from maxk.sample.native import engine as back_end
from maxk.sample.native import graphs
from maxk.sample.native.engine import TransformersSampler
from maxk.sample.native.graphs import Steps, rows_for
from tests.sample.test_draw import plain_sums
from tests.tiny import tiny_model

SETTINGS = Sampling(max_tokens=100, chat=False, seed=3)
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


class Plain:
    """What the kernels do, with torch alone: they need a GPU, their callers do not."""

    sums = staticmethod(plain_sums)

    @staticmethod
    def attend(query, key, value, keys, values, places_B, scale):
        rows, heads, _, width = query.shape
        every = torch.arange(rows)
        keys[every, :, places_B], values[every, :, places_B] = key[:, :, 0], value[:, :, 0]
        grouped = query.reshape(rows, keys.shape[1], -1, width) * scale
        hidden = torch.arange(keys.shape[2]) > places_B[:, None]
        scores = grouped @ keys[:rows].transpose(-1, -2)
        weights = scores.masked_fill(hidden[:, None, None], -torch.inf).softmax(-1)
        return (weights @ values[:rows]).reshape(rows, 1, heads, width)


def padded(
    pair: Any, monkeypatch: Any, triton: Any = None, **options: Any
) -> tuple[Any, list[Repeating]]:
    """A sampler that keeps to fixed memory as if there were graphs, and what it recorded.

    triton: what takes the place of its kernels, which a CPU cannot run beside a GPU either.
    """
    made: list[Repeating] = []

    def steps(model: Any, slots: Any, settings: Sampling, kernels: Any) -> Steps:
        made.append(Repeating())
        return Steps(model, slots, settings, made[-1], kernels)

    monkeypatch.setattr(back_end, "Steps", steps)
    monkeypatch.setattr(back_end, "kernels_there", lambda: triton)
    sampler = TransformersSampler(*pair, **options)
    sampler.graphs = True  # which the constructor grants on a GPU alone
    return sampler, made


def test_steps_on_fixed_memory_draw_what_others_draw(monkeypatch):
    pair = tiny_model()
    plain = drawn(pair, batch=48)
    lengths = {each.tokens for each in plain.values()}
    assert len(lengths) > 20
    assert max(lengths) > 64
    monkeypatch.setattr(graphs, "_PLACES", 64)  # so that there are several
    monkeypatch.setattr(graphs, "_FEWEST", 2)
    sampler, made = padded(pair, monkeypatch, batch=48)
    found = {(each.problem, each.sample): each for each in sampler.sample(REQUESTS, SETTINGS)}
    assert found.keys() == plain.keys()
    for key, one in found.items():
        assert one.ids == plain[key].ids
        assert one.logprob == pytest.approx(plain[key].logprob, abs=1e-4)
        assert one.entropy == pytest.approx(plain[key].entropy, abs=1e-4)
    (repeating,) = made
    assert 2 <= repeating.recorded <= 10  # of few rows and many, before and after growing
    assert repeating.repeated > 100


def test_steps_with_kernels_draw_what_others_draw_whatever_the_places(monkeypatch):
    pair = tiny_model()
    monkeypatch.setattr(graphs, "_PLACES", 64)
    for settings in (SETTINGS, Sampling(temperature=0.6, max_tokens=30, chat=False)):
        plain = ids_of(TransformersSampler(*pair, batch=48), settings)
        sampler, made = padded(pair, monkeypatch, Plain, batch=48)
        assert ids_of(sampler, settings) == plain
        assert made[0].recorded == 1  # 48 rows, of any length
        sampler, made = padded(pair, monkeypatch, Plain, batch=48, kernels=False)
        assert ids_of(sampler, settings) == plain
        assert made[0].recorded == (2 if settings is SETTINGS else 1)


def test_one_long_prompt_does_not_give_all_rows_its_places(monkeypatch):
    """863 problems of one sample each, one of 3,758 tokens, took 40 GiB."""
    pair, sizes = tiny_model(), []
    monkeypatch.setattr(back_end, "_SHORTEST", 32)
    sampler, _ = padded(pair, monkeypatch, batch=48)
    steps = back_end.Steps

    def noted(model: Any, slots: Any, settings: Sampling, kernels: Any) -> Steps:
        sizes.append((slots.slots, slots.places))
        return steps(model, slots, settings, kernels=kernels)

    monkeypatch.setattr(back_end, "Steps", noted)
    settings = Sampling(max_tokens=8, chat=False)
    short = [Request(f"short {i}", "x = 3 ", (0,)) for i in range(40)]
    long = Request("long", "x = 3 " * 20, (0,))
    found = {each.problem: each.ids for each in sampler.sample([*short, long], settings)}
    (one, places), (many, fewer) = sizes
    assert (one, many) == (1, 40)
    assert places >= 4 * fewer
    alone = TransformersSampler(*pair, batch=48).sample([*short, long], settings)
    assert found == {each.problem: each.ids for each in alone}
    # Few rows are one batch all the same: their places are no more than a full one's.
    sizes.clear()
    list(sampler.sample([*short[:3], long], settings))
    assert [rows for rows, _ in sizes] == [4]


def test_the_number_of_rows_is_one_of_a_few():
    assert [rows_for(count, 2048) for count in (2048, 513, 512, 128, 1)] == [
        *(2048, 1024, 512, 128, 64)
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


def ids_of(sampler: Any, settings: Sampling = SETTINGS) -> dict[tuple[str, int], Any]:
    return {(c.problem, c.sample): c.ids for c in sampler.sample(REQUESTS, settings)}


def test_what_was_recorded_is_used_again_with_the_weights_of_the_moment(monkeypatch):
    few = Sampling(max_tokens=30, chat=False)
    pair: Any = tiny_model()
    sampler, made = padded(pair, monkeypatch)
    before = ids_of(sampler, few)
    assert ids_of(sampler, few) == before
    with torch.no_grad():
        for weights in pair[0].parameters():
            weights.mul_(1.5)  # in place, as an optimiser does
    after = ids_of(sampler, few)
    assert len(made) == 1
    assert after != before
    assert after == ids_of(TransformersSampler(*pair), few)
    for weights in pair[0].parameters():
        weights.data = weights.data.clone()  # elsewhere: a graph would read the old memory
    ids_of(sampler, few)
    ids_of(sampler, Sampling(temperature=0.5, max_tokens=30, chat=False))
    assert len(made) == 3


def test_prompts_of_other_lengths_have_slots_of_their_own_where_not_all_fit(monkeypatch):
    model, tokenizer = tiny_model()
    monkeypatch.setattr(back_end, "_SHORTEST", 32)
    sampler, made = padded((model, tokenizer), monkeypatch, batch=8)
    asked = [Request(f"{i}", "x" * (1 + i % 3 * 40), tuple(range(5))) for i in range(6)]
    settings = Sampling(max_tokens=20, chat=False)
    found = {(c.problem, c.sample): c.ids for c in sampler.sample(asked, settings)}
    own = TransformersSampler(model, tokenizer).sample(asked, settings)
    assert found == {(c.problem, c.sample): c.ids for c in own}
    assert len(found) == 30
    assert len(made) == 1  # the longest come first, and shorter ones can use their slots


def test_top_p_and_temperature_are_the_same_in_recorded_steps(monkeypatch):
    pair = tiny_model()
    for settings in (
        Sampling(temperature=0.7, top_p=0.8, max_tokens=30, chat=False),
        Sampling(temperature=0.0, max_tokens=30, chat=False),
    ):
        sampler, _ = padded(pair, monkeypatch)
        assert ids_of(sampler, settings) == ids_of(TransformersSampler(*pair), settings)


def test_a_copy_takes_the_weights_it_is_given():
    trained, tokenizer = tiny_model()
    copy: Any = tiny_model()[0]
    copy.to(torch.bfloat16)
    with torch.no_grad():
        for weights in trained.parameters():
            weights.mul_(1.5)
    sampler = TransformersSampler(copy, tokenizer)
    sampler.load(trained.named_parameters())
    for one, two in zip(copy.parameters(), trained.parameters(), strict=True):
        assert torch.equal(one, two.bfloat16())
    pairs = list(trained.named_parameters())
    with pytest.raises(ValueError, match="has no weights 'other'"):
        sampler.load([("other", pairs[0][1])])
    with pytest.raises(ValueError, match="were not given"):
        sampler.load(pairs[1:])
