"""Read raw rows from the Hugging Face hub or from disk; loaders give the fields their meaning.

On disk a data set is one file, or a folder: .jsonl, .jsonl.gz, .json (a list), .parquet. In a
folder the files of a split are found by their names, first in the layout that the hub has.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxk.data.base import Row, plain_name
from maxk.store.rows import json_lines, parquet

if TYPE_CHECKING:
    from maxk.data.registry import DataSet

SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".parquet")


def rows(dataset: "DataSet", split: str, source: str | Path | None) -> Iterator[Row]:
    """The rows of a split in the published order."""
    if source is not None:
        paths = files_of(dataset, split, Path(source))
    elif dataset.bundled is not None:
        paths = [dataset.bundled]
    elif dataset.hub is None:
        raise ValueError(f"{dataset.name} has no published files; use source=PATH")
    elif dataset.as_files:
        paths = downloaded(dataset, dataset.hub, split)
    else:
        yield from hub_rows(dataset, dataset.hub, split)
        return
    for path in paths:
        yield from file_rows(path, dataset.name, dataset.unused)


# --- the hub -------------------------------------------------------------------------------------


def hub_rows(dataset: "DataSet", hub: str, split: str) -> Iterator[Row]:
    """Rows through the package `datasets`, which keeps what it has read in its cache."""
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise _needs_train(hub, "datasets") from error
    table: Any = load_dataset(
        hub,
        dataset.config,
        split=split,
        streaming=dataset.streaming,  # pyright: ignore[reportArgumentType]
        revision=dataset.revision,
    )
    for number, fields in enumerate(table):
        yield Row(dataset.name, f"{hub} {split}, row {number}", dict(fields))


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
        raise FileNotFoundError(f"source={str(source)!r}: no such file or folder")
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


def file_rows(path: Path, dataset: str, unused: Sequence[str] = ()) -> Iterator[Row]:
    """The rows of one file. ValueError names the file and the line of what cannot be read."""
    if path.name.endswith(".parquet"):
        found = parquet(path, unused)
    elif path.name.endswith(".json"):
        found = _json_list(path)
    elif path.name.endswith((".jsonl", ".jsonl.gz")):
        found = json_lines(path)
    else:
        raise ValueError(f"{path}: not one of {', '.join(SUFFIXES)}")
    for where, fields in found:
        if not isinstance(fields, dict):
            raise ValueError(f"{path.name}, {where}: {plain_name(fields)}; use an object")
        yield Row(dataset, f"{path.name}, {where}", fields)


def _json_list(path: Path) -> Iterator[tuple[str, Any]]:
    data = path.read_bytes()
    try:
        data.decode("utf-8")
        found = json.loads(data)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        at = f"line {line}: not UTF-8: byte 0x{data[error.start]:02x}"
        raise ValueError(f"{path}, {at}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
    if not isinstance(found, list):
        raise ValueError(f"{path}: {plain_name(found)}; a .json file is one list of objects")
    for number, fields in enumerate(found):
        yield f"entry {number}", fields
