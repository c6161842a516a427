"""What the code of a test needs beside itself, from the text of its own data set.

The program provides its function and classes that are asked of it, and nothing else. Helpers,
constants and modules are taken from the prompt, or from the reference's imports, and become part of
the test. What nobody defines is reported when the data is loaded.
"""

import ast
from collections.abc import Iterable
from typing import NamedTuple

from maxk.verify.names import free_names, handed_over


class Needed(NamedTuple):
    """Statements to put before a test, and the source of classes that are data on both sides."""

    helpers: list[str]
    nodes: str
    classes: list[str]


def needed(code: str, prompt: ast.Module, function: str) -> Needed:
    """Of a prompt, what test code uses: functions, constants, imports, and classes of nodes."""
    chosen: set[int] = set()
    missing = free_names(code, function) - {function}
    defined = {name: i for i, node in enumerate(prompt.body) for name in _defines(node)}
    while found := {defined[name] for name in missing if name in defined} - chosen:
        chosen |= found
        for i in found:
            missing |= free_names(ast.unparse(prompt.body[i])) - {function}
    missing -= {name for i in chosen for name in _defines(prompt.body[i])}
    if missing:  # a module may give them all: from typing import *
        stars = {i for i, node in enumerate(prompt.body) if _imports_all(node)}
        chosen |= stars
    nodes = [prompt.body[i] for i in sorted(chosen) if isinstance(prompt.body[i], ast.ClassDef)]
    rest = [prompt.body[i] for i in sorted(chosen) if not isinstance(prompt.body[i], ast.ClassDef)]
    imports = [n for n in rest if isinstance(n, ast.Import | ast.ImportFrom)]
    source = [ast.unparse(node) for node in (*imports, *nodes)] if nodes else []
    return Needed([*map(ast.unparse, rest)], "\n".join(source), [*map(ast.unparse, nodes)])


def imports_for(names: Iterable[str], reference: ast.Module) -> list[str]:
    """The imports of a reference that give these names."""
    wanted = set(names)
    return [
        ast.unparse(node)
        for node in reference.body
        if isinstance(node, ast.Import | ast.ImportFrom) and wanted & set(_defines(node))
    ]


def unfit(code: str, function: str | None, classes: Iterable[str], nodes: str = "") -> str | None:
    """Why test code cannot be judged; None if it can."""
    own = None if function is None else function.replace("()", "").split(".")[0]
    missing = free_names(f"{code}\n{nodes}", own) - {own, *classes}
    if missing:
        return f"uses {', '.join(sorted(missing))}, which neither it nor its data set defines"
    given = next(handed_over(code, {own, *classes}), None)
    return None if given is None else f"gives the program {given}, which cannot leave its process"


def _defines(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [each.asname or each.name.split(".")[0] for each in node.names]
    if isinstance(node, ast.Assign):
        return [each.id for each in node.targets if isinstance(each, ast.Name)]
    return []


def _imports_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and any(each.name == "*" for each in node.names)
