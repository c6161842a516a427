"""Random small faults in the code, one at a time, to see whether the tests notice: make mutants.

The same seed makes the same faults. Each is put into a copy of src that PYTHONPATH names, and the
tests of its room run until one fails. Faults that change nothing anybody could see are not made:
mutants_equivalent.json has them, as [file, line, change, reason].
"""

import argparse
import ast
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, cast

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "maxk"
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.json")
# Those that are to notice a fault in a room, beside the doctests of the file itself.
TESTS = {
    "estimators": ["tests/estimators"],
    "verify": ["tests/verify", "tests/adversarial/test_hostile.py"],
    "evaluate": ["tests/evaluate"],
    "train": ["tests/train"],
    "data": ["tests/data", "tests/test_cli.py"],
    "grade": ["tests/grade", "tests/sample/test_run.py"],
}
COMPARISONS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
SYMMETRIC = re.compile(r"(isinstance|\bmax|\bmin|maximum|minimum|betaln)$")  # in two arguments


class Mutant(NamedTuple):
    file: Path
    line: int
    text: str  # of the line, as it is
    change: str
    source: str  # of the whole file, changed

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}: {self.text}    [{self.change}]"


def changes(node: Any) -> Iterator[Callable[[Any], None] | None]:
    """What can be done to a node: functions that do it to one; None leaves it out."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        yield lambda n: n.ops.__setitem__(0, COMPARISONS[type(n.ops[0])]())
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in ARITHMETIC:
        yield lambda n: setattr(n, "op", ARITHMETIC[type(n.op)]())
    if isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield lambda n: setattr(n, "op", other())
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield lambda n: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test))
    if isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        value: Any = node.value
        new = not value if isinstance(value, bool) else value + 1 if value < 3 else value * 2
        yield lambda n: setattr(n, "value", new)
    called = isinstance(node, ast.Call) and not SYMMETRIC.search(ast.unparse(node.func))
    args: list[ast.expr] = getattr(node, "args", []) if called else []
    if len(args) > 1 and ast.Starred not in map(type, args[:2]):
        yield lambda n: n.args.__setitem__(slice(0, 2), n.args[1::-1])
    called = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    if called or isinstance(node, ast.AugAssign | ast.Raise | ast.Assert | ast.Continue):
        yield None  # left out: no name is missed


def ignored(tree: ast.AST) -> set[int]:
    """What is no behaviour: messages to people, types, decorators, zip's strict=True."""
    found = set()
    for node in ast.walk(tree):
        below: list[Any] = [getattr(node, name, None) for name in ("annotation", "returns")]
        below += getattr(node, "decorator_list", [])
        below += getattr(getattr(node, "exc", None), "args", [])  # of what is raised
        below += [node] * (isinstance(node, ast.JoinedStr) or getattr(node, "arg", "") == "strict")
        found |= {id(child) for each in filter(None, below) for child in ast.walk(each)}
    return found


def mutant(file: Path, rng: random.Random) -> Mutant | None:
    """The file with one fault, anywhere in it."""
    tree = ast.parse(source := file.read_text())
    skipped = ignored(tree)
    sites = [(n, c) for n in ast.walk(tree) if id(n) not in skipped for c in changes(n)]
    if not sites:
        return None
    node, change = cast(Any, rng.choice(sites))
    before = ast.unparse(node).splitlines()[0]
    if change is None:
        bodies = [body for n in ast.walk(tree) for _, body in ast.iter_fields(n)]
        [body] = [b for b in bodies if isinstance(b, list) and any(each is node for each in b)]
        body[body.index(node)] = ast.Pass()
        after = "pass"
    else:
        change(node)
        after = ast.unparse(ast.fix_missing_locations(node)).splitlines()[0]
    if before == after:
        return None
    text = source.splitlines()[node.lineno - 1].strip()
    changed = ast.unparse(ast.fix_missing_locations(tree))
    return Mutant(file, node.lineno, text, f"{before} -> {after}", changed)


def chosen(rooms: list[str], count: int, seed: int) -> list[Mutant]:
    """As many of each room, from lines all over it."""
    out: list[Mutant] = []
    for room in rooms:
        rng = random.Random(f"{seed} {room}")
        files = sorted((PACKAGE / room).rglob("*.py"))
        sizes = [len(file.read_text()) for file in files]
        found: dict[tuple[str, str], Mutant] = {}
        while len(found) < count:
            made = mutant(rng.choices(files, sizes)[0], rng)
            if made is not None:
                found.setdefault((made.text, made.change), made)
        out += found.values()
    return out


def tests_of(file: Path) -> list[str]:
    """Those of the room; first the ones that name the module."""
    room, *_ = file.relative_to(PACKAGE).parts
    found = [f for at in TESTS[room] for f in sorted((ROOT / at).rglob("test_*.py")) or [ROOT / at]]
    module = f"{room}.{file.stem}" if file.stem != "__init__" else f"maxk.{room}"
    return [str(f) for f in sorted(found, key=lambda f: module not in f.read_text())]


def noticed(made: Mutant, limit: float) -> str:
    """The test that fails, or nothing. Tests that take too long fail."""
    with tempfile.TemporaryDirectory(prefix="maxk-mutant-") as folder:
        shutil.copytree(ROOT / "src", Path(folder) / "src")
        (file := Path(folder) / made.file.relative_to(ROOT)).write_text(made.source)
        # Jails hide the copy alone, so "import the judge" finds the package that it was made of.
        options = ["--hypothesis-profile=no-shrinking", "-p", "no:cacheprovider", "-x", "-q"]
        command = [sys.executable, "-m", "pytest", *options, "--rootdir", str(ROOT)]
        command += ["-m", "not slow", "-k", "not judge]"]
        path = os.pathsep.join([str(Path(folder) / "src"), str(ROOT)])
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "TMPDIR": folder}
        process = subprocess.Popen(
            [*command, *([str(file)] if ">>>" in made.source else []), *tests_of(made.file)],
            cwd=ROOT, env=environment, start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            said, _ = process.communicate(timeout=limit)
            failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
            if process.returncode == 4:  # pytest itself cannot run
                raise SystemExit(said)
            return (failed or [f"ended with {process.returncode}"])[-1] * (process.returncode != 0)
        except subprocess.TimeoutExpired:
            return "timeout"
        finally:
            with contextlib.suppress(ProcessLookupError):  # what a broken verifier leaves
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rooms", nargs="*", default=list(TESTS), help="default: all of them")
    parser.add_argument("--count", type=int, default=10, help="faults in a room")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=300, help="seconds for the tests of one")
    given = parser.parse_args()
    excused = {tuple(each[:3]) for each in json.loads(EQUIVALENT.read_text())}
    survived, began = [], time.monotonic()
    drawn = chosen(given.rooms, given.count, given.seed)
    made = [m for m in drawn if (m.file.name, m.text, m.change) not in excused]
    with ThreadPoolExecutor(2) as pool:
        whole = [PACKAGE / room / "__init__.py" for room in given.rooms]
        sound = [Mutant(file, 0, "", "no fault", file.read_text()) for file in whole]
        if any(failing := list(pool.map(lambda each: noticed(each, given.limit), sound))):
            raise SystemExit(f"tests fail without any fault: {failing}")
        found = pool.map(lambda each: noticed(each, given.limit), made)
        for each, test in zip(made, found, strict=True):
            print("killed  " if test else "SURVIVED", each, f"    {test}", flush=True)
            survived += [] if test else [each]
    score, took = 100 * (1 - len(survived) / max(len(made), 1)), time.monotonic() - began
    print(f"killed {score:.1f} % of {len(made)}, without equivalent ones; {took:.0f} s")
    return int(score < 95)


if __name__ == "__main__":
    sys.exit(main())
