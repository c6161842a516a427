"""One or two integers in, a formula of them out."""

from maxk.pocket.families.conventions import read
from maxk.pocket.family import Family, tell
from maxk.pocket.inputs import integer, pair

FAMILIES = (
    Family(
        "multiply-add",
        "easy",
        0.78,
        {"a": range(2, 20), "b": range(1, 30)},
        ("Multiply the number by $a and add $b.", "Print $a times the number plus $b."),
        integer(-20, 60),
        lambda n, p: n * p.a + p.b,
        (
            "print(int(input())*$a«+|-»$b)",
            "n=int(input())\nprint(«$a*n+$b|$b*n+$a|$a*(n+$b)»)",
        ),
    ),
    Family(
        "add-multiply",
        "easy",
        0.68,
        {"a": range(1, 20), "b": range(2, 20)},
        ("Add $a to the number, then multiply by $b.", "Print the number plus $a, times $b."),
        integer(-20, 60, near="a"),
        lambda n, p: (n + p.a) * p.b,
        (
            "print(«(int(input())+$a)|int(input())+$a»*«$b|$a»)",
            "n=int(input())+$a\nprint(n«*|+»$b)",
            "n=int(input())\nn«+|-»=$a\nprint(n*$b)",
        ),
    ),
    Family(
        "boxes",
        "easy",
        0.73,
        {"d": range(3, 40)},
        (
            "Things are packed in boxes of $d. Print the full boxes and what is left over.",
            "Divide the number by $d: print the quotient and the remainder.",
        ),
        integer(0, 200, near="d", multiple="d"),
        lambda n, p: f"{n // p.d} {n % p.d}",
        (
            "n=int(input())\nprint(«n//$d,n%$d|n%$d,n//$d|n/$d,n%$d|n//$d,n-n//$d»)",
            "print(*divmod(«int(input()),$d|$d,int(input())»))",
        ),
    ),
    Family(
        "round-up",
        "medium",
        0.1,
        {"d": range(3, 60)},
        (
            "How many buses of $d seats does the number of people need?",
            "Divide the number by $d and round up.",
        ),
        integer(0, 300, near="d", multiple="d"),
        lambda n, p: -(-n // p.d),
        (
            "n=int(input())\nprint(«(n+$d-1)//$d|(n+$d)//$d»)",
            "print(«-(-int(input())//$d)|-int(input())//$d»)",
            "n=int(input())\nprint(n//$d+(n%$d>«0|1»))",
        ),
        (
            "n=int(input())\nprint(n//$d)",
            "n=int(input())\nprint(n//$d+1)",
            "n=int(input())\nprint(round(n/$d))",
        ),
    ),
    Family(
        "round-to",
        "medium",
        0.62,
        {"d": range(3, 60)},
        (
            "Round the number to a multiple of $d.",
            "Print the number rounded to a multiple of $d.",
        ),
        integer(0, 300, near="d", multiple="d"),
        lambda n, p: (n + {"+$d//2": p.d // 2, "": 0, "+$d-1": p.d - 1}[p.o]) // p.d * p.d,
        (
            "n=int(input())$o\nprint(«n-n%$d|n//$d|n%$d»)",
            "print((int(input())$o)//$d«*$d|+$d|»)",
        ),
        hidden={"o": {"+$d//2": 0.6, "": 0.25, "+$d-1": 0.15}},
    ),
    Family(
        "multiple-at-least",
        "hard",
        0.002,
        {"d": range(3, 60)},
        (
            "Print the smallest multiple of $d that is at least the number.",
            "Round the number up to a multiple of $d.",
        ),
        integer(0, 300, near="d", multiple="d"),
        lambda n, p: -(-n // p.d) * p.d,
        (
            "n=int(input())\nprint(«(n+$d-1)|n|(n+$d)»//$d«*$d|»)",
            "n=int(input())\n«while|if» n%$d:n+=1\nprint(n)",
            "n=int(input())\nprint(n«+-n%$d|-n%$d+$d|+n%$d|+$d-n%$d»)",
        ),
        ("n=int(input())\nprint(n//$d*$d+$d)", "n=int(input())\nprint(n//$d*$d)"),
    ),
    Family(
        "digit-sum",
        "medium",
        0.2,
        {"a": range(2, 60)},
        (
            "Multiply the number by $a and print the sum of the digits.",
            "Print the sum of the digits of $a times the number.",
        ),
        integer(0, 99),
        lambda n, p: sum(map(int, str(n * p.a))),
        (
            "n=int(input())*$a\nprint(sum(«map(int,str(n))|str(n)|range(n)»))",
            "n=int(input())«*$a|+$a»\ns=0\nwhile n:\n s+=n%10\n n«//=|/=»10\nprint(s)",
        ),
        ("print(sum(map(int,input()))*$a)", "print(sum(map(int,input())))"),
    ),
    Family(
        "power-modulo",
        "medium",
        0.25,
        {"a": range(2, 10), "m": range(7, 30)},
        (
            "Print $a to the power of the number, modulo $m.",
            "Raise $a to the number and print the remainder by $m.",
        ),
        integer(0, 40),
        lambda n, p: pow(p.a, n, p.m),
        (
            "print(pow(«$a,int(input()),$m|int(input()),$a,$m|$a,$m,int(input())»))",
            "n=int(input())\nprint(«$a**n|n**$a|$a*n»%$m)",
        ),
    ),
    Family(
        "difference",
        "easy",
        0.8,
        {"a": range(2, 80)},
        (
            "Print the difference of the number and $a.",
            "By how much does the number differ from $a?",
        ),
        integer(-20, 120, near="a"),
        lambda n, p: read(tell(p.o, p), n=n),
        ("n=int(input())\nprint(«$o|n*$a|n+$a»)", "n=int(input())\nn=«$o|n//$a|$a»\nprint(n)"),
        hidden={"o": {"abs(n-$a)": 0.55, "n-$a": 0.3, "$a-n": 0.15}},
    ),
    Family(
        "weighted-pair",
        "medium",
        0.35,
        {"a": range(2, 10), "b": range(2, 10)},
        (
            "Print $a times the first number minus $b times the second.",
            "Of two numbers, print $a times the first less $b times the second.",
        ),
        pair(-5, 40),
        lambda x, p: p.a * x[0] - p.b * x[1],
        (
            "a,b=map(int,input().split())\nprint(«$a*a-$b*b|$b*a-$a*b|$a*a+$b*b»)",
            "a,b=«map(int,input().split())|input().split()»\nprint(a*$a-b*$b)",
        ),
    ),
    Family(
        "pair-remainder",
        "hard",
        0.001,
        {"a": range(5, 20), "m": range(7, 30)},
        (
            "Print the product of the two numbers plus $a, modulo $m.",
            "Multiply the two numbers, add $a and print the remainder by $m.",
        ),
        pair(0, 40),
        lambda x, p: (x[0] * x[1] + p.a) % p.m,
        (
            "a,b=map(int,input().split())\nprint(«(a*b+$a)|(a+b+$a)|a*(b+$a)»«%|//»$m)",
            "a,b=map(int,input().split())\nn=a«*|+»b+$a\nprint(n«%|//»«$m|$a»)",
        ),
        (
            "a,b=map(int,input().split())\nprint(a*b%$m+$a)",
            "a,b=map(int,input().split())\nprint(a*b+$a%$m)",
        ),
    ),
)
