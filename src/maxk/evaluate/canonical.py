"""A syntax tree as one string that does not depend on the names a program chose for its own use."""

import ast
from functools import cache
from typing import Any

# The field of a node that holds a name of the program's own, if it binds or uses one.
_NAME_FIELD = {
    ast.Name: "id",
    ast.arg: "arg",
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
    ast.MatchMapping: "rest",
}
_OPENS_SCOPE = {
    **dict.fromkeys([ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda], "function"),
    **dict.fromkeys([ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp], "comprehension"),
    ast.ClassDef: "class",
}
# Evaluated where a function or class stands, not inside it.
_OUTSIDE = {"decorator_list", "returns", "bases", "keywords", "defaults", "kw_defaults"}
_WITHOUT_MEANING = {"ctx", "kind", "type_comment", "type_ignores"}


class _Scope:
    """The names that a module, function, comprehension or class binds, inside another scope."""

    def __init__(self, outer: "_Scope | None", kind: str):
        self.outer = outer
        self.kind = kind
        self.bound: set[str] = set()
        self.elsewhere: set[str] = set()  # declared global or nonlocal here

    def bind(self, name: str) -> None:
        if name not in self.elsewhere:
            self.bound.add(name)

    def owner(self, name: str) -> "_Scope | None":
        """The innermost scope that binds the name; None for builtins and what is unknown."""
        scope: _Scope | None = self
        while scope is not None and name not in scope.bound:
            scope = scope.outer
        return scope

    def function(self) -> "_Scope":
        """Where `:=` binds: outside of comprehensions."""
        scope = self
        while scope.kind == "comprehension" and scope.outer is not None:
            scope = scope.outer
        return scope


def canonical(tree: ast.Module) -> str:
    """The tree as one string, with the program's own names numbered by first appearance.

    Each node is its type and its plain fields, followed by its children in order. Which names are
    the program's own is known only at the end, so they are noted with their scope at first. The
    loop keeps its own stack: recursion would end at 1000 levels.
    """
    out: list[Any] = []
    module = _Scope(None, "module")
    imported: set[str] = set()
    stack: list[tuple[Any, _Scope]] = [(tree, module)]
    while stack:
        node, scope = stack.pop()
        kind = type(node)
        if kind is str or node is None:  # within a list
            out.append(repr(node))
            continue
        out.append(kind.__name__)
        if kind is ast.Global or kind is ast.Nonlocal:
            scope.elsewhere.update(node.names)
            if kind is ast.Global:
                module.bound.update(node.names)
            out.extend((name, scope) for name in node.names)
            continue
        if kind is ast.Import or kind is ast.ImportFrom:
            imported.update(each.asname or each.name.partition(".")[0] for each in node.names)
        inner = _Scope(scope, _OPENS_SCOPE[kind]) if kind in _OPENS_SCOPE else scope
        outside = scope.outer if kind is ast.arguments else scope
        name_field = _NAME_FIELD.get(kind)
        children: list[tuple[Any, Any]] = []
        for field in _fields(kind):
            value = getattr(node, field, None)
            where = outside if field in _OUTSIDE else inner
            if field == name_field and value is not None:
                out.append(_noted(node, value, scope))
            elif type(value) is list:
                kept = [(each, where) for each in value if not _is_docstring(each)]
                out.append(str(len(kept)))
                children += kept
            elif not isinstance(value, ast.AST):
                out.append(repr(value))
            elif not value._fields:  # an operator
                out.append(type(value).__name__)
            else:
                out.append(".")
                walrus = kind is ast.NamedExpr and field == "target"
                children.append((value, scope.function() if walrus else where))
        stack += reversed(children)
    numbers: dict[tuple[int, str], str] = {}
    for place, item in enumerate(out):
        if type(item) is tuple:
            name, scope = item
            owner = None if name in imported else scope.owner(name)
            own = owner and numbers.setdefault((id(owner), name), f"${len(numbers)}")
            out[place] = own or name
    return "\n".join(out)


@cache
def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """What a node consists of, but for what changes nothing: `ctx` follows from the place."""
    return tuple(field for field in kind._fields if field not in _WITHOUT_MEANING)


def _noted(node: Any, name: str, scope: _Scope) -> Any:
    """A name with the scope to look it up from, bound there unless it is only read."""
    if type(node) is ast.Name and type(node.ctx) is ast.Load:
        return name, scope
    if scope.kind == "class":
        return name  # an attribute of the class, and attributes keep their names
    scope.bind(name)
    return name, scope


def _is_docstring(node: Any) -> bool:
    """A statement that is only a string: a docstring or a comment in other clothes."""
    return (
        type(node) is ast.Expr
        and type(node.value) is ast.Constant
        and isinstance(node.value.value, str)
    )
