"""Something is kept from one number to the next."""

from itertools import accumulate, groupby

from maxk.pocket.families.conventions import NOTHING
from maxk.pocket.family import Family
from maxk.pocket.inputs import Inputs, integer, numbers

_ROW = "map(int,input().split())"


def _signs(rng, p, number):
    """More - at the beginning and more + at the end."""
    size = rng.randint(1, 3 if number < 2 else 9)
    return "".join("-" if rng.random() < 0.8 - 0.6 * i / size else "+" for i in range(size))


SIGNS = Inputs(_signs, str)


def _floor(row, p):
    level = p.a
    for x in row:
        level = max(level + x, p.b)
    return level


def _needed(row, p):
    sums = list(accumulate(row))
    return next((i + 1 for i, s in enumerate(sums) if s > p.t), p.e.strip("'"))


def _series(n, p):
    a, b = p.a, p.b
    for _ in range(n):
        a, b = b, a + b
    return a


def _longest(row, p):
    runs = [len(list(run)) for high, run in groupby(row, lambda x: x > p.t) if high]
    return max(runs, default=0)


def _pays(row, p):
    left = p.a
    for x in row:
        if x <= left:
            left -= x
    return left


FAMILIES = (
    Family(
        "running-sum",
        "medium",
        0.3,
        {"a": range(2, 60)},
        (
            "Start at $a and print the running sums of the numbers.",
            "Print the running sums of the numbers, beginning from $a.",
        ),
        numbers(),
        lambda row, p: " ".join(map(str, [*accumulate(row, initial=p.a)][bool(p.o) :])),
        (
            f"a=[«$a|0»]\nfor x in {_ROW}:a+=[a[-1]«+|-»x]\nprint(*a$o)",
            f"a=[$a,*{_ROW}]\nfor i in range(1,len(a)):a[i]+=a[«i-1|0»]\nprint(*a$o)",
        ),
        (f"print($a+sum({_ROW}))",),
        hidden={"o": {"[1:]": 0.65, "": 0.35}},
    ),
    Family(
        "alternating",
        "medium",
        0.57,
        {"a": range(2, 60)},
        (
            "Start at $a, then add and subtract the numbers in turn.",
            "Add and subtract the numbers by turns, beginning at $a.",
        ),
        numbers(low=1),
        lambda row, p: p.a + (1 if p.o == "+" else -1) * (sum(row[::2]) - sum(row[1::2])),
        (
            f"a=[*{_ROW}]\nprint(«$a|0»$o(sum(a[::2])-sum(a[«1::2|1:|::1»])))",
            f"s=«$a|0»\nfor i,x in enumerate({_ROW}):s$o=x«*(-1)**i|-i»\nprint(s)",
        ),
        (f"print($a+sum({_ROW}))",),
        hidden={"o": {"+": 0.7, "-": 0.3}},
    ),
    Family(
        "floor",
        "hard",
        0.001,
        {"a": range(6, 20), "b": range(1, 6)},
        (
            "Start at $a and add the numbers, never falling below $b. Print the end.",
            "Add the numbers to $a one by one; a sum below $b becomes $b. Print the last.",
        ),
        numbers(low=-25, high=20, longest=8),
        _floor,
        (
            f"s=«$a|$b»\nfor x in {_ROW}:s=«max|min»(s+x,«$b|0|$a»)\nprint(s)",
            f"s=$a\nfor x in {_ROW}:\n s+=x\n if s«<|>»$b:s=«$b|$a»\nprint(s)",
        ),
        (f"print(max($a+sum({_ROW}),$b))", f"print($a+sum({_ROW}))"),
    ),
    Family(
        "needed",
        "medium",
        0.02,
        {"t": range(20, 80)},
        (
            "Add the numbers one by one: after how many is the sum above $t?",
            "How many of the numbers does it take until their sum exceeds $t?",
        ),
        numbers(low=1, high=20, longest=8),
        _needed,
        (
            f"s=i=0\nr=$e\nfor x in {_ROW}:\n s+=x;i+=1\n if s«>|<»$t:r=«i|s»;«break|0»\nprint(r)",
            f"a=[*{_ROW}]\nprint(next((i for i in range(len(a)+1)if sum(a[«:i|i:»])«>|<»$t),$e))",
        ),
        (f"s=i=0\nfor x in {_ROW}:\n if s<=$t:s+=x;i+=1\nprint(i)",),
        hidden={"e": NOTHING},
    ),
    Family(
        "fibonacci",
        "medium",
        0.05,
        {"a": range(1, 10), "b": range(1, 20)},
        (
            "A series begins $a, $b; each next is the sum of the last two. Print that item.",
            "Begin with $a and $b, then always add the last two. Print the item asked for.",
        ),
        integer(1, 14),
        lambda n, p: _series(n - len(p.o) // 2, p),
        (
            "a,b=«$a,$b|$b,$a|0,1»\nfor i in range(int(input())$o):a,b=b,a+b\nprint(«a|b»)",
            "n=int(input())$o\na=[$a,$b]\nfor i in range(n):a+=[a[-1]+a[-«2|1»]]\nprint(a[«n|-1»])",
        ),
        hidden={"o": {"-1": 0.65, "": 0.35}},
    ),
    Family(
        "unique",
        "medium",
        0.1,
        {"t": range(2, 50)},
        (
            "Print each number once, in order of first appearance, and leave out $t.",
            "Leave out $t and print the others without repeats, in their order.",
        ),
        numbers(near="t"),
        lambda row, p: " ".join(str(x) for x in dict.fromkeys(row) if x != p.t),
        (
            f"print(*[x for x in «dict.fromkeys|list|sorted»({_ROW})if x«!=|==»$t])",
            f"a=[«$t|»]\nfor x in {_ROW}:\n if x not in a:a+=[x]\nprint(*a[«1:|:»])",
        ),
        (f"print(*[x for x in {_ROW}if x!=$t])", f"print(*set({_ROW}))"),
    ),
    Family(
        "signs",
        "easy",
        0.63,
        {"a": range(2, 12), "b": range(2, 12)},
        (
            "Start at 0: each + adds $a and each - takes $b away. Print the end.",
            "Follow the signs from 0, + is $a up and - is $b down. Print where you are.",
        ),
        SIGNS,
        lambda s, p: s.count("+") * p.a - s.count("-") * p.b,
        (
            "s=input()\nprint(s.count('+')*«$a|$b»«-|+»s.count('-')*$b)",
            "n=0\nfor c in input():n+=«$a if c=='+'else -$b|$a if c=='-'else -$b|"
            "$a if c=='+'else $b»\nprint(n)",
        ),
    ),
    Family(
        "signs-bounded",
        "hard",
        0.0008,
        {"a": range(2, 9), "b": range(2, 9)},
        (
            "Start at 0: + adds $a, - takes $b away but never below 0. Print the end.",
            "From 0 go $a up at + and $b down at -, but not below 0. Print where you are.",
        ),
        SIGNS,
        lambda s, p: list(
            accumulate(s, lambda n, c: n + p.a if c == "+" else max(n - p.b, 0), initial=0)
        )[-1],
        (
            "n=0\nfor c in input():n=«max|min»(«0|$b»,n+«($a if c=='+'else -$b)|$a*(c=='+')-$b»)\n"
            "print(n)",
            "n=0\nfor c in input():\n if c==«'+'|'-'»:n+=«$a|1»\n else:n=«max(n-$b,0)|n-$b|"
            "max(n,$b)»\nprint(n)",
        ),
        ("s=input()\nprint(max(s.count('+')*$a-s.count('-')*$b,0))",),
    ),
    Family(
        "longest-run",
        "hard",
        0.0006,
        {"t": range(2, 40)},
        (
            "How many numbers in a row are above $t at most?",
            "Print the length of the longest run of numbers greater than $t.",
        ),
        numbers(near="t", longest=9),
        _longest,
        (
            f"m=n=0\nfor x in {_ROW}:\n n=«n+1|1|n» if x«>|<»$t else 0\n"
            " m=«max(m,n)|n|m+n»\nprint(m)",
            f"m=n=0\nfor x in {_ROW}:\n if x«>|>=|<»$t:n+=1;m=«max(m,n)|x»\n"
            " else:«n=0|0|m=0»\nprint(m)",
        ),
        (f"print(sum(x>$t for x in {_ROW}))",),
    ),
    Family(
        "purse",
        "hard",
        0.0015,
        {"a": range(20, 90)},
        (
            "A purse holds $a. Pay each price in turn if enough is left. Print what is left.",
            "Start with $a and take off each number that is not larger. Print the rest.",
        ),
        numbers(low=1, high=60),
        _pays,
        (
            f"s=$a\nfor x in {_ROW}:\n if x«<=|>»s:s«-=|=»x\nprint(s)",
            f"s=«$a|0»\nfor x in {_ROW}:s-=«x*(x<=s)|x|min(x,s)»\nprint(s)",
        ),
        (f"print($a-sum({_ROW}))",),
    ),
    Family(
        "peaks",
        "hard",
        0.004,
        {"a": range(2, 30)},
        (
            "Count the numbers that are larger than $a and all before them.",
            "How often does a new record above $a come?",
        ),
        numbers(near="a", longest=8),
        lambda row, p: sum(x > max([p.a, *row[:i]]) for i, x in enumerate(row)),
        (
            f"m=«$a|0»\ns=0\nfor x in {_ROW}:\n if x«>|>=»m:m=«x|$a»;s+=1\nprint(s)",
            f"a=[«$a|0»]\nfor x in {_ROW}:\n if x>«max(a)|$a»:a+=[x]\nprint(len(a)«-1|»)",
        ),
        (f"print(sum(x>$a for x in {_ROW}))",),
    ),
)
