"""Read raw rows from the Hugging Face hub or from disk; loaders give the fields their meaning.

On disk a data set is one file, or a folder: .jsonl, .jsonl.gz, .json (a list), .parquet. In a
folder the files of a split are found by their names, first in the layout that the hub has.
"""

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxk.data.base import Row, plain_name
from maxk.store import hub as network
from maxk.store.rows import BadRow, json_lines, parquet, read_json

if TYPE_CHECKING:
    from maxk.data.registry import DataSet

SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".parquet")


OnBad = Callable[[ValueError], None] | None  # told of a row that cannot be read


def rows(
    dataset: "DataSet", split: str, source: str | Path | None, on_bad: OnBad = None
) -> Iterator[Row]:
    """The rows of a split in the published order. on_bad: told of a row that cannot be read."""
    if source is not None:
        paths = files_of(dataset, split, Path(source))
    elif dataset.bundled is not None:
        paths = [dataset.bundled]
    elif dataset.hub is None:
        raise ValueError(f"{dataset.name} has no published files; give --source PATH")
    elif dataset.as_files:
        with _from_hub(dataset.hub):
            paths = downloaded(dataset, dataset.hub, split)
    else:
        with _from_hub(dataset.hub):
            table = hub_table(dataset, dataset.hub, split)
        for number, fields in enumerate(table, start=1):
            yield Row(dataset.name, f"{dataset.hub} {split}, row {number}", dict(fields))
        return
    for path in paths:
        yield from file_rows(path, dataset.name, dataset.unused, on_bad)


# --- the hub -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _from_hub(hub: str) -> Iterator[None]:
    """Whoever cannot reach the hub is told at once what to do."""
    reachable = network.reachable()
    try:
        yield
    except ImportError:
        raise
    except Exception as error:
        why = str(error).strip().partition("\n")[0]
        if not reachable:
            why = "the Hugging Face hub cannot be reached, and its cache does not have them"
        raise OSError(
            f"the files of {hub} cannot be had: {why}; give the published files on disk: "
            "--source PATH (source=PATH in Python)"
        ) from None


def hub_table(dataset: "DataSet", hub: str, split: str) -> Any:
    """Rows through the package `datasets`, which keeps what it has read in its cache."""
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise _needs_train(hub, "datasets") from error
    return load_dataset(
        hub,
        dataset.config,
        split=split,
        streaming=dataset.streaming,  # pyright: ignore[reportArgumentType]
        revision=dataset.revision,
    )


def downloaded(dataset: "DataSet", hub: str, split: str) -> list[Path]:
    """The files of a split in the cache of the hub, for data sets `datasets` does not read."""
    try:
        from huggingface_hub import hf_hub_download
    except ImportError as error:
        raise _needs_train(hub, "huggingface_hub") from error
    return [
        Path(hf_hub_download(hub, name, repo_type="dataset", revision=dataset.revision))
        for name in dataset.files[split]
    ]


def _needs_train(hub: str, package: str) -> ImportError:
    return ImportError(
        f"reading {hub} from the hub needs the package {package}: "
        "pip install 'maxk[train]', or give the files on disk with source=PATH"
    )


# --- disk ----------------------------------------------------------------------------------------


def files_of(dataset: "DataSet", split: str, source: Path) -> list[Path]:
    """The files that hold a split: the source itself, or those in it whose names say so."""
    if source.is_file():
        return [source]
    if not source.is_dir():
        raise FileNotFoundError(f"{source} is missing; check the path (source)")
    readable = (p for p in source.rglob("*") if p.is_file() and p.name.endswith(SUFFIXES))
    here = sorted(p.relative_to(source) for p in readable)
    for patterns in (dataset.files.get(split, ()), dataset.also):
        wanted = [pattern.format(split=split) for pattern in patterns]
        found = [p for pattern in wanted for p in here if p.match(pattern)]
        if found:
            return [source / p for p in found]
    found = [p for p in here if split == "all" or _says(p, split)]
    if found:
        return [source / p for p in found]
    names = ", ".join(map(str, here[:5])) or "no data files"
    names += f" and {len(here) - 5} more" if len(here) > 5 else ""
    raise FileNotFoundError(
        f"source={str(source)!r} has nothing for the split {split!r} of {dataset.name}; it holds "
        f"{names}. Name the file itself, or name the files after their splits"
    )


def _says(path: Path, split: str) -> bool:
    """Whether the split is a word of the path: `data/train-00.parquet`, `my_test.jsonl`."""
    return re.search(rf"(?<![a-z]){split}(?![a-z])", str(path).lower()) is not None


def file_rows(
    path: Path, dataset: str, unused: Sequence[str] = (), on_bad: OnBad = None
) -> Iterator[Row]:
    """The rows of one file. ValueError names the file and the line of what cannot be read."""
    if path.name.endswith(".parquet"):
        found = parquet(path, unused)
    elif path.name.endswith(".json"):
        found = _json_list(path)
    elif path.name.endswith((".jsonl", ".jsonl.gz")):
        found = json_lines(path, on_bad)
    else:
        raise ValueError(f"{path}: not one of {', '.join(SUFFIXES)}")
    for where, fields in found:
        if not isinstance(fields, dict):
            bad = BadRow(f"{path.name}, {where}: {plain_name(fields)}; use an object")
            if on_bad is None:
                raise bad
            on_bad(bad)
            continue
        yield Row(dataset, f"{path.name}, {where}", fields)


def _json_list(path: Path) -> Iterator[tuple[str, Any]]:
    data = path.read_bytes()
    try:
        found = read_json(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        at = f"line {line}: not UTF-8: byte 0x{data[error.start]:02x}"
        raise ValueError(f"{path}, {at}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
    if not isinstance(found, list):
        raise ValueError(f"{path}: {plain_name(found)}; a .json file is one list of objects")
    for number, fields in enumerate(found, start=1):
        yield f"entry {number}", fields
