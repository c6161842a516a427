"""The table of commands: where each is, its summary, its examples, and its page.

Nothing is imported here, so that `maxk --help` is quick. tests/test_cli_examples.py runs the
examples.
"""

from typing import NamedTuple

HOW_TO = "docs/how-to/{}.md"
# The page that each command's help ends with. Change it here when a page is renamed.
PAGES = {
    "train": HOW_TO.format("train-one-gpu"),
    "merge": HOW_TO.format("evaluate-compare"),
    "sample": HOW_TO.format("evaluate-compare"),
    "solve": "docs/tutorials/problems.md",
    "verify": HOW_TO.format("import-results"),
    "evaluate": HOW_TO.format("evaluate-compare"),
    "compare": HOW_TO.format("evaluate-compare"),
    "power": HOW_TO.format("evaluate-compare"),
    "forecast": HOW_TO.format("choose-k"),
    "allocate": HOW_TO.format("choose-k"),
    "report": "docs/tutorials/curve.md",
    "data": "docs/tutorials/problems.md",
    "data list": "docs/tutorials/problems.md",
    "data show": "docs/tutorials/problems.md",
    "data check": "docs/tutorials/problems.md",
    "data verify": HOW_TO.format("new-data-set"),
    "runs": HOW_TO.format("evaluate-compare"),
    "runs show": HOW_TO.format("evaluate-compare"),
    "runs join": HOW_TO.format("evaluate-compare"),
    "runs convert": HOW_TO.format("evaluate-compare"),
    "doctor": HOW_TO.format("judge-service"),
}


class Entry(NamedTuple):
    """A subcommand: MODULE:CLASS, and the first line of the docstring of that class."""

    place: str
    summary: str
    group: str


TRAIN, SAMPLE, MEASURE, MANAGE = (
    "Train a model:",
    "Sample programs and judge them:",
    "Measure and compare:",
    "Data, runs and this machine:",
)
COMMANDS = {
    "train": Entry(
        "maxk.cli.train:Train", "Train a model for Best-of-N, as a TOML file says.", TRAIN
    ),
    "merge": Entry(
        "maxk.cli.merge:Merge",
        "Merge models: interpolate towards the base model, or make a soup.",
        TRAIN,
    ),
    "solve": Entry(
        "maxk.cli.solve:Solve", "Solve one problem by Best-of-N and print the best program.", SAMPLE
    ),
    "sample": Entry(
        "maxk.cli.sample:Sample", "Sample n completions of every problem and grade them.", SAMPLE
    ),
    "verify": Entry("maxk.cli.verify:Verify", "Grade stored completions by unit tests.", SAMPLE),
    "evaluate": Entry(
        "maxk.cli.evaluate:Evaluate",
        "Print pass@k and max@k of a run, with confidence intervals.",
        MEASURE,
    ),
    "compare": Entry(
        "maxk.cli.compare:Compare",
        "Compare methods on the same problems: tables, paired differences.",
        MEASURE,
    ),
    "power": Entry(
        "maxk.cli.power:Power",
        "Say how many runs, problems and samples tell a difference apart.",
        MEASURE,
    ),
    "forecast": Entry(
        "maxk.cli.evaluate:Forecast",
        "Forecast max@k or pass@k for more samples than a run has.",
        MEASURE,
    ),
    "allocate": Entry(
        "maxk.cli.allocate:Allocate",
        "Allocate the k samples to several sampling configurations.",
        MEASURE,
    ),
    "report": Entry(
        "maxk.cli.report:Report",
        "Write one HTML page: did training help Best-of-N, and where?",
        MEASURE,
    ),
    "data": Entry(
        "maxk.cli.data:Data", "Data sets and your own problems: list, show, check, verify.", MANAGE
    ),
    "runs": Entry(
        "maxk.cli.runs:Runs",
        "Folders of runs: show progress, join shards, convert old ones.",
        MANAGE,
    ),
    "doctor": Entry(
        "maxk.cli.verify:Doctor",
        "Say which isolation this machine has for judged programs.",
        MANAGE,
    ),
}

_RUN = "maxk sample --model pocket --data pocket --limit 20 -n 8 --out runs/base"
_COOL = f"{_RUN.replace('base', 'cool')} --temperature 0.5"
_TRAIN = "maxk train configs/pocket.toml --run.out runs/bon --trl.max_steps 5"
_TUNED = _RUN.replace("model pocket", "model runs/bon/model").replace("base", "tuned")
_SHARD = _RUN.replace("base", "part{0}") + " --shard {0}/2"
EXAMPLES = {
    "train": [_TRAIN],
    "merge": [_TRAIN, "maxk merge pocket runs/bon --alpha 0.3 --out runs/merged"],
    "solve": [
        "maxk solve --problem starter/133 --model pocket",
    ],
    "sample": [_RUN],
    "verify": [f"{_RUN.replace('base', 'raw')} --no-verify", "maxk verify runs/raw"],
    "evaluate": [_RUN, "maxk evaluate runs/base"],
    "compare": [_TRAIN, _RUN, _TUNED, "maxk compare runs/base runs/tuned"],
    "power": ["maxk power --between-sd 0.025 --within 0.2 --delta 0.02"],
    "forecast": [_RUN, "maxk forecast runs/base"],
    "allocate": [_RUN, _COOL, "maxk allocate runs/base runs/cool -k 8"],
    "report": [_TRAIN, _RUN, _TUNED, "maxk report runs/base runs/tuned --out report.html"],
    "data": ["maxk data list"],
    "data list": ["maxk data list"],
    "data show": ["maxk data show starter --id starter/001"],
    "data check": [
        """echo '{"id": "double", "statement": "Read a number, print its double.", """
        """"tests": [{"input": "2", "output": "4"}]}' >mine.jsonl""",
        "maxk data check mine.jsonl",
    ],
    "data verify": ["maxk data verify starter"],
    "runs": [_RUN, "maxk runs show runs/base"],
    "runs show": [_RUN, "maxk runs show runs/base"],
    "runs join": [
        _SHARD.format(1),
        _SHARD.format(2),
        "maxk runs join runs/whole runs/part1 runs/part2",
    ],
    "runs convert": [_RUN, "maxk runs convert runs/base"],
    "doctor": ["maxk doctor"],
}
