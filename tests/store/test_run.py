"""A run's folder: parts whole or not at all, and no run taken for another."""

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maxk.store.run import FORMAT, Run, RunError, differences


def test_a_run_is_found_again_with_what_was_asked(tmp_path):
    config = {"model": {"name": "m", "path": Path("a"), "none": None}, "ks": (1, 2), "lr": 5e-6}
    Run.start(tmp_path / "r", "train", config)
    again = Run.start(tmp_path / "r", "train", config)
    assert again.config == {"model": {"name": "m", "path": "a"}, "ks": [1, 2], "lr": 5e-6}
    assert again.kind == "train"


def test_other_settings_or_another_kind_are_refused_with_the_difference(tmp_path):
    Run.start(tmp_path / "r", "train", {"method": {"k": 4}, "only": 1})
    with pytest.raises(RunError) as error:
        Run.start(tmp_path / "r", "sample", {"method": {"k": 8}})
    for line in ("kind: 'train' there, 'sample'", "method.k: 4 there, 8 asked", "asked"):
        assert line in str(error.value)
    assert "only: 1 there, nothing asked" in str(error.value)


def test_a_folder_with_other_files_is_not_written_into(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(RunError, match="holds files and no run"):
        Run.start(tmp_path, "train", {})
    with pytest.raises(RunError, match=r"has no config.toml"):
        Run.open(tmp_path)


def test_a_newer_format_is_refused(tmp_path):
    run = Run.start(tmp_path / "r", "train", {})
    path = run.folder / "config.toml"
    path.write_text(path.read_text().replace(f"format = {FORMAT}", f"format = {FORMAT + 1}"))
    with pytest.raises(RunError, match=f"has format {FORMAT + 1}; this maxk reads {FORMAT}"):
        Run.open(run.folder)


def test_parts_are_read_in_order_and_replaced_by_name(tmp_path):
    run = Run.start(tmp_path / "r", "sample", {})
    for part, value in (("00001", 2), ("00000", 1), ("00001", 3)):
        run.write("completions", part, pa.table({"a": [value], "b": ["x"]}))
    assert run.parts("completions") == ["00000", "00001"]
    assert run.read("completions", ["a"]).to_pylist() == [{"a": 1}, {"a": 3}]
    run.remove("completions", "00000")
    assert run.read("completions").num_rows == 1
    with pytest.raises(RunError, match="has no verdicts"):
        run.read("verdicts")


def write_for_ever(folder: str) -> None:
    run = Run.open(folder)
    rows = pa.table({"a": list(range(200_000))})
    for i in range(10**6):
        run.write("completions", f"{i:05d}", rows)
        run.log({"step": i})


def test_a_kill_leaves_whole_parts_and_whole_lines(tmp_path):
    run = Run.start(tmp_path / "r", "sample", {})
    for _ in range(3):
        writer = multiprocessing.get_context("spawn").Process(
            target=write_for_ever, args=(str(run.folder),)
        )
        writer.start()
        deadline = time.monotonic() + 60
        while len(run.parts("completions")) < 5 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        parts = run.parts("completions")
        assert len(parts) >= 5
        for part in parts:
            assert pq.read_table(run.folder / "completions" / f"{part}.parquet").num_rows == 200_000
            run.remove("completions", part)


def test_a_line_cut_short_is_left_out_and_the_next_one_is_whole(tmp_path):
    run = Run.start(tmp_path / "r", "train", {})
    run.log({"step": 1, "loss": 0.5})
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "lo')
    run.log({"step": 3})
    assert [line["step"] for line in run.metrics()] == [1, 3]
    run.forget_metrics(after=1)
    assert run.metrics() == [{"step": 1, "loss": 0.5}]


def hold(folder: str, ready: Any) -> None:
    with Run.open(folder).locked():
        ready.set()
        time.sleep(600)


def test_two_processes_do_not_work_on_one_run(tmp_path):
    run = Run.start(tmp_path / "r", "train", {})
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    holder = context.Process(target=hold, args=(str(run.folder), ready))
    holder.start()
    assert ready.wait(60)
    with pytest.raises(RunError, match="another process"), run.locked():
        pass
    holder.kill()
    holder.join()
    with run.locked():
        pass


def test_the_environment_names_versions_commit_and_hardware(tmp_path):
    run = Run.start(tmp_path / "r", "train", {})
    run.note_environment(seed=3)
    text = (run.folder / "environment.jsonl").read_text()
    for word in ("python", "maxk", "cores", "memory_gib", "commit", '"seed": 3'):
        assert word in text


def test_differences_are_none_for_the_same():
    assert differences({"a": {"b": [1]}}, {"a": {"b": [1]}}) == []
