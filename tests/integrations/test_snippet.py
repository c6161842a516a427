"""The command of docs/how-to/verl.md is one that verl takes."""

from pathlib import Path

import pytest

from tests.pages import blocks

pytest.importorskip("verl", reason="verl has an environment of its own: make test-verl")

from hydra import compose, initialize_config_dir
from verl.trainer import config as verl_config
from verl.trainer.ppo.reward import get_custom_reward_fn
from verl.trainer.ppo.v1 import get_trainer_cls

from maxk.integrations.verl.settings import settings_of
from maxk.integrations.verl.trainer import BestOfNTrainer


def test_the_command_chooses_maxk_s_trainer_options_and_reward():
    (command,) = blocks("docs/how-to/verl.md", "sh")
    words = command.replace("\\\n", " ").split()
    assert words[:3] == ["python", "-m", "verl.trainer.main_ppo"]
    with initialize_config_dir(str(Path(verl_config.__file__).parent), version_base=None):
        config = compose("ppo_trainer", words[3:])
    assert get_trainer_cls(config.trainer.v1.trainer_mode) is BestOfNTrainer
    assert settings_of(config.algorithm, "off-policy-exact").k == 4
    assert get_custom_reward_fn(config) is not None
