"""`maxk report` as a user types it."""

import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import scipy.stats

from maxk.report import Findings, gather
from maxk.report.sections import about_run
from maxk.report.text import card
from tests import command
from tests.report.runs import sampled, trained

BEFORE = {f"p{i}": [4, 0, 0, 0] for i in range(8)}
AFTER = {f"p{i}": [4, 4, 4, 0] for i in range(8)}


def maxk(*given: str | Path, code: int = 0) -> str:
    done = command.maxk("report", *given)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("command")
    return sampled(folder / "base", BEFORE), sampled(folder / "ours", AFTER)


def test_the_page_is_written_and_the_answer_printed(runs, tmp_path):
    said = " ".join(maxk(*runs, "--out", tmp_path / "r.html").split())
    assert "Against base, ours raises max@1 by 0.500" in said
    assert "r.html: 0." in said
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_the_terminal_has_headline_table_and_sparkline(runs, tmp_path):
    said = maxk(*runs, trained(tmp_path / "t"), "--terminal")
    assert "raises max@1 by 0.500" in " ".join(said.split())
    row = next(line for line in said.splitlines() if line.strip().startswith("2 "))
    # max@2 of 1 in 4 is a half; of 3 in 4 it is 1. All problems are alike, so the intervals of the
    # runs are points; that of the difference is as if one more problem had shown none, of variance
    # 0.5^2 / 9 among nine, over 8.
    assert "0.500 (0.500 to 0.500)" in row
    assert "1.000 (1.000 to 1.000)" in row
    half = scipy.stats.t.ppf(0.975, 7) * (0.5**2 / 9 / 8) ** 0.5
    assert f"+0.500 (+{0.5 - half:.3f} to +{0.5 + half:.3f})" in row
    assert re.search(r"^base  ▃▅█  max@k from 0.250 to 1.000$", said, re.MULTILINE)
    assert re.search(r"^t  reward +▁▁▅▅██  0.344 to 0.781$", said, re.MULTILINE)


def test_figures_and_card_are_files(runs, tmp_path):
    folder = tmp_path / "figures"
    maxk(*runs, "--figures", folder, "--card", folder / "card.md")
    assert len(list(folder.glob("*.svg"))) == len(list(folder.glob("*.pdf"))) >= 5
    text = (folder / "card.md").read_text()
    assert text.startswith("## Best-of-N\n\nAgainst base, ours raises max@1 by 0.500")
    assert "| ours | 0.750 (0.750 to 0.750) | 1.000" in text
    assert "8 problems of made up (test), 4 samples each at temperature 1.0" in text
    for name in re.findall(r"\]\((\S+\.png)\)", text):
        assert (folder / name).exists()
    assert not Path("report.html").exists()


def test_the_card_says_when_runs_have_other_numbers_of_samples(runs, tmp_path):
    more = sampled(tmp_path / "more", {name: [*row, 4, 4] for name, row in AFTER.items()})
    text = card(Findings(gather([runs[0], more])))
    assert "4 to 6 samples at temperature 1.0" in text
    assert "differences paired by problem, with as many samples of each run." in text
    assert "more raises max@1 by 0.500" in text  # of the first four; of all six it would be 0.583


def test_prompt_variants_are_said_of_the_runs_that_had_them(tmp_path):
    variants = ["Be brief.", "Use no library."]
    both = [
        sampled(tmp_path / name, rows, prompt_variants=variants)
        for name, rows in (("base", BEFORE), ("ours", AFTER))
    ]
    found = gather(both)
    assert "at temperature 1.0, top-p 1.0 with 2 prompt variants in turn, up to" in card(
        Findings(found)
    )
    assert about_run(found.runs[0]).endswith("top-p 1.0, 2 prompt variants in turn")


def test_names_are_escaped_in_the_card(runs):
    found = Findings(gather([f"a|*b*={runs[0]}", runs[1]]))
    assert r"| a\|\*b\* |" in card(found)


def test_a_report_needs_no_torch(runs):
    code = (
        "import sys; from maxk.report import Findings, gather, page;"
        f"page(Findings(gather({[str(run) for run in runs]})));"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (["/no/such/run"], 1, "/no/such/run is missing\ngive the folder of a run\n"),
        ([], 2, "RUNS must be given\nmaxk report --help has an example and the options\n"),
    ],
)
def test_mistakes_are_two_lines(given, code, message):
    assert maxk(*given, code=code) == f"maxk report: {message}"


def test_half_a_run_is_refused_with_the_way_out(tmp_path):
    folder = sampled(tmp_path / "half", BEFORE)
    (folder / "verdicts" / "000000.parquet").unlink()
    assert "run: maxk verify" in maxk(folder, code=1)


def test_watching_what_is_no_run_is_a_mistake(tmp_path):
    assert "is not a run: it has no config.toml" in maxk(tmp_path, "--watch", code=1)


def test_watch_serves_and_ends_quietly(tmp_path):
    folder = trained(tmp_path / "t", finished=False)
    # A suite that runs in the background ignores Ctrl-C, and so would what it starts.
    words = ["env", "--default-signal=INT", sys.executable, "-u", "-m", "maxk", "report"]
    words += [str(folder), "--watch", "--port", "0"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        end = time.monotonic() + 30
        html = ""
        while "In t the mean reward" not in html and time.monotonic() < end:
            with urllib.request.urlopen(address, timeout=10) as answer:
                html = answer.read().decode()
            time.sleep(0.1)
        assert "went so far from" in html
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=20)
        assert process.returncode == 0
    assert rest == ""
