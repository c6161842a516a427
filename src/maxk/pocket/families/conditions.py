"""One integer in; what is printed depends on where it lies."""

from maxk.pocket.families.conventions import YES, read
from maxk.pocket.family import Family
from maxk.pocket.inputs import integer


def _fizz(n, p):
    return "fizz" * (n % p.a == 0) + "buzz" * (n % p.b == 0) or n


FAMILIES = (
    Family(
        "clamp",
        "medium",
        0.06,
        {"a": range(1, 20), "b": range(30, 60)},
        (
            "Limit the number to the range from $a to $b.",
            "Print the number, but at least $a and at most $b.",
        ),
        integer(-40, 90, near="ab"),
        lambda n, p: min(max(n, p.a), p.b),
        (
            "n=int(input())\nprint(«min(max(n,$a),$b)|max(min(n,$a),$b)»)",
            "n=int(input())\nif n<$a:n=«$a|$b»\nif n>$b:n=«$b|$a»\nprint(n)",
        ),
        ("n=int(input())\nprint(min(n,$b))", "n=int(input())\nprint(max(n,$a))"),
    ),
    Family(
        "low-high",
        "easy",
        0.68,
        {"a": range(5, 25), "b": range(30, 60)},
        (
            "Print low if the number is below $a, high if it is above $b, else ok.",
            "Below $a print low, above $b print high, otherwise ok.",
        ),
        integer(0, 90, near="ab"),
        lambda n, p: "low" if n < p.a else "high" if n > p.b else "ok",
        (
            "n=int(input())\nprint('low'if n«<|<=|>»$a else'high'if n«>|>=|<»$b else'ok')",
            "n=int(input())\nif n<«$a|$b»:print('low')\nelif n>$b:print('high')\n"
            "else:print('«ok|no»')",
        ),
    ),
    Family(
        "between",
        "medium",
        0.62,
        {"a": range(1, 25), "b": range(30, 60)},
        (
            "Print yes if the number is between $a and $b, else no.",
            "Is the number between $a and $b? Print yes or no.",
        ),
        integer(0, 90, near="ab"),
        lambda n, p: "yes" if p.a < n < p.b or (p.o == "<=" and n in (p.a, p.b)) else "no",
        (
            "n=int(input())\nprint('«yes|no»'if $a$on$o$b else'«no|yes»')",
            "n=int(input())\nif $a$on «and|or» n$o$b:print('yes')\nelse:print('no')",
        ),
        ("print('yes'if int(input())<$b else'no')",),
        hidden={"o": {"<=": 0.7, "<": 0.3}},
    ),
    Family(
        "divisible-by",
        "easy",
        0.8,
        {"d": range(2, 30)},
        ("Is the number divisible by $d?", "Tell whether $d divides the number."),
        integer(0, 120, multiple="d"),
        lambda n, p: read(p.o, c=n % p.d == 0),
        (
            "c=int(input())%$d«==0|>0|==1»\nprint($o)",
            "n=int(input())\nc=n%$d«<1|>0»\nprint($o)",
        ),
        hidden={"o": YES},
    ),
    Family(
        "fizz-buzz",
        "hard",
        0.001,
        {"a": range(2, 7), "b": range(7, 12)},
        (
            "Print fizz if $a divides the number, buzz if $b does, fizzbuzz if both, else it.",
            "For multiples of $a print fizz, of $b buzz, of both fizzbuzz, else the number.",
        ),
        integer(1, 120, multiple="ab"),
        _fizz,
        (
            "n=int(input())\nprint('fizz'*(n%$a«==0|>0»)+'buzz'*(n%«$b|$a»«==0|>0»)«or n|»)",
            "n=int(input())\ns=''\nif n%$a<1:s='fizz'\n«if|elif» n%$b<1:s«+=|=»'buzz'\n"
            "print(s «or|and» n)",
        ),
        ("n=int(input())\nprint('fizz'if n%$a<1 else'buzz'if n%$b<1 else n)",),
    ),
    Family(
        "one-not-both",
        "hard",
        0.002,
        {"a": range(2, 7), "b": range(7, 12)},
        (
            "Print yes if $a or $b divides the number, but not both, else no.",
            "Does exactly one of $a and $b divide the number? Print yes or no.",
        ),
        integer(1, 120, multiple="ab"),
        lambda n, p: "yes" if (n % p.a == 0) != (n % p.b == 0) else "no",
        (
            "n=int(input())\nprint('«yes|no»'if (n%$a«<|>»1)«!=|==»(n%$b<1)else'«no|yes»')",
            "n=int(input())\nprint('yes'if (n%$a<1)«+|*»(n%$b<1)«==|>=|>»1 else'no')",
        ),
        (
            "n=int(input())\nprint('yes'if n%$a<1 or n%$b<1 else'no')",
            "n=int(input())\nprint('yes'if n%$a<1 and n%$b<1 else'no')",
        ),
    ),
    Family(
        "even-odd",
        "medium",
        0.3,
        {"a": range(2, 12), "b": range(2, 30)},
        (
            "If the number is even multiply it by $a, else add $b.",
            "Print $a times an even number, but an odd number plus $b.",
        ),
        integer(-9, 60),
        lambda n, p: n * p.a if n % 2 == 0 else n + p.b,
        (
            "n=int(input())\nprint(«n+$b if n%2 else n*$a|n*$a if n%2 else n+$b|n*$a»)",
            "n=int(input())\nif n%2«==0|»:n*=$a\nelse:n«+=|-=|*=»$b\nprint(n)",
            "n=int(input())\nif n%2:n+=$b\nelse:n«*=|+=»$a\nprint(n)",
        ),
    ),
    Family(
        "price",
        "hard",
        0.0005,
        {"a": range(6, 12), "b": range(2, 6), "c": range(3, 9)},
        (
            "A thing costs $a, each beyond the first $c only $b. Print the price of that many.",
            "The first $c things cost $a each, all others $b each. Print the price of that many.",
        ),
        integer(0, 30, near="c"),
        lambda n, p: min(n, p.c) * p.a + max(n - p.c, 0) * p.b,
        (
            "n=int(input())\nprint(«min|max»(n,$c)*$a+«max(n-$c,0)|(n-$c)|max(n,$c)»*«$b|$a»)",
            "n=int(input())\nif n«>|<»$c:print($c*«$a|$b»+«(n-$c)|n»*$b)\nelse:print(n*$a)",
        ),
        ("n=int(input())\nprint(n*$a)", "n=int(input())\nprint(n*$a if n<=$c else n*$b)"),
    ),
    Family(
        "fare",
        "medium",
        0.62,
        {"a": range(2, 12), "b": range(3, 30)},
        (
            "A ticket costs $a up to age $b and twice as much later. Print it for the age.",
            "Up to age $b a ticket costs $a, then the double. Print it for the age.",
        ),
        integer(0, 60, near="b"),
        lambda n, p: p.a if n < p.b or (p.o == "<=" and n == p.b) else 2 * p.a,
        (
            "n=int(input())\nprint($a if n$o$b else «2*$a|$a|2*$b»)",
            "n=int(input())\np=«$a|$b»\nif «not n$o$b|n$o$b»:p*=2\nprint(p)",
        ),
        hidden={"o": {"<=": 0.65, "<": 0.35}},
    ),
)
