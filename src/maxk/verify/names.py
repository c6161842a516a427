"""Which names the code of a test takes from the program: its function and classes, no more."""

import ast
import builtins
import symtable
from collections.abc import Iterator
from typing import NamedTuple

from maxk.records import AssertTest


class Declared(NamedTuple):
    """What the program provides for a test."""

    function: str | None
    classes: tuple[str, ...]


def declared(test: AssertTest) -> Declared:
    """The names that a test takes from the program; ValueError if it uses others.

    A test that names no function has the one that its code uses and does not define: a class, if
    its name begins with a capital.

    >>> declared(AssertTest("import math\\nassert math.floor(f(2)) == 5")).function
    'f'
    """
    function = None if test.function is None else test.function.replace("()", "").split(".")[0]
    missing = free_names(test.code + "\n" + test.nodes, function) - {function, *test.classes}
    classes = list(test.classes)
    if function is None and len(missing) == 1:
        (only,) = missing
        missing = set()
        if only[0].isupper():
            classes.append(only)
        else:
            function = only
    if missing:
        listed = ", ".join(sorted(missing))
        raise ValueError(
            f"the code of a test uses {listed}, and neither it nor Python defines that; "
            f"say what is the program's in function= and classes=: {test.code[:200]!r}"
        )
    for what in handed_over(test.code, {function, *classes}):
        raise ValueError(
            f"the code of a test gives the program {what}, which cannot leave its process; "
            f"leave the test out: {test.code[:200]!r}"
        )
    method = test.function is not None and "." in test.function
    if method and function is not None:
        classes.insert(0, function)
    return Declared(None if method else function, tuple(dict.fromkeys(classes)))


def free_names(code: str, own: str | None = None) -> set[str]:
    """The names that code uses and neither defines nor imports, and that are none of Python's own.

    own: a name that counts although Python has one like it. Code that does not compile has none.

    >>> sorted(free_names("from math import pi\\ndef g(x): return x + y\\nassert f(g(pi)) == z"))
    ['f', 'y', 'z']
    """
    try:
        top = symtable.symtable(code, "<test>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    defined = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
    defined |= {s.get_name() for s in top.get_symbols() if s.is_namespace()}
    used: set[str] = set()
    for table in _tables(top):
        for symbol in table.get_symbols():
            if symbol.is_declared_global() and symbol.is_assigned():
                defined.add(symbol.get_name())
            if symbol.is_global() or (table is top and symbol.is_referenced()):
                used.add(symbol.get_name())
    if "*" in "".join(line for line in code.splitlines() if line.lstrip().startswith("from ")):
        return used & {own} if own else set()  # what a module has is not known here
    own_names = {own} if own else set()
    always = {*dir(builtins), "__name__", "__builtins__"} - own_names
    return used - defined - always


def handed_over(code: str, names: set[str | None]) -> Iterator[str]:
    """What the code gives to functions of the program and is no plain value: its own functions."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    local = {
        n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            for given in [*node.args, *(each.value for each in node.keywords)]:
                if isinstance(given, ast.Lambda):
                    yield "a lambda"
                elif isinstance(given, ast.Name) and given.id in local and given.id not in names:
                    yield f"the function {given.id}"
                elif isinstance(given, ast.GeneratorExp):
                    yield "a generator"


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)
