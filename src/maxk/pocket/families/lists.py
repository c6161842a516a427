"""A line of numbers in. Most families are one way to select and one way to sum up, so that a pair
that was never seen together can still be put together."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from maxk.pocket.families.conventions import FIRST, NOTHING
from maxk.pocket.family import Family
from maxk.pocket.inputs import Inputs, numbers

_ROW = "map(int,input().split())"


@dataclass(frozen=True)
class _Filter:
    words: tuple[str, str]
    code: str
    keeps: Callable[[int, int], bool]
    values: range
    inputs: Inputs


_NEAR = numbers(near="t")
_MULTIPLES = numbers(low=1, high=90, multiple="t")
_FILTERS = {
    "greater": _Filter(
        ("greater than $t", "above $t"), "x«>|>=|<»$t", lambda x, t: x > t, range(2, 50), _NEAR
    ),
    "less": _Filter(
        ("less than $t", "below $t"), "x«<|<=|>»$t", lambda x, t: x < t, range(2, 50), _NEAR
    ),
    "divisible": _Filter(
        ("divisible by $t", "that are multiples of $t"),
        "x%$t«==0|>0|==1»",
        lambda x, t: x % t == 0,
        range(2, 40),
        _MULTIPLES,
    ),
    "indivisible": _Filter(
        ("not divisible by $t", "that are no multiples of $t"),
        "x%$t«>0|<1|>1»",
        lambda x, t: x % t > 0,
        range(3, 40),
        _MULTIPLES,
    ),
}


@dataclass(frozen=True)
class _Aggregate:
    words: tuple[str, str]
    answer: Callable[[list[int], Any], object]
    programs: tuple[str, ...]  # with FILTER for the condition
    mistakes: tuple[str, ...]
    open_end: bool = False  # nothing said of the case that no number is left


_AGGREGATES = {
    "sum": _Aggregate(
        ("Print the sum of the numbers", "Add up the numbers"),
        lambda kept, p: sum(kept),
        (
            f"print(«sum(|len(|max(»[x for x in {_ROW}if FILTER]))",
            f"s=«0|1»\nfor x in {_ROW}:\n if FILTER:s«+=x|=x|+=1»\nprint(s)",
        ),
        (f"print(sum({_ROW}))",),
    ),
    "count": _Aggregate(
        ("Count the numbers", "How many of the numbers are there"),
        lambda kept, p: len(kept),
        (
            f"print(«len(|sum(»[x for x in {_ROW}if FILTER]))",
            f"s=«0|1»\nfor x in {_ROW}:\n if FILTER:s«+=1|=1|+=x»\nprint(s)",
        ),
        (f"print(len(list({_ROW})))",),
    ),
    "list": _Aggregate(
        ("Print the numbers", "Print only the numbers"),
        lambda kept, p: " ".join(map(str, kept)),
        (
            f"print(«*|»[x for x in {_ROW}if FILTER])",
            f"for x in {_ROW}:\n if FILTER:print(x«,end=' '|,end=''»)",
        ),
        (f"print(*{_ROW})",),
    ),
    "sorted": _Aggregate(
        ("Print in ascending order the numbers", "Sort the numbers"),
        lambda kept, p: " ".join(map(str, sorted(kept))),
        (
            f"print(*«sorted|set|list»(x for x in {_ROW}if FILTER))",
            f"a=[x for x in {_ROW}if FILTER]\na.sort(«|reverse=1»)\nprint(«*|»a)",
        ),
        ("print(*sorted(input().split()))", f"print(*sorted({_ROW}))"),
    ),
    "max": _Aggregate(
        ("Print the largest of the numbers", "Find the maximum of the numbers"),
        lambda kept, p: max(kept, default=p.e.strip("'")),
        (
            f"print(«max|min»([x for x in {_ROW}if FILTER]«,default=$e|»))",
            f"a=[x for x in {_ROW}if FILTER]\nprint(«max|min»(a)if a else $e)",
        ),
        (f"print(max({_ROW}))",),
        open_end=True,
    ),
    "min": _Aggregate(
        ("Print the smallest of the numbers", "Find the minimum of the numbers"),
        lambda kept, p: min(kept, default=p.e.strip("'")),
        (
            f"print(«min|max»([x for x in {_ROW}if FILTER]«,default=$e|»))",
            f"a=[x for x in {_ROW}if FILTER]\nprint(«min|max»(a)if a else $e)",
        ),
        (f"print(min({_ROW}))",),
        open_end=True,
    ),
    "first": _Aggregate(
        ("Print the first of the numbers", "Find the first among the numbers"),
        lambda kept, p: kept[0] if kept else p.e.strip("'"),
        (
            f"a=[x for x in {_ROW}if FILTER]\nprint(a[«0|-1»]if a else $e)",
            f"r=$e\nfor x in {_ROW}:\n if FILTER:r=x;«break|0»\nprint(r)",
        ),
        ("print(input().split()[0])",),
        open_end=True,
    ),
    "squares": _Aggregate(
        ("Print the sum of the squares of the numbers", "Square and add up the numbers"),
        lambda kept, p: sum(x * x for x in kept),
        (
            f"print(sum(«x*x|x*2|x» for x in {_ROW}if FILTER))",
            f"s=0\nfor x in {_ROW}:\n if FILTER:s«+=|=»x*«x|2»\nprint(s)",
        ),
        (f"print(sum(x*x for x in {_ROW}))",),
    ),
}


def _family(
    aggregate: str, kind: str, difficulty: Literal["easy", "medium", "hard"], share: float
) -> Family:
    what, which = _AGGREGATES[aggregate], _FILTERS[kind]
    return Family(
        f"{aggregate}-{kind}",
        difficulty,
        share,
        {"t": which.values},
        tuple(f"{head} {tail}." for head in what.words for tail in which.words),
        which.inputs,
        lambda row, p: what.answer([x for x in row if which.keeps(x, p.t)], p),
        tuple(program.replace("FILTER", which.code) for program in what.programs),
        what.mistakes,
        hidden={"e": NOTHING} if what.open_end else {},
    )


def _listed(row: list[int], how: str) -> str:
    return {"*a": " ".join, "*a,sep=','": ",".join, "a": lambda a: f"[{', '.join(a)}]"}[how](
        list(map(str, row))
    )


def _different(row: list[int], how: str) -> list[int]:
    once = list(dict.fromkeys(row))
    return once if how == "dict.fromkeys(a)" else sorted(once, reverse=how.endswith("[::-1]"))


def _turned(row: list[int], places: int) -> list[int]:
    return row[places:] + row[:places]


FAMILIES = (
    _family("sum", "greater", "easy", 0.73),
    _family("sum", "divisible", "medium", 0.2),
    _family("count", "less", "easy", 0.73),
    _family("count", "indivisible", "hard", 0.004),
    _family("list", "greater", "easy", 0.68),
    _family("list", "divisible", "easy", 0.63),
    _family("sorted", "less", "medium", 0.17),
    _family("max", "less", "medium", 0.62),
    _family("max", "divisible", "medium", 0.08),
    _family("min", "greater", "medium", 0.52),
    _family("first", "greater", "medium", 0.52),
    _family("squares", "greater", "medium", 0.04),
    _family("squares", "indivisible", "hard", 0.002),
    Family(
        "scale",
        "easy",
        0.73,
        {"a": range(2, 20), "b": range(1, 20)},
        ("Multiply each number by $a and add $b.", "Print $a times each number plus $b."),
        numbers(),
        lambda row, p: " ".join(str(x * p.a + p.b) for x in row),
        (
            f"print(«*|»[x*$a«+|-»$b for x in {_ROW}])",
            f"for x in {_ROW}:print(«$a*x+$b|$b*x+$a|$a*(x+$b)»)",
        ),
    ),
    Family(
        "as-list",
        "easy",
        0.8,
        {"a": range(2, 40)},
        (
            "Multiply all numbers by $a and print the list.",
            "Print the list of $a times each number.",
        ),
        numbers(),
        lambda row, p: _listed([x * p.a for x in row], p.o),
        (
            f"a=[x«*|+»$a for x in {_ROW}]\nprint($o)",
            f"a=[]\nfor x in {_ROW}:a«+=[x*$a]|=[x*$a]»\nprint($o)",
        ),
        hidden={"o": {"*a": 0.6, "a": 0.25, "*a,sep=','": 0.15}},
    ),
    Family(
        "order",
        "easy",
        0.8,
        {"a": range(2, 40)},
        ("Sort the numbers and add $a to each.", "Order the numbers by size, each plus $a."),
        numbers(),
        lambda row, p: " ".join(str(x + p.a) for x in sorted(row, reverse=bool(p.o))),
        (
            f"print(*[x«+|*»$a for x in sorted({_ROW}$o)])",
            f"for x in sorted(«{_ROW}|input().split()»$o):print(x+$a)",
        ),
        hidden={"o": {"": 0.75, ",reverse=1": 0.25}},
    ),
    Family(
        "top",
        "medium",
        0.52,
        {"n": range(2, 5), "a": range(2, 20)},
        (
            "Print the $n largest numbers, each times $a.",
            "Multiply by $a and print the $n largest of the numbers.",
        ),
        numbers(shortest=5, longest=8),
        lambda row, p: " ".join(
            str(x * p.a) for x in sorted(row)[-p.n :][:: 1 if p.o == "" else -1]
        ),
        (
            f"a=sorted({_ROW})[«-$n:|:$n|$n:»]$o\nprint(*[x*$a for x in a])",
            f"a=sorted(x«*|+»$a for x in {_ROW})\nprint(*a[-«$n|$n-1»:]$o)",
        ),
        hidden={"o": {"[::-1]": 0.7, "": 0.3}},
    ),
    Family(
        "different",
        "medium",
        0.57,
        {"a": range(2, 40)},
        ("Print the different numbers, each plus $a.", "Add $a and print each number once."),
        numbers(shortest=3, high=12),
        lambda row, p: " ".join(str(x + p.a) for x in _different(row, p.o)),
        (
            f"a=[x«+|*»$a for x in {_ROW}]\nprint(*$o)",
            "a=«map(int,input().split())|input().split()»\nfor x in $o:print(x+$a)",
        ),
        hidden={"o": {"sorted({*a})": 0.55, "dict.fromkeys(a)": 0.35, "sorted({*a})[::-1]": 0.1}},
    ),
    Family(
        "turn",
        "medium",
        0.52,
        {"n": range(1, 4), "a": range(2, 20)},
        (
            "Rotate the numbers by $n places and multiply each by $a.",
            "Multiply the numbers by $a and rotate them by $n.",
        ),
        numbers(longest=8, shortest=4),
        lambda row, p: " ".join(str(x * p.a) for x in _turned(row, p.n if p.o == "" else -p.n)),
        (
            f"a=[x*$a for x in {_ROW}]\nprint(*a[$o$n:]+a[:«$o$n|$n-1»])",
            f"a=[*{_ROW}]\nfor x in a[$o$n:]+a[:$o$n]:print(x«*|+»$a)",
        ),
        hidden={"o": {"": 0.6, "-": 0.4}},
    ),
    Family(
        "average",
        "medium",
        0.62,
        {"a": range(2, 60)},
        ("Print the average of the numbers plus $a.", "Add $a to the mean of the numbers."),
        numbers(shortest=2, low=0),
        lambda row, p: (sum(row) // len(row) if p.o == "//" else sum(row) / len(row)) + p.a,
        (
            f"a=[*{_ROW}]\nprint(sum(a)$o«len(a)|$a»+$a)",
            f"s=n=0\nfor x in {_ROW}:s+=x;n+=«1|x»\nprint(s$on«+|*»$a)",
        ),
        hidden={"o": {"/": 0.6, "//": 0.4}},
    ),
    Family(
        "nth-largest",
        "medium",
        0.06,
        {"n": range(2, 5), "a": range(2, 30)},
        (
            "Print the number on place $n from above, times $a.",
            "Print $a times the number that is $n-th from the top.",
        ),
        numbers(shortest=7, longest=9, low=0, high=30),
        lambda row, p: sorted(set(row) if p.o == "set" else row)[-p.n] * p.a,
        (
            f"a=sorted($o({_ROW}))\nprint(a[«-$n|$n|$n-1|-$n-1»]*$a)",
            f"print(sorted($o({_ROW}))[::«-1|1»][«$n-1|$n»]*$a)",
        ),
        (f"print(max({_ROW})*$a)",),
        hidden={"o": {"list": 0.7, "set": 0.3}},
    ),
    Family(
        "sum-of-first",
        "easy",
        0.68,
        {"n": range(2, 6), "a": range(2, 20)},
        (
            "Add up the first $n numbers and multiply by $a.",
            "Print $a times the sum of the first $n numbers.",
        ),
        numbers(shortest=2, longest=9),
        lambda row, p: sum(row[: p.n]) * p.a,
        (
            f"a=[*{_ROW}]\nprint(sum(a[«:$n|$n:|:$n+1|1:$n»])*$a)",
            f"print(sum([*{_ROW}][:«$n|$a»])*«$a|$n»)",
        ),
    ),
    Family(
        "positions",
        "medium",
        0.52,
        {"t": range(2, 50)},
        ("Print the positions of $t among the numbers.", "Where among the numbers is $t?"),
        numbers(near="t"),
        lambda row, p: " ".join(str(i) for i, x in enumerate(row, int(p.o)) if x == p.t),
        (
            f"for i,x in enumerate({_ROW},$o):\n if x«==|>|!=»$t:print(«i|x»)",
            "print(*[i for i,x in enumerate(input().split(),$o)if x==«'$t'|$t»])",
        ),
        ("print(input().split().index('$t'))",),
        hidden={"o": FIRST},
    ),
    Family(
        "closest",
        "hard",
        0.003,
        {"t": range(2, 50)},
        ("Print the number that is closest to $t.", "Which of the numbers is nearest to $t?"),
        numbers(),
        lambda row, p: min(row, key=lambda x: abs(x - p.t)),
        (
            f"print(«min|max»({_ROW},key=lambda x:«abs(x-$t)|x-$t|abs(x)-$t»))",
            f"print(sorted({_ROW},key=lambda x:abs(x«-|+»$t))[«0|-1»])",
        ),
        (
            f"print(max([x for x in {_ROW}if x<=$t],default=0))",
            f"print(min([x for x in {_ROW}if x>=$t],default=0))",
        ),
    ),
    Family(
        "rotate",
        "hard",
        0.001,
        {"n": range(1, 6), "a": range(2, 20)},
        (
            "Move the first $n numbers to the end, then add $a to each.",
            "Add $a to each number and print them with the first $n behind the others.",
        ),
        numbers(longest=8, shortest=2),
        lambda row, p: " ".join(str(x + p.a) for x in row[p.n :] + row[: p.n]),
        (
            f"a=[x«+|-|*»$a for x in {_ROW}]\nprint(*«a[$n:]+a[:$n]|a[-$n:]+a[:-$n]|a[$n:]»)",
            f"a=[*{_ROW}]\nfor x in a[«$n:]+a[:$n|:$n]+a[$n:»]:print(x«+$a|»)",
        ),
        (
            f"a=[*{_ROW}]\nfor i in range($n):a=a[::-1]\nprint(*[x+$a for x in a])",
            f"print(*[x+$a for x in {_ROW}])",
        ),
    ),
    Family(
        "jumps",
        "hard",
        0.0006,
        {"t": range(2, 30)},
        (
            "Count the neighbours that differ by more than $t.",
            "How often do two numbers in a row differ by more than $t?",
        ),
        numbers(high=40, longest=8, shortest=2),
        lambda row, p: sum(abs(x - y) > p.t for x, y in pairwise(row)),
        (
            f"a=[*{_ROW}]\nprint(sum(«abs(x-y)|x-y|y-x»«>|<»$t for x,y in zip(a,a[«1|2»:])))",
            f"a=[*{_ROW}]\nprint(len([i for i in range(«1|0»,len(a))"
            "if «abs(|(»a[i]-a[i-1])«>|<»$t]))",
        ),
        (
            f"a=[*{_ROW}]\nprint(sum(y>x+$t for x,y in zip(a,a[1:])))",
            f"a=sorted({_ROW})\nprint(sum(y-x>$t for x,y in zip(a,a[1:])))",
        ),
    ),
)

# Pairs that neither pretraining nor training shows.
HELD_OUT = (
    _family("sum", "less", "medium", 0.2),
    _family("count", "greater", "medium", 0.2),
    _family("min", "divisible", "hard", 0.1),
    _family("list", "indivisible", "medium", 0.2),
)
