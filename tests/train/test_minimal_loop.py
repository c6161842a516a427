"""The loop that teaches makes the updates of the trainer that is used."""

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.tiny import tiny_model
from tests.train.test_trainer import SPLIT, train

pytestmark = pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours
LOOP = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "minimal_loop.py"))


@pytest.mark.parametrize("split", [{}, SPLIT], ids=["whole groups", "split groups"])
def test_its_steps_are_those_of_the_trainer(tmp_path, split):
    plain = {"max_grad_norm": 0.0, "weight_decay": 0.0, "prompt": "{:2d} "}
    trainer = train(tmp_path, num_iterations=3, max_steps=3, **plain, **split)
    trained: Any = trainer.model
    trainer.states[3] = trained.state_dict()
    batch = trainer.batches[0]
    assert batch["prompt_mask"].all(), "the loop knows no padding of prompts"
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    for updates in (1, 3):
        model, _ = tiny_model()
        model.load_state_dict(trainer.states[0])
        optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
        LOOP["update"](
            model, optimizer, ids, batch["completion_mask"], batch["rewards"], 2, updates
        )
        for name, value in model.state_dict().items():
            expected = trainer.states[updates][name]
            torch.testing.assert_close(value, expected, atol=1e-5, rtol=0)
            assert not torch.equal(value, trainer.states[0][name])


def test_it_learns(capsys):
    LOOP["main"](11)
    first, *_, last = capsys.readouterr().out.splitlines()
    before, after = (float(line.split()[-1]) for line in (first, last))
    assert after > before + 0.2
