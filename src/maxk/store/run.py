"""A run's folder: what was asked, where it ran, and tables that grow by whole files.

    RUN/
      config.toml          everything that was asked for, defaults included
      environment.jsonl    a line per start: versions, commit, hardware
      metrics.jsonl        a line per logged step
      TABLE/PART.parquet   rows, in parts that are there whole or not at all

A part is written under another name and renamed. So a run that is killed leaves whole parts, and
whoever goes on sees by their names what there is. The columns are in `maxk.store.schemas`.
"""

import contextlib
import fcntl
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 2  # of the folder; what is newer is refused, what is older `maxk runs convert` converts
MODEL = "model"  # the trained model, in the folder; it is there when a training is finished
PACKAGES = ("maxk", "torch", "trl", "transformers", "accelerate", "peft", "vllm", "datasets")


_PLACE = {"sample": "--out", "train": "--run.out"}  # what says where a run goes


class RunError(ValueError):
    """A folder that is not the run it was taken for."""


class Run:
    """A run's folder, new or begun."""

    def __init__(
        self, folder: Path, kind: str, config: dict[str, Any], format: int = FORMAT
    ) -> None:
        self.folder, self.kind, self.config, self.format = folder, kind, config, format

    @classmethod
    def start(cls, folder: str | Path, kind: str, config: Mapping[str, Any]) -> "Run":
        """A new run, or the one that lies there if it can be gone on with.

        kind: "train" or "sample". config holds what TOML can; None is left out.
        """
        folder, asked = Path(folder), _plain(config)
        run = cls.there(folder, kind, config)
        if run is None:
            folder.mkdir(parents=True, exist_ok=True)
            run = cls(folder, kind, asked)
            run.change(asked)
        elif run.config != asked:
            if run.is_empty():
                for part in run.parts("problems"):
                    run.remove("problems", part)
            run.change(asked)
        return run

    @classmethod
    def there(cls, folder: str | Path, kind: str, config: Mapping[str, Any]) -> "Run | None":
        """The run that lies in a folder, to be gone on with; None where there is nothing yet.

        It was asked for the same, or has no samples yet, or fewer samples than are asked for.
        RunError for anything else that lies there. Nothing is written.
        """
        folder, asked = Path(folder), _plain(config)
        if folder.exists() and not folder.is_dir():
            raise RunError(f"{folder} is a file; choose another {_PLACE[kind]}")
        if not (folder / "config.toml").exists():
            if folder.exists() and any(folder.iterdir()):
                raise RunError(f"{folder} holds files and no run; choose another {_PLACE[kind]}")
            return None
        run = cls.open(folder)
        if (run.kind, run.config) == (kind, asked):
            return run
        if run.kind == kind == "sample":
            more = asked.get("n", 0) > run.config.get("n", 0)
            if run.is_empty() or (more and run.config == asked | {"n": run.config["n"]}):
                return run
        found = {"kind": run.kind, **run.config}
        rows = "\n  ".join(differences(found, {"kind": kind, **asked}))
        restart = ", or delete the run that is there with --restart" if run.kind == kind else ""
        raise RunError(
            f"{folder} holds a run with other settings:\n  {rows}\n"
            f"choose another {_PLACE[kind]}{restart}"
        )

    def is_empty(self) -> bool:
        """Whether a sampling run has no samples yet."""
        return not self.parts("completions")

    @classmethod
    def delete(cls, folder: str | Path, kind: str) -> None:
        """Delete the run of this kind that lies in a folder, if there is one, and nothing else."""
        folder = Path(folder)
        if not (folder / "config.toml").exists():
            return
        run = cls.open(folder, older=True)
        if run.kind != kind:
            raise RunError(
                f"{folder} is a run of `maxk {run.kind}`, not of `maxk {kind}`; choose another "
                f"{_PLACE[kind]}"
            )
        with run.locked():
            for name in [*run.tables(), "checkpoints", MODEL, f".{MODEL}"]:
                shutil.rmtree(folder / name, ignore_errors=True)
            for name in ("metrics.jsonl", "environment.jsonl", "trl.json", "config.toml"):
                (folder / name).unlink(missing_ok=True)
        (folder / ".lock").unlink()

    @classmethod
    def open(cls, folder: str | Path, older: bool = False) -> "Run":
        """The run that lies in a folder. older: also one that has to be converted first."""
        folder = Path(folder)
        try:
            config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
            about = config.pop("maxk")
        except FileNotFoundError:
            if not folder.exists():
                raise RunError(f"{folder} is missing; give the folder of a run") from None
            raise RunError(
                f"{folder} is not a run: it has no config.toml; give the folder of a run"
            ) from None
        except NotADirectoryError:
            raise RunError(f"{folder} is a file; give the folder of a run") from None
        except (KeyError, tomllib.TOMLDecodeError) as error:
            raise RunError(f"{folder}/config.toml is not that of a run: {error}") from None
        if about["format"] > FORMAT:
            raise RunError(f"{folder} has format {about['format']}; this maxk reads {FORMAT}")
        if about["format"] < FORMAT and not older:
            raise RunError(
                f"{folder} was written by an older maxk; run: maxk runs convert {folder}"
            )
        return cls(folder, about["kind"], config, about["format"])

    def change(self, config: Mapping[str, Any]) -> None:
        """Write down what is asked for, in the place of what was."""
        self.config = _plain(config)
        self.format = FORMAT
        text = tomli_w.dumps({"maxk": {"format": FORMAT, "kind": self.kind}, **self.config})
        write_whole(self.folder / "config.toml", text.encode())

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """No second process works on this run meanwhile; the lock ends with the process."""
        with (self.folder / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(
                    f"{self.folder} is being worked on by another process; wait for it, or choose "
                    "another folder"
                ) from None
            yield

    def note_environment(self, **more: Any) -> None:
        """Append where this start of the run happens."""
        self._append("environment.jsonl", {**environment(), **more})

    # --- metrics -----------------------------------------------------------------------------

    def log(self, values: Mapping[str, Any]) -> None:
        """Append one line to the metrics."""
        self._append("metrics.jsonl", dict(values))

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of the metrics; one cut short by a kill is left out."""
        return list(_whole_lines(self.folder / "metrics.jsonl"))

    def forget_metrics(self, after: int) -> None:
        """Drop the lines of steps that will be made again."""
        kept = [line for line in self.metrics() if line.get("step", 0) <= after]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        write_whole(self.folder / "metrics.jsonl", text.encode())

    # --- tables ------------------------------------------------------------------------------

    def write(self, table: str, part: str, rows: "pa.Table") -> None:
        """Add a part to a table, or put it in the place of the one with that name."""
        import pyarrow.parquet as pq  # a while to load

        path = self._part(table, part)
        path.parent.mkdir(exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        pq.write_table(rows, unfinished, compression="zstd")
        _rename(unfinished, path)

    def tables(self) -> list[str]:
        """The names of the tables that there are, in order."""
        folders = sorted(path.name for path in self.folder.iterdir() if path.is_dir())
        return [name for name in folders if self.parts(name)]

    def parts(self, table: str) -> list[str]:
        """The names of a table's parts, in order."""
        found = (self.folder / table).glob("*.parquet")
        return sorted(path.stem for path in found if not path.name.startswith("."))

    def read(self, table: str, columns: Sequence[str] | None = None) -> "pa.Table":
        """A whole table, or some of its columns."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        parts = self.parts(table)
        if not parts:
            raise RunError(f"{self.folder} has no {table}; repeat its `maxk {self.kind}`")
        wanted = None if columns is None else list(columns)
        read = [pq.read_table(self._part(table, part), columns=wanted) for part in parts]
        return pa.concat_tables(read, promote_options="default")

    def remove(self, table: str, part: str) -> None:
        """Drop a part of a table."""
        self._part(table, part).unlink()

    def _part(self, table: str, part: str) -> Path:
        return self.folder / table / f"{part}.parquet"

    def _append(self, name: str, line: dict[str, Any]) -> None:
        path = self.folder / name
        text = json.dumps(line, default=str) + "\n"
        with path.open("a+b") as file:
            file.seek(0, os.SEEK_END)
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # a kill cut the last line short
                    text = "\n" + text
            file.write(text.encode())


def differences(found: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """What is not the same in two nested tables, a line each.

    >>> differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 3, "c": 2}})
    ['a.b: 1 there, 3 asked']
    """
    one, two = _flat(found), _flat(asked)
    return [
        f"{key}: {_shown(one, key)} there, {_shown(two, key)} asked"
        for key in dict.fromkeys([*one, *two])
        if one.get(key) != two.get(key)
    ]


def environment() -> dict[str, Any]:
    """Versions, commit and hardware of this process."""
    versions = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "gpus": _gpus(),
        "versions": versions,
        "commit": _commit(),
        "command": sys.argv,
    }


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that nobody ever sees half of it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_bytes(data)
    _rename(unfinished, path)


def _rename(unfinished: Path, path: Path) -> None:
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())  # a name must not outlive the data after a power cut
    unfinished.replace(path)


def _whole_lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                yield json.loads(line)


def _plain(value: Any) -> Any:
    """What TOML can hold, as reading it gives it back."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            out |= _flat(value, f"{prefix}{key}.")
        else:
            out[f"{prefix}{key}"] = value
    return out


def _shown(table: Mapping[str, Any], key: str) -> str:
    return repr(table[key]) if key in table else "nothing"


def _gpus() -> list[str]:
    torch = sys.modules.get("torch")  # not imported for this alone
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


def _commit() -> str | None:
    """Of the folder that maxk is run from, with a plus where files were changed."""

    def git(*command: str) -> str:
        done = subprocess.run(["git", *command], capture_output=True, text=True, timeout=10)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        commit = git("rev-parse", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (commit + "+" * bool(changed)) or None
