"""One word in, letters of it out."""

from maxk.pocket.families.conventions import FIRST
from maxk.pocket.family import Family
from maxk.pocket.inputs import word

_LETTERS = "abcdeghilmnoprstu"


def _shift(text, p):
    return "".join(chr((ord(c) - 97 + p.n) % 26 + 97) for c in text)


FAMILIES = (
    Family(
        "letter-count",
        "easy",
        0.8,
        {"c": _LETTERS, "n": range(2, 6)},
        (
            "Count the letter $c in the word and multiply by $n.",
            "How often is $c in the word? Print $n times that.",
        ),
        word("c", capitals=0.3),
        lambda s, p: (s.lower() if p.e else s).count(p.c) * p.n,
        (
            "print(input()$e.«count|find|index»('$c')*$n)",
            "s=«0|1»\nfor c in input()$e:\n if c«==|!=»'$c':s+=$n\nprint(s)",
        ),
        hidden={"e": {"": 0.7, ".lower()": 0.3}},
    ),
    Family(
        "replace-letter",
        "easy",
        0.8,
        {"c": _LETTERS, "d": "xyzkvw"},
        ("Replace $c in the word by $d.", "Write $d for $c in the word."),
        word("c"),
        lambda s, p: s.replace(p.c, p.d, -1 if p.o == "" else 1),
        (
            "print(input().replace('«$c','$d'|$d','$c'|$c',''»$o))",
            "print('«$d|$c»'.join(input().split('«$c|$d»'$o)))",
        ),
        hidden={"o": {"": 0.7, ",1": 0.3}},
    ),
    Family(
        "swap-letters",
        "hard",
        0.001,
        {"c": "abcdeghilm", "d": "noprstu"},
        ("Swap the letters $c and $d in the word.", "Write $c for $d and $d for $c in the word."),
        word("cd"),
        lambda s, p: s.translate({ord(p.c): p.d, ord(p.d): p.c}),
        (
            "s=input()\nprint(s.replace('$c','«#|$d»').replace('$d','$c').replace('«#|$c»','«$d|$c»'))",
            "print(''.join({'$c':'«$d|$c»','$d':'«$c|$d»'}.get(c«,c|,''»)for c in input()))",
        ),
        (
            "print(input().replace('$c','$d').replace('$d','$c'))",
            "print(input().replace('$c','$d'))",
        ),
    ),
    Family(
        "remove-letter",
        "easy",
        0.63,
        {"c": _LETTERS, "n": range(2, 5)},
        (
            "Remove every $c from the word and print it $n times.",
            "Print the word $n times without the letter $c.",
        ),
        word("c"),
        lambda s, p: s.replace(p.c, "") * p.n,
        (
            "print(input().replace('$c','«|$c$c»')*$n)",
            "s=input()\nprint(«s.replace('$c','')|s.strip('$c')|s.replace('$c','',1)»*$n)",
            "print(''.join(c for c in input()if c«!=|==»'$c')«*$n|»)",
        ),
    ),
    Family(
        "cut",
        "easy",
        0.8,
        {"n": range(2, 6), "c": _LETTERS},
        (
            "Cut the word at letter $n and put $c behind it.",
            "Print the word, cut at letter $n, and then $c.",
        ),
        word(longest=10),
        lambda s, p: {":$n": s[: p.n], "$n:": s[p.n :], ":$n-1": s[: p.n - 1]}[p.o] + p.c,
        ("print(input()[$o]«+|*»'$c')", "s=input()\nprint(«s[$o]+'$c'|'$c'+s[$o]|s[$o],'$c'»)"),
        hidden={"o": {":$n": 0.55, "$n:": 0.3, ":$n-1": 0.15}},
    ),
    Family(
        "last-letters",
        "medium",
        0.35,
        {"n": range(1, 6), "c": _LETTERS},
        (
            "Put $c before the last $n letters of the word and print these.",
            "Print $c and then the last $n letters of the word.",
        ),
        word(longest=10),
        lambda s, p: p.c + s[-p.n :],
        (
            "print('$c'+input()[«-$n:|$n:|:-$n|-$n»])",
            "s=input()\nprint(«'$c'+s[-$n:]|s[-$n:]+'$c'|'$c',s[-$n:]»)",
        ),
    ),
    Family(
        "every-nth",
        "medium",
        0.57,
        {"n": range(2, 5), "c": _LETTERS},
        (
            "Print every $n-th letter of the word, joined by $c.",
            "Join every $n-th letter of the word by $c.",
        ),
        word(longest=12),
        lambda s, p: p.c.join(s[p.n - 1 if p.o else 0 :: p.n]),
        (
            "print('$c'.join(input()[$o:«:$n|$n»]))",
            "s=input()\nprint(«'$c'.join(s[$o::$n])|s[$o::$n]+'$c'|s[$o::$n]»)",
        ),
        hidden={"o": {"": 0.7, "$n-1": 0.3}},
    ),
    Family(
        "fill",
        "easy",
        0.8,
        {"n": range(4, 12), "c": _LETTERS},
        ("Fill the word up to $n letters with $c.", "Pad the word with $c to $n letters."),
        word(longest=7),
        lambda s, p: getattr(s, p.o)(p.n, p.c),
        ("print(input().$o(«$n|$n+1»,'$c'))", "s=input()\nprint(s.$o(«$n,'$c'|$n-len(s),'$c'»))"),
        hidden={"o": {"ljust": 0.55, "rjust": 0.3, "center": 0.15}},
    ),
    Family(
        "shift-alphabet",
        "hard",
        0.0006,
        {"n": range(1, 26)},
        (
            "Shift each letter of the word by $n in the alphabet; a follows z.",
            "Move every letter $n places on in the alphabet, from z on to a.",
        ),
        word(also="xyz"),
        _shift,
        (
            "print(''.join(chr((ord(c)-97«+|-»$n)«%26+97|+97|%26+96»)for c in input()))",
            "a='abcdefghijklmnopqrstuvwxyz'\n"
            "print(''.join(a[(a.find(c)«+|-»$n)%«26|25|27»]for c in input()))",
        ),
        ("print(''.join(chr(ord(c)+$n)for c in input()))",),
    ),
    Family(
        "capital-letter",
        "medium",
        0.05,
        {"c": _LETTERS, "n": range(2, 6)},
        (
            "Keep the first $n letters of the word and write $c as a capital.",
            "Make each $c a capital and print the first $n letters.",
        ),
        word("c", longest=10),
        lambda s, p: s.replace(p.c, p.c.upper())[: p.n],
        (
            "print(input()[«:$n|$n:|:$n-1»].replace('$c','$c'«.upper()|.lower()»))",
            "s=input()«.replace('$c','$c'.upper())|.upper()|.title()»\nprint(s[:$n])",
        ),
    ),
    Family(
        "first-position",
        "medium",
        0.57,
        {"c": _LETTERS, "n": range(2, 5)},
        (
            "Print the position of the first $c in the word, times $n.",
            "Where in the word is the first $c? Print $n times the position.",
        ),
        word("c", shortest=2),
        lambda s, p: (s.find(p.c) + int(p.o)) * p.n,
        (
            "print((input().«find|rfind|count|index»('$c')+$o)*$n)",
            "s=input()\nprint((s.find('$c')+$o)«*|+»«$n|1»)",
        ),
        hidden={"o": FIRST},
    ),
    Family(
        "count-two",
        "medium",
        0.03,
        {"c": "abcdeghilm", "d": "noprstu"},
        ("Count the letters $c and $d in the word.", "How often are $c or $d in the word?"),
        word("cd"),
        lambda s, p: s.count(p.c) + s.count(p.d),
        (
            "s=input()\nprint(s.count('$c')«+|-|*»s.count('«$d|$c»'))",
            "print(sum(c «in|not in»'«$c$d|$c»'for c in input()))",
        ),
        ("print(input().count('$c$d'))",),
    ),
    Family(
        "reverse-add",
        "easy",
        0.68,
        {"c": _LETTERS, "d": "xyzkvw"},
        (
            "Print the word reversed, with $c in front and $d behind.",
            "Reverse the word, put $c before it and $d after it.",
        ),
        word(),
        lambda s, p: p.c + s[::-1] + p.d,
        (
            "print('«$c|$d»'+input()[::«-1|1|-2»]+'$d')",
            "s=input()[::-1]\nprint(«'$c'+s+'$d'|'$d'+s+'$c'|'$c',s,'$d'»)",
        ),
    ),
    Family(
        "mirror",
        "hard",
        0.0015,
        {"c": _LETTERS, "n": range(2, 6)},
        (
            "Print the first $n letters, then $c, then the same letters reversed.",
            "Print the first $n letters and their mirror image with $c between.",
        ),
        word(longest=9),
        lambda s, p: s[: p.n] + p.c + s[: p.n][::-1],
        (
            "s=input()[«:$n|$n:|:$n+1»]\nprint(s+'$c'+s«[::-1]|»)",
            "s=input()\nprint(s[:$n]«+'$c'|»+«s[:$n][::-1]|s[::-1][:$n]|s[$n::-1]»)",
        ),
        ("s=input()\nprint(s+'$c'+s[::-1])", "s=input()\nprint(s[:$n]+'$c'+s[::-1])"),
    ),
    Family(
        "vowels",
        "medium",
        0.62,
        {"n": range(2, 60)},
        ("Count the vowels in the word and add $n.", "Print $n plus the number of vowels."),
        word(also="aeiouyy", capitals=0.3, shortest=2),
        lambda s, p: sum(c in p.o for c in s) + p.n,
        (
            "print(sum(c in'$o'for c in input())«+|*»$n)",
            "s=«$n|0»\nfor c in input():\n if c «in|not in»'$o':s+=1\nprint(s)",
        ),
        hidden={"o": {"aeiou": 0.6, "aeiouAEIOU": 0.25, "aeiouy": 0.15}},
    ),
)

HELD_OUT = (
    Family(
        "reverse-without",
        "medium",
        0.2,
        {"c": _LETTERS},
        (
            "Print the word reversed, without the letter $c.",
            "Reverse the word and remove every $c.",
        ),
        word("c"),
        lambda s, p: s[::-1].replace(p.c, ""),
        ("print(input()[::«-1|1»].replace('$c','«|$c$c»'))",),
    ),
)
