"""A line of words in."""

from maxk.pocket.family import Family
from maxk.pocket.inputs import words

_LETTERS = "abcdeghilmnoprstu"
_SIGNS = "-+_.:/=#"


def _ordered(row: list[str], how: str) -> list[str]:
    return sorted(row, key=len) if "key" in how else sorted(row, reverse="reverse" in how)


FAMILIES = (
    Family(
        "words-longer",
        "easy",
        0.63,
        {"n": range(1, 5), "s": _SIGNS},
        (
            "Join the words longer than $n letters by $s.",
            "Print the words of more than $n letters with $s between.",
        ),
        words(),
        lambda row, p: p.s.join(w for w in row if len(w) > p.n),
        (
            "print('$s'.join(w for w in input().split()if len(w)«>|>=|<»$n))",
            "a=[w for w in input().split()if len(w)>$n]\nprint(«'$s'.join(a)|*a|'$s',*a»)",
        ),
    ),
    Family(
        "words-with",
        "medium",
        0.1,
        {"c": _LETTERS, "n": range(2, 6)},
        (
            "Count the words with the letter $c and multiply by $n.",
            "Print $n times the number of words in which there is $c.",
        ),
        words("c"),
        lambda row, p: sum(p.c in w for w in row) * p.n,
        (
            "print(sum('$c'«in w|==w|not in w» for w in input().split())*$n)",
            "s=0\nfor w in input().split():\n if '$c'in w:s+=«$n|1»\nprint(s)",
        ),
        ("print(input().count('$c')*$n)",),
    ),
    Family(
        "words-beginning",
        "medium",
        0.05,
        {"c": _LETTERS, "s": _SIGNS},
        (
            "Print in reverse order the words that begin with $c, joined by $s.",
            "Join by $s the words that begin with $c, the last one first.",
        ),
        words("c"),
        lambda row, p: p.s.join(w for w in row[::-1] if w[0] == p.c),
        (
            "print('$s'.join(w for w in input().split()[::«-1|1»]if w[«0|-1»]=='$c'))",
            "a=[w for w in input().split()if «w[0]=='$c'|'$c'in w»]\nprint('$s'.join(a«[::-1]|»))",
        ),
    ),
    Family(
        "nth-letters",
        "hard",
        0.002,
        {"n": range(2, 6), "s": _SIGNS},
        (
            "Print the letter $n of every word that has one, joined by $s.",
            "Join letter $n of each word by $s; leave out words that are too short.",
        ),
        words(),
        lambda row, p: p.s.join(w[p.n - 1] for w in row if len(w) >= p.n),
        (
            "print('$s'.join(w[«$n-1|$n»]for w in input().split()if len(w)«>=|>»$n))",
            "a=[w[$n-1«:$n|»]for w in input().split()]\nprint('$s'.join(w for w in a« if w|»))",
        ),
        ("print('$s'.join(w[$n-1]for w in input().split()))",),
    ),
    Family(
        "reverse-words",
        "easy",
        0.68,
        {"s": _SIGNS, "c": _LETTERS},
        (
            "Print the words in reverse order, each with $c behind, joined by $s.",
            "Put $c behind each word and join them by $s, the last one first.",
        ),
        words(),
        lambda row, p: p.s.join(w + p.c for w in row[::-1]),
        (
            "print('$s'.join(«w+'$c'|'$c'+w|w» for w in input().split()[::«-1|1»]))",
            "a=[w+'$c'for w in input().split()]\na.«reverse|sort»()\nprint(«'$s'.join(a)|*a»)",
        ),
    ),
    Family(
        "longest-word",
        "medium",
        0.1,
        {"c": _LETTERS, "s": _SIGNS},
        (
            "Print the longest word with $c in front and $s behind.",
            "Find the longest word; put $c before it and $s after it.",
        ),
        words(longest=4),
        lambda row, p: p.c + max(row[::-1] if p.e else row, key=len) + p.s,
        (
            "print('$c'+max(input().split()$e«,key=len|»)+'$s')",
            "a=sorted(input().split()$e,key=«len|str»,reverse=1)\nprint('$c'+a[«0|-1»]+'$s')",
        ),
        ("print('$c'+sorted(input().split())[-1]+'$s')",),
        hidden={"e": {"": 0.65, "[::-1]": 0.35}},
    ),
    Family(
        "sort-by-length",
        "hard",
        0.0015,
        {"s": _SIGNS, "n": range(2, 6)},
        (
            "Sort the words by length, cut each to $n letters and join by $s.",
            "Cut the words to $n letters and join them by $s, shortest words first.",
        ),
        words(),
        lambda row, p: p.s.join(w[: p.n] for w in sorted(row, key=len)),
        (
            "print('$s'.join(w[«:$n|$n:|:$n+1»]for w in sorted(input().split()«,key=len|»)))",
            "a=sorted(input().split(),key=«len|str»)\n"
            "print('$s'.join(«w[:$n]|w|a[:$n]» for w in a))",
        ),
        (
            "print('$s'.join(sorted(w[:$n]for w in input().split())))",
            "print('$s'.join(w[:$n]for w in sorted(input().split())))",
        ),
    ),
    Family(
        "total-length",
        "hard",
        0.003,
        {"n": range(1, 6), "a": range(2, 12)},
        (
            "Add up the lengths of the words longer than $n and multiply by $a.",
            "Print $a times the letters in words of more than $n letters.",
        ),
        words(),
        lambda row, p: sum(len(w) for w in row if len(w) > p.n) * p.a,
        (
            "print(sum(len(w)for w in input().split()if len(w)«>|>=|<»«$n|$a»)*$a)",
            "s=0\nfor w in input().split():\n if len(w)>$n:s+=«len(w)|1»«*$a|»\nprint(s)",
        ),
        ("print(len(input().replace(' ',''))*$a)",),
    ),
    Family(
        "capitals",
        "easy",
        0.8,
        {"n": range(2, 5), "s": _SIGNS},
        (
            "Capitalise the first $n words and join them by $s.",
            "Join the first $n words by $s, with capitals.",
        ),
        words(),
        lambda row, p: p.s.join(w.title() if p.o == "title" else w.upper() for w in row[: p.n]),
        (
            "print('$s'.join(w.$o()for w in input().split()[«:$n|$n:|:$n+1»]))",
            "a=input().$o().split()\nprint(«'$s'.join(a[:$n])|*a[:$n]|'$s'.join(a)»)",
        ),
        hidden={"o": {"title": 0.6, "upper": 0.4}},
    ),
    Family(
        "initials",
        "medium",
        0.62,
        {"c": _LETTERS, "s": _SIGNS},
        (
            "Join the initials of the words by $s and end with $c.",
            "Print the initials with $s between, and $c behind.",
        ),
        words(longest=4),
        lambda row, p: p.s.join(w[0].upper() if p.o else w[0] for w in row) + p.c,
        (
            "print('$s'.join(w[«0|-1|1:»]$o for w in input().split())+'$c')",
            "a=[w[0]$o for w in input().split()]\nprint('$s'.join(a)«+|*»'«$c|$s»')",
        ),
        hidden={"o": {".upper()": 0.6, "": 0.4}},
    ),
    Family(
        "sort-words",
        "medium",
        0.57,
        {"n": range(2, 5), "s": _SIGNS},
        (
            "Sort the words and join the first $n by $s.",
            "Put the words in order and join the first $n by $s.",
        ),
        words(),
        lambda row, p: p.s.join(_ordered(row, p.o)[: p.n]),
        (
            "print('$s'.join(sorted(input().split()$o)[«:$n|$n:|:$n-1»]))",
            "a=sorted(input().split()$o)\nprint(«'$s'.join(a[:$n])|*a[:$n]|'$s'.join(a)»)",
        ),
        hidden={"o": {"": 0.65, ",key=len": 0.25, ",reverse=1": 0.1}},
    ),
)

HELD_OUT = (
    Family(
        "words-shorter-reversed",
        "hard",
        0.1,
        {"n": range(3, 7), "s": _SIGNS},
        (
            "Print in reverse order the words shorter than $n letters, joined by $s.",
            "Join by $s the words of less than $n letters, the last one first.",
        ),
        words(),
        lambda row, p: p.s.join(w for w in row[::-1] if len(w) < p.n),
        ("print('$s'.join(w for w in input().split()[::«-1|1»]if len(w)«<|<=|>»$n))",),
    ),
)
