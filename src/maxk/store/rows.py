"""JSONL and parquet files, row by row. Nothing here knows what the fields mean."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any


class BadRow(ValueError):  # noqa: N818
    """One row that cannot be read. The others can be, if it is left out."""


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that may be compressed, counted from 1, without those left empty."""
    opened = gzip.open if path.name.endswith(".gz") else open
    try:
        with opened(path, "rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: broken gzip file: {error}") from None


def read_json(text: str) -> Any:
    """What JSON text holds; its integers may have any number of digits."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer of more digits than Python reads
        return json.loads(text, parse_int=lambda digits: int(Decimal(digits)))


def parse(data: bytes) -> Any:
    """JSON from bytes that have to be UTF-8; ValueError says which of the two they are not."""
    try:
        return read_json(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        at = f"byte {error.start + 1} is 0x{data[error.start]:02x}"
        raise ValueError(f"not UTF-8: {at}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("not JSON that can be read: nested too deep") from None


def json_lines(
    path: Path, on_bad: Callable[[ValueError], None] | None = None
) -> Iterator[tuple[str, Any]]:
    """What every line holds, with its place. on_bad: told of a line that cannot be read."""
    for number, line in lines(path):
        try:
            yield f"line {number}", parse(line)
        except ValueError as error:
            bad = BadRow(f"{path}, line {number}: {error}")
            if on_bad is None:
                raise bad from None
            on_bad(bad)


def parquet(path: Path, unused: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
    """What every row holds, with its place, from 1; columns that are not used are not read."""
    import pyarrow as pa  # a while to load
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            columns = [name for name in file.schema_arrow.names if name not in unused]
            number = 1
            for batch in file.iter_batches(batch_size=64, columns=columns):
                for fields in batch.to_pylist():
                    yield f"row {number}", fields
                    number += 1
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a readable parquet file: {error}") from None
