"""What lies in a run's folder: its files, its metrics, and the columns of its tables.

docs/reference/files.md shows all of it; `maxk.store.run.FORMAT`, in config.toml, is their version.
"""

from typing import NamedTuple

import pyarrow as pa


class Column(NamedTuple):
    """A column of a table. Where null can stand, its meaning says what null means."""

    name: str
    type: pa.DataType
    meaning: str
    required: bool = False


FILES = {  # of a folder, and which command writes them
    "config.toml": "everything that was asked for, defaults included, and the format's number",
    "environment.jsonl": "a line per start: versions, commit, hardware",
    "problems/": "table: the problems with their tests",
    "completions/": "table of `maxk sample`: one sample a row",
    "verdicts/": "table of `maxk sample` and `maxk verify`: one judged completion a row",
    "trl.json": "of `maxk train`: all of TRL's arguments as they were used",
    "metrics.jsonl": "of `maxk train`: a line per logged step",
    "rollouts/": "table of `maxk train`: the completions of each batch; step-N.parquet was sampled "
    "after N optimiser steps",
    "checkpoints/": "of `maxk train`: TRL's, with maxk-R.pt of each process R beside them, the "
    "batch in progress, and maxk.json, the settings",
    "model/": "of `maxk train`: the trained model, written when the run is finished",
}

METRICS = {  # of a line of metrics.jsonl, beside TRL's own
    "max_at/K": "max@k of the groups, unbiased; K is 1, 2, 4, 8 and the k that is trained; "
    "in evaluation `eval_max_at/K`",
    "pass_at/K": "in evaluation, as `eval_pass_at/K`: pass@k, where a full reward is stated",
    "groups/unscored": "share of groups with a completion that has no reward",
    "groups/zero_variance": "share of groups in which every weight is 0",
    "groups/all_correct": "share of groups in which any k samples hold a full reward, where "
    "`full_reward` states one",
    "weights/rms": "root mean square of the weights of a batch",
    "unique": "different completions of a group as a share of n",
    "k": "the k of the step",
    "policy_lag/iteration_I/mean": "absolute log-ratio of completions in pass I over the batch, in "
    "nats",
    "policy_lag/iteration_I/max": "the largest of them",
    "ratio/effective": "effective number of subsets of k as a share of all",
    "ratio/masked": "share of completions that masking drops",
    "ratio/masked_tokens": "with masking token: share of tokens that it drops",
    "ratio/vllm_masked": "share of completions that TRL's correction for vLLM masks",
    "ratio/clamped": "share of completions whose ratio is further than clamp_delta from 1",
    "skipped": "share of completions that skip_zero_variance leaves out",
    "verdict/STATUS": "share of tests with this status; no_program: share of completions",
    "seconds/PHASE": "time of a step by phase: sampling, verifying, pre-pass, loading, update",
}

_TEXT, _WHOLE, _NUMBER = pa.string(), pa.int32(), pa.float64()
_NUMBERS = pa.list_(pa.float32())

TABLES = {
    "problems": (
        Column("id", _TEXT, "its name in the data set"),
        Column("statement", _TEXT, "the problem in words"),
        Column("prompt", _TEXT, "what the model is asked: chat messages as JSON"),
        Column("tests", _TEXT, "what programs are graded by, as JSON"),
        Column("examples", _TEXT, "the tests that the prompt shows, as JSON"),
        Column("entry_point", _TEXT, "the function to write; null: a program that reads stdin"),
        Column("reference", _TEXT, "a correct program, or null"),
        Column("difficulty", _TEXT, "as the data set says, or null"),
        Column("origin", _TEXT, "the data set, or null"),
        Column("starter", _TEXT, "code that the solution has to begin with, or null"),
        Column("preamble", _TEXT, "imports that the data set grants every solution, or null"),
        Column("time_limit", _NUMBER, "seconds a test, as the data set says, or null"),
        Column("tags", pa.list_(_TEXT), "as the data set has them"),
        Column("verbatim", pa.bool_(), "whether the prompt is the statement and nothing else"),
    ),
    "completions": (
        Column("problem", _TEXT, "its id", True),
        Column("sample", _WHOLE, "from 0 to n - 1", True),
        Column("completion", _TEXT, "what the model wrote, without the end token", True),
        Column("tokens", _WHOLE, "the end token counted; null where a server does not say"),
        Column("finish", _TEXT, "`stop`, or `length`: truncated at the limit of tokens", True),
        Column(
            "logprob",
            _NUMBER,
            "natural logarithm, summed over the tokens, at temperature 1 without top-p; null where "
            "the back end does not say",
        ),
        Column("entropy", pa.float32(), "nats, mean over the tokens, of the same; or null"),
    ),
    "verdicts": (
        Column("problem", _TEXT, "its id", True),
        Column("sample", _WHOLE, "its number", True),
        Column("reward", _NUMBER, "the fraction of tests passed", True),
        Column("passed", pa.bool_(), "whether all tests passed", True),
        Column(
            "status",
            _TEXT,
            "`passed`, `no program`, or the first of these among its tests: did not compile, "
            "timeout, memory, output limit, runtime error, wrong answer",
            True,
        ),
        Column("program", _TEXT, "what was judged, behind the preamble; null without a program"),
        Column(
            "same_as",
            _WHOLE,
            "the earlier sample whose verdict this is, because the programs differ in comments "
            "alone; null where the program was judged itself",
        ),
        Column("tests", _TEXT, "the verdict of each test, as JSON", True),
    ),
    "rollouts": (
        Column("step", _WHOLE, "optimiser steps made when it was sampled"),
        Column("group", _WHOLE, "the prompt's number in the batch"),
        Column("sample", _WHOLE, "its number in the group"),
        Column("problem", _TEXT, "its id"),
        Column("prompt", _TEXT, "text, or chat messages as JSON"),
        Column("completion", _TEXT, "what the model wrote; of a conversation its last text"),
        Column(
            "conversation",
            _TEXT,
            "all messages of the completion as JSON; null where it is one text",
        ),
        Column("reward", _NUMBER, "what it was trained with"),
        Column("program", _TEXT, "what was judged; null without a program or without unit tests"),
        Column("verdict", _TEXT, "the verdict as JSON; null where nothing was judged"),
        Column("weights", _NUMBERS, "its weight, each time it was trained on; 0 if left out"),
        Column("log_ratios", _NUMBERS, "its log-ratio, each time it was in the loss"),
    ),
}


def schema_of(table: str) -> pa.Schema:
    """The columns of a table as Arrow has them."""
    fields = [pa.field(c.name, c.type, nullable=not c.required) for c in TABLES[table]]
    return pa.schema(fields)
