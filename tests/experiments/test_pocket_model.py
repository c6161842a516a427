"""The tokenizer, the prompt, the saved form, and a few steps of pretraining."""

from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from experiments.pocket.measure import Measure, figures
from experiments.pocket.model import CHARACTERS, LONGEST, PROMPT, model, save, tokenizer
from experiments.pocket.pretrain import Pretrain, group_of_batches, schedule
from maxk.grade import program_of
from maxk.pocket import examples, problems
from maxk.prompts import messages


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("pocket")
    save(model(layers=1, width=32), path)
    return path


def test_statements_and_programs_come_back_from_their_tokens():
    characters = tokenizer()
    for statement, program in islice(examples(0), 3000):
        text = PROMPT.format(statement=statement) + program
        ids = characters(text)["input_ids"]
        assert len(ids) == len(text) < LONGEST
        assert characters.unk_token_id not in ids
        assert characters.decode(ids) == text


def test_the_chat_template_gives_the_text_of_pretraining(folder):
    characters = AutoTokenizer.from_pretrained(folder)
    problem = problems("test", 1)[0]
    prompt = characters.apply_chat_template(
        messages(problem), add_generation_prompt=True, tokenize=False
    )
    assert prompt == PROMPT.format(statement=problem.statement)
    chat = [*messages(problem), {"role": "assistant", "content": problem.reference}]
    whole = characters.apply_chat_template(chat, tokenize=False)
    assert whole == f"{prompt}{problem.reference}<eos>"


def test_batches_hold_prompt_program_and_end_and_count_the_program_alone():
    characters = tokenizer()
    shown = dict.fromkeys(
        f"{PROMPT.format(statement=s)}{p}" for s, p in islice(examples("0 2"), 64)
    )
    seen = []
    for ids_BT, labels_BT in group_of_batches(0, 4, 2):
        for ids, labels in zip(ids_BT, labels_BT, strict=True):
            text = "".join(characters.decode(ids[ids != characters.pad_token_id]))
            counted = "".join(characters.decode(labels[labels != -100]))
            seen.append(text.removesuffix("<eos>"))
            assert text.endswith(f">>>\n{counted}")
            assert counted.endswith("<eos>")
    assert sorted(seen) == sorted(shown)


def test_the_saved_model_is_small_and_loads_as_32_bits(folder):
    loaded = AutoModelForCausalLM.from_pretrained(folder)
    assert loaded.dtype == torch.float32
    assert loaded.config.tie_word_embeddings
    size = (folder / "model.safetensors").stat().st_size
    assert size < 2.1 * sum(p.numel() for p in loaded.parameters()) + 10_000


def test_the_default_model_has_between_one_and_three_million_weights():
    assert 1e6 < sum(p.numel() for p in model().parameters()) < 3e6


def test_samples_are_text_without_marks_and_as_long_as_allowed(folder):
    asked = problems("test", 3)
    written = {p.id: texts for p, texts in Measure(folder, n=16, longest=30).written(asked)}
    assert written.keys() == {problem.id for problem in asked}
    for texts in written.values():
        assert len(texts) == 16
        assert all(len(text) <= 30 and set(text) <= set(CHARACTERS) for text in texts)


@pytest.mark.parametrize(
    "program", ["print(1)", "n=1\nwhile n<9:\n n+=1\n print(n)", " x=1\nprint(x)"]
)
def test_a_bare_program_is_extracted_unchanged(program):
    assert program_of(program) == program


def test_pretraining_lowers_the_loss_and_goes_on_where_it_stopped(tmp_path):
    def losses(name: str) -> list[str]:
        return [
            line.split(",")[1] for line in (tmp_path / name / "loss.csv").read_text().split()[1:]
        ]

    small: dict[str, Any] = {"batch": 8, "layers": 1, "width": 32, "workers": 0, "save_every": 50}
    Pretrain(out=tmp_path / "whole", steps=100, **small).run()
    assert float(losses("whole")[1]) < float(losses("whole")[0])

    class StoppedError(Exception):
        pass

    class Stops(Pretrain):
        def batches(self, first):
            for i, batch in enumerate(super().batches(first)):
                if first + i == 50:
                    raise StoppedError
                yield batch

    with pytest.raises(StoppedError):
        Stops(out=tmp_path / "parts", steps=100, **small).run()
    Pretrain(out=tmp_path / "parts", steps=100, **small).run()
    assert losses("parts") == losses("whole")


def test_a_model_is_measured_and_its_card_has_the_figures(tmp_path, capsys):
    Pretrain(out=tmp_path, steps=50, batch=4, layers=1, width=32, workers=0).run()
    Measure(tmp_path, problems=6, n=4, longest=20, card=True).run()
    card = (tmp_path / "README.md").read_text()
    assert "| 4 | 0.000 ± 0.000 | 0." in card
    assert "50 steps" in card
    assert "6 problems" in card
    assert not set("{}") & set(card)
    assert "pass@4" in capsys.readouterr().out


def test_the_stream_of_examples_can_be_measured_in_the_place_of_a_model(capsys):
    Measure(problems=5, n=8).run()
    assert "pass@8" in capsys.readouterr().out


def test_figures_are_means_over_all_problems_and_over_groups():
    names = ["multiply-add", "order", "sum-less"]  # everything told, a convention open, never seen
    rewards_PN = np.array([[1, 1], [0.5, 1], [0, 0.5]])
    head, first, second = figures(rewards_PN, names)
    assert head[3:] == [
        "pass@k, everything told",
        "pass@k, a convention open",
        "pass@k, families never seen",
    ]
    assert [first[0], first[1][:5], first[2][:5], *first[3:]] == [
        *["1", "0.500", "0.667"],
        *["0.500", "0.500", "0.000"],
    ]
    assert [second[0], second[1][:5], second[2][:5], *second[3:]] == [
        *["2", "0.667", "0.833"],
        *["0.500", "1.000", "0.000"],
    ]


def test_the_learning_rate_rises_and_falls():
    rates = [schedule(step, 100, 0.1) for step in range(100)]
    assert rates.index(max(rates)) in (9, 10)
    assert max(rates) == 1
    assert rates[0] == pytest.approx(0.1)
    assert rates[-1] < 0.06
