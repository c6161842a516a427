"""A line of numbers in. Most families are one way to select and one way to sum up, so that a pair
that was never seen together can still be put together."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

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
_MULTIPLES = numbers(low=1, multiple="t")
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
        range(2, 20),
        _MULTIPLES,
    ),
    "indivisible": _Filter(
        ("not divisible by $t", "that are no multiples of $t"),
        "x%$t«>0|<1|>1»",
        lambda x, t: x % t > 0,
        range(3, 20),
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


_NOTHING = ("0", "0", "-1", "'none'")  # what may be wanted then

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
        {"t": which.values} | ({"e": _NOTHING} if what.open_end else {}),
        tuple(f"{head} {tail}." for head in what.words for tail in which.words),
        which.inputs,
        lambda row, p: what.answer([x for x in row if which.keeps(x, p.t)], p),
        tuple(program.replace("FILTER", which.code) for program in what.programs),
        what.mistakes,
        hidden="e" if what.open_end else "",
    )


FAMILIES = (
    _family("sum", "greater", "easy", 0.5),
    _family("sum", "divisible", "medium", 0.12),
    _family("count", "less", "easy", 0.45),
    _family("count", "indivisible", "medium", 0.05),
    _family("list", "greater", "easy", 0.5),
    _family("list", "divisible", "easy", 0.4),
    _family("sorted", "less", "medium", 0.12),
    _family("max", "less", "medium", 0.3),
    _family("max", "divisible", "hard", 0.02),
    _family("min", "greater", "medium", 0.25),
    _family("first", "greater", "medium", 0.2),
    _family("first", "indivisible", "hard", 0.01),
    _family("squares", "greater", "medium", 0.08),
    _family("squares", "indivisible", "hard", 0.004),
    Family(
        "scale",
        "easy",
        0.55,
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
        "nth-largest",
        "hard",
        0.03,
        {"n": range(2, 5), "a": range(2, 30), "o": ("list", "list", "set")},
        (
            "Print the number on place $n from above, times $a.",
            "Print $a times the number that is $n-th from the top.",
        ),
        numbers(shortest=6, longest=8, low=0),
        lambda row, p: sorted(set(row) if p.o == "set" else row)[-p.n] * p.a,
        (
            f"a=sorted($o({_ROW}))\nprint(a[«-$n|$n|$n-1|-$n-1»]*$a)",
            f"print(sorted($o({_ROW}))[::«-1|1»][«$n-1|$n»]*$a)",
        ),
        (f"print(max({_ROW})*$a)",),
        hidden="o",
    ),
    Family(
        "sum-of-first",
        "easy",
        0.4,
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
        0.25,
        {"t": range(2, 50), "o": ("", "", ",1")},
        ("Print the positions of $t among the numbers.", "Where among the numbers is $t?"),
        numbers(near="t"),
        lambda row, p: " ".join(str(i) for i, x in enumerate(row, len(p.o) // 2) if x == p.t),
        (
            f"for i,x in enumerate({_ROW}$o):\n if x«==|>|!=»$t:print(«i|x»)",
            "print(*[i for i,x in enumerate(input().split()$o)if x==«'$t'|$t»])",
        ),
        ("print(input().split().index('$t'))",),
        hidden="o",
    ),
    Family(
        "closest",
        "hard",
        0.01,
        {"t": range(2, 50)},
        ("Print the number that is closest to $t.", "Which of the numbers is nearest to $t?"),
        numbers(),
        lambda row, p: min(row, key=lambda x: abs(x - p.t)),
        (
            f"print(«min|max»({_ROW},key=lambda x:«abs(x-$t)|x-$t|abs(x)-$t»))",
            f"print(sorted({_ROW},key=lambda x:abs(x«-|+»$t))[«0|-1»])",
        ),
        (f"print(max(x for x in {_ROW}if x<=$t))",),
    ),
    Family(
        "rotate",
        "hard",
        0.004,
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
    ),
    Family(
        "jumps",
        "hard",
        0.001,
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
    ),
)

# Pairs that neither pretraining nor training shows.
HELD_OUT = (
    _family("sum", "less", "medium", 0.2),
    _family("count", "greater", "medium", 0.2),
    _family("min", "divisible", "hard", 0.1),
    _family("list", "indivisible", "medium", 0.2),
)
