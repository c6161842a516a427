"""The table of data sets: where each is published, and which loader reads its rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maxk.data import contests, functions, jsonl, livecode, plus
from maxk.data.base import Row
from maxk.pocket import world
from maxk.records import Problem

# A revision is the full name of a commit that is known to hold the files named here. Gen-Verse's
# sets have revision=None, whatever is newest: no full commit name of theirs was at hand to pin.


@dataclass(frozen=True)
class DataSet:
    """One data set as it is published."""

    name: str
    loader: Callable[..., Problem | None]  # a Row and an Account in, None for a dropped row
    splits: tuple[str, ...]
    licence: str
    citation: str
    size: str  # problems in each split, as published
    hub: str | None = None  # its id on the Hugging Face hub
    config: str | None = None
    revision: str | None = None
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # on the hub, by split
    also: tuple[str, ...] = ()  # names that copies of it have elsewhere
    as_files: bool = False  # fetched file by file: `datasets` does not read it
    streaming: bool = False
    unused: tuple[str, ...] = ()  # columns that are large and not needed
    split_of: Callable[[Row], str | None] | None = None  # where a file holds several splits
    bundled: Path | None = None  # a file of this package
    made: Callable[[Any], list[Problem]] | None = None  # not read but generated, by split


_LCB_FILES = ("test.jsonl", *(f"test{n}.jsonl" for n in range(2, 7)))
_CURE = "Wang et al. 2025, arXiv:2506.03136"
_EVALPLUS = "Liu et al. 2023, arXiv:2305.01210"


def _cure(name: str, published: str, split: str, size: str) -> DataSet:
    return DataSet(
        name=name,
        loader=contests.cure,
        splits=(split,),
        licence="MIT",
        citation=_CURE,
        size=size,
        hub=f"Gen-Verse/{published}",
        files={split: (f"{split}/{published}.json",)},
        also=(f"{published}.json",),
        as_files=True,
    )


_ALL = (
    DataSet(
        name="code-contests",
        loader=contests.code_contests,
        splits=("train", "valid", "test"),
        licence="CC-BY-4.0",
        citation="Li et al. 2022, arXiv:2203.07814",
        size="train 13,328, valid 117, test 165",
        hub="deepmind/code_contests",
        revision="802411c3010cb00d1b05bad57ca77365a3c699d6",
        files={split: (f"data/{split}-*.parquet",) for split in ("train", "valid", "test")},
        streaming=True,
        unused=("incorrect_solutions",),
    ),
    DataSet(
        name="live-code-bench",
        loader=livecode.live_code_bench,
        splits=("test", "v6"),
        licence="CC",
        citation="Jain et al. 2024, arXiv:2403.07974",
        size="test 1,055 (release_v6), of which v6 alone 175",
        hub="livecodebench/code_generation_lite",
        revision="0fe84c3912ea0c4d4a78037083943e8f0c4dd505",
        files={"test": _LCB_FILES, "v6": _LCB_FILES[-1:]},
        as_files=True,
    ),
    DataSet(
        name="live-bench",
        loader=livecode.live_bench,
        splits=("test",),
        licence="not stated",
        citation="White et al. 2024, arXiv:2406.19314",
        size="test 128",
        hub="livebench/coding",
        revision="a958549fdd8aa57be0a3fafe7b205ffc160ed5f4",
        files={"test": ("data/test-*.parquet",)},
    ),
    DataSet(
        name="codeforces",
        loader=contests.codeforces,
        splits=("train", "test"),
        licence="CC-BY-4.0",
        citation="Penedo et al. 2025, huggingface.co/datasets/open-r1/codeforces",
        size="train 9,556, test 468",
        hub="open-r1/codeforces",
        config="default",
        revision="fbe3f6e903ee854eec2e69e9d96d0306cde59baf",
        files={split: (f"data/{split}-*.parquet",) for split in ("train", "test")},
        streaming=True,
        unused=("editorial",),
    ),
    DataSet(
        name="mbpp",
        loader=functions.mbpp,
        splits=("train", "validation", "test", "prompt"),
        licence="CC-BY-4.0",
        citation="Austin et al. 2021, arXiv:2108.07732",
        size="train 374, validation 90, test 500, prompt 10",
        hub="google-research-datasets/mbpp",
        config="full",
        revision="4bb6404fdc6cacfda99d4ac4205087b89d32030c",
        files={split: (f"full/{split}-*.parquet",) for split in functions.MBPP_SPLITS},
        also=("mbpp.jsonl",),
        split_of=functions.mbpp_split,
    ),
    DataSet(
        name="mbpp-plus",
        loader=plus.mbpp_plus,
        splits=("test",),
        licence="Apache-2.0",
        citation=_EVALPLUS,
        size="test 378",
        hub="evalplus/mbppplus",
        revision="b2d74c91837c3f2a20c1299ae98133cbe7cfa077",
        files={"test": ("data/test-*.parquet",)},
        also=("MbppPlus*.jsonl", "MbppPlus*.jsonl.gz"),
    ),
    DataSet(
        name="humaneval",
        loader=functions.humaneval,
        splits=("test",),
        licence="MIT",
        citation="Chen et al. 2021, arXiv:2107.03374",
        size="test 164",
        hub="openai/openai_humaneval",
        revision="7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544",
        files={"test": ("openai_humaneval/test-*.parquet",)},
        also=("HumanEval.jsonl", "HumanEval.jsonl.gz"),
    ),
    DataSet(
        name="humaneval-plus",
        loader=plus.humaneval_plus,
        splits=("test",),
        licence="Apache-2.0",
        citation=_EVALPLUS,
        size="test 164",
        hub="evalplus/humanevalplus",
        revision="d32357cf319e50e9c8d8dab5ea876c72b0fd321b",
        files={"test": ("data/test-*.parquet",)},
        also=("HumanEvalPlus*.jsonl", "HumanEvalPlus*.jsonl.gz"),
    ),
    DataSet(
        name="leetcode",
        loader=functions.leetcode,
        splits=("train", "test"),
        licence="Apache-2.0",
        citation="Xia et al. 2025, arXiv:2504.14655",
        size="train 2,641, test 228",
        hub="newfacade/LeetCodeDataset",
        revision="215604aeed660029df7de2fea5a4d7b6ed476a08",
        files={split: (f"LeetCodeDataset-{split}.jsonl",) for split in ("train", "test")},
        also=("LeetCodeDataset-*{split}.jsonl", "LeetCodeDataset-*{split}.jsonl.gz"),
    ),
    DataSet(
        name="starter",
        loader=jsonl.problem,
        splits=("all",),
        licence="Apache-2.0",
        citation="this package",
        size="all 140",
        bundled=Path(__file__).with_name("starter.jsonl"),
    ),
    DataSet(
        name="pocket",
        loader=jsonl.problem,
        splits=("train", "validation", "test"),
        licence="Apache-2.0",
        citation="this package",
        size=", ".join(f"{split} {count}" for split, count in world.SIZES.items()),
        made=world.load,
    ),
    DataSet(
        name="jsonl",
        loader=jsonl.problem,
        splits=("all", "train", "validation", "test"),
        licence="yours",
        citation="yours",
        size="as many as the file has",
    ),
    _cure("cure-code-contests-train", "CodeContests_train", "train", "train 4,530"),
    _cure("cure-code-contests", "CodeContests", "test", "test 239"),
    _cure("cure-live-code-bench", "LiveCodeBench-ReasonFlux", "test", "not stated"),
    _cure("cure-live-bench", "LiveBench-ReasonFlux", "test", "test 128"),
    _cure("cure-codeforces", "CodeForces", "test", "test 467"),
    _cure("cure-mbpp", "MBPP-ReasonFlux", "test", "test 221"),
)

DATASETS: dict[str, DataSet] = {dataset.name: dataset for dataset in _ALL}
