"""The example runs as it is shown, on a model in a folder."""

import runpy
import sys
from pathlib import Path

import pytest

from tests.tiny import tiny_model

EXAMPLE = Path(__file__).parents[2] / "examples" / "trl_two_lines.py"


@pytest.mark.filterwarnings("default")  # of TRL and its libraries, not ours
def test_two_names_are_all_a_trl_user_changes(tmp_path, monkeypatch, capsys):
    """As a script, but in this process: another would import TRL for longer than it trains."""
    model, tokenizer = tiny_model()
    model.config.max_position_embeddings = 4096
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [EXAMPLE.name, str(tmp_path / "model"), "2"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    said = capsys.readouterr().out
    assert "rewards/unit_tests_continuous/mean" in said
    assert "verdict/did_not_compile" in said
