"""The example runs as it is shown, on a model in a folder."""

import os
import subprocess
import sys
from pathlib import Path

from tests.tiny import tiny_model

ROOT = Path(__file__).parents[2]


def test_two_names_are_all_a_trl_user_changes(tmp_path):
    model, tokenizer = tiny_model()
    model.config.max_position_embeddings = 4096
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    run = subprocess.run(
        [sys.executable, ROOT / "examples" / "trl_two_lines.py", tmp_path / "model", "2"],
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert "rewards/unit_tests_continuous/mean" in run.stdout
    assert "verdict/did_not_compile" in run.stdout
