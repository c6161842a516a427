"""One integer in, which says how far to go."""

from maxk.pocket.family import Family
from maxk.pocket.inputs import integer


def _powers(n, p):
    found, power = [], 1
    while power <= n:
        found.append(power)
        power *= p.a
    return " ".join(map(str, found))


def _divisions(n, p):
    count = 0
    while n % p.d == 0:
        n, count = n // p.d, count + 1
    return count


def _steps(n, p):
    for _ in range(p.k):
        n = n // 2 if n % 2 == 0 else n * p.a + p.b
    return n


FAMILIES = (
    Family(
        "count-down",
        "medium",
        0.2,
        {"d": range(2, 12), "a": range(4)},
        (
            "Count down from the number to $a in steps of $d.",
            "Print the numbers from the input down to $a, each $d less.",
        ),
        integer(4, 60, multiple="d"),
        lambda n, p: " ".join(map(str, range(n, p.a - 1, -p.d))),
        (
            "print(*range(int(input()),$a«-1|»,-$d))",
            "n=int(input())\nwhile n«>=|>|<»$a:\n print(n)\n n-=«$d|1»",
        ),
        ("print(*range(int(input()),$a,$d))",),
    ),
    Family(
        "multiples",
        "easy",
        0.58,
        {"d": range(2, 30)},
        (
            "Print the multiples of $d from $d up to the number.",
            "List the multiples of $d that are not above the number, from $d on.",
        ),
        integer(1, 120, near="d", multiple="d"),
        lambda n, p: " ".join(map(str, range(p.d, n + 1, p.d))),
        (
            "print(*range(«$d|0|1»,int(input())«+1|»,$d))",
            "for i in range(1,int(input())«+1|»):\n if i%$d«==0|>0»:print(i)",
        ),
    ),
    Family(
        "sum-multiples",
        "medium",
        0.03,
        {"d": range(2, 30)},
        (
            "Print the sum of the multiples of $d up to the number.",
            "Add up all multiples of $d that are not above the number.",
        ),
        integer(1, 120, near="d", multiple="d"),
        lambda n, p: sum(range(p.d, n + 1, p.d)),
        (
            "print(sum(range(«$d|1»,int(input())«+1|»,$d)))",
            "n=int(input())//$d\nprint(«n*(n+1)|n*(n-1)|(n+1)»//2«*$d|»)",
        ),
        ("print(sum(range(int(input())+1)))",),
    ),
    Family(
        "powers",
        "hard",
        0.001,
        {"a": range(2, 30)},
        (
            "Print the powers of $a up to the number, beginning with 1.",
            "List 1 and the powers of $a that are not above the number.",
        ),
        integer(1, 900, near="a", multiple="a"),
        _powers,
        (
            "n=int(input())\ni=«1|$a»\nwhile i<=«n|n//2»:\n print(i)\n i«*=|+=»$a",
            "n=int(input())\nprint(*[$a**i for i in range(«10|1,9|2»)if $a**i<=«n|n//$a»])",
        ),
        ("n=int(input())\nprint(*range(1,n+1,$a))", "n=int(input())\nprint(1,*range($a,n+1,$a))"),
    ),
    Family(
        "divisions",
        "medium",
        0.05,
        {"d": range(2, 12), "a": range(1, 12)},
        (
            "How often can the number be divided by $d? Print that plus $a.",
            "Start at $a and add 1 each time that $d divides the number.",
        ),
        integer(1, 500, multiple="dd"),
        lambda n, p: _divisions(n, p) + p.a,
        (
            "n=int(input())\ns=«$a|0»\nwhile n%$d==0:\n n//=$d\n s+=«1|$d»\nprint(s)",
            "n=int(input())\ns=$a\n«while|if» n%$d«<|>»1:n//=$d;s+=1\nprint(s)",
        ),
    ),
    Family(
        "triangle",
        "easy",
        0.8,
        {"c": "xo*#+@%=", "a": range(1, 6)},
        (
            "Draw a triangle of $c with that many lines, the shortest of $a.",
            "Print a triangle of $c as high as the number and $a wide at the tip.",
        ),
        integer(1, 12),
        lambda n, p: "\n".join(p.c * (i + p.a) for i in range(n)[:: 1 if p.o == "" else -1]),
        (
            "for i in range(int(input()))$o:print('$c'*«(i+$a)|i|$a»)",
            "n=int(input())\nfor i in range(«n|n+1|1,n»)$o:print('$c'*(i«+$a|»))",
        ),
        hidden={"o": {"": 0.65, "[::-1]": 0.35}},
    ),
    Family(
        "first-multiples",
        "easy",
        0.8,
        {"d": range(2, 40)},
        (
            "Print the first multiples of $d, as many as the number says.",
            "List that many multiples of $d.",
        ),
        integer(1, 12),
        lambda n, p: " ".join(str(p.d * (i + int(p.o))) for i in range(n)),
        (
            "print(*[$d«*|+»(i+$o)for i in range(int(input()))])",
            "for i in range(«int(input())|$d»):print((i+$o)*$d)",
        ),
        hidden={"o": {"1": 0.7, "0": 0.3}},
    ),
    Family(
        "sum-from",
        "easy",
        0.8,
        {"a": range(2, 40)},
        ("Add up the numbers from $a to the input.", "Sum all numbers from $a to the given one."),
        integer(20, 120),
        lambda n, p: sum(range(p.a, n + len(p.o) // 2)),
        (
            "print(sum(range(«$a|0»,int(input())$o)))",
            "s=0\nfor i in range($a,int(input())$o):s«+=|=»i\nprint(s)",
        ),
        hidden={"o": {"+1": 0.75, "": 0.25}},
    ),
    Family(
        "divisors",
        "medium",
        0.3,
        {"a": range(2, 40)},
        (
            "Add $a to the number and print the divisors of that.",
            "Print the divisors of the sum of the number and $a.",
        ),
        integer(0, 60),
        lambda n, p: " ".join(
            str(i) for i in range(int(p.l), n + p.a + len(p.h) // 2) if (n + p.a) % i == 0
        ),
        (
            "n=int(input())«+|*»$a\nprint(*[i for i in range($l,n$h)if n%i«<1|>0»])",
            "n=int(input())+$a\nfor i in range($l,n$h):\n if n%i«==0|==1»:print(«i|n»)",
        ),
        hidden={"l": {"1": 0.8, "2": 0.2}, "h": {"+1": 0.7, "": 0.3}},
    ),
    Family(
        "sum-powers",
        "medium",
        0.2,
        {"a": range(2, 5), "b": range(2, 20)},
        (
            "Add up i to the power $a for i from 1 to the number, then add $b.",
            "Print $b plus the sum of i to the power $a, i from 1 to the number.",
        ),
        integer(1, 15),
        lambda n, p: sum(i**p.a for i in range(n + 1)) + p.b,
        (
            "print(sum(i**$a for i in range(int(input())«+1|»))«+|*»$b)",
            "s=«$b|0»\nfor i in range(int(input())):s+=«(i+1)|i»**$a\nprint(s)",
        ),
    ),
    Family(
        "one-without-other",
        "hard",
        0.0008,
        {"a": range(2, 10), "b": (1, 3, 7, 9)},
        (
            "Count the numbers from 1 to the input that $a divides and 1$b does not.",
            "How many numbers up to the input are divisible by $a but not by 1$b?",
        ),
        integer(1, 150),
        lambda n, p: sum(i % p.a == 0 and i % (10 + p.b) > 0 for i in range(1, n + 1)),
        (
            "print(sum(i%$a«<1<=|<1>»i%1$b for i in range(1,int(input())«+1|»)))",
            "n=int(input())\ns=0\nfor i in range(1,n«+1|»):\n if i%$a«<|>»1 and i%1$b«>0|<1»:s+=1\n"
            "print(s)",
        ),
        ("n=int(input())\nprint(n//$a-n//1$b)", "print(int(input())//$a)"),
    ),
    Family(
        "halve-or-grow",
        "hard",
        0.0006,
        {"a": range(2, 6), "b": range(1, 10), "k": range(2, 6)},
        (
            "Do $k times: halve an even number, multiply an odd one by $a and add $b.",
            "$k times, halve the number if it is even, else take $a times it plus $b.",
        ),
        integer(1, 60),
        _steps,
        (
            "n=int(input())\nfor i in range($k):n=«n*$a+$b if n%2 else n//2|"
            "n//2 if n%2 else n*$a+$b|n//2»\nprint(n)",
            "n=int(input())\nfor i in range(«$k|$k-1|$k+1»):\n if n%2«<|>»1:n//=2\n"
            " «else|if n%2»:n=n*$a+«$b|1»\nprint(n)",
        ),
        (
            "n=int(input())\nn=n*$a+$b if n%2 else n//2\nprint(n)",
            "n=int(input())\nfor i in range($k):\n if n%2<1:n//=2\nprint(n*$a+$b if n%2 else n)",
        ),
    ),
)
