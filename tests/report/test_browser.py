"""The page in a real browser. Skipped where there is no chromium."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from maxk.records import StdinTest
from maxk.report import Findings, gather, page
from maxk.report.watch import Watched, server
from maxk.store.run import Run
from tests.report.browser import CHROMIUM, Browser
from tests.report.runs import add_step, problem, sampled, trained

AXE = Path(os.environ.get("MAXK_AXE", Path(__file__).parents[2] / ".axe" / "axe.min.js"))
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

PASSES = {
    "alpha": [4, 0, 2, 4],
    "beta": [0, 0, 0, 0],
    "gamma": [1, 4, 4, 4],
    "delta": [0, 0, 0, 4],
}
AFTER = PASSES | {"alpha": [4, 4, 4, 4], "delta": [0, 0, 1, 0]}

# Each would set window.hacked, or ask for http://evil.invalid, if any of it became markup.
HOSTILE = [
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "<img src='http://evil.invalid/i.png'><link rel=stylesheet href='http://evil.invalid/c.css'>",
    "<svg onload='window.hacked = 1'><a href='javascript:window.hacked=1'>x</a></svg>",
    "<style>@import 'http://evil.invalid/s.css'; * { display: none }</style>",
    "<iframe srcdoc='<script>parent.hacked = 1</script>'></iframe>",
    "<base href='http://evil.invalid/'><meta http-equiv=refresh content='0;url=http://evil.invalid'>",
    "<!--", "]]>", "{{ 7 * 7 }}", "{% raw %}", "${window.hacked = 1}", "\\u003cscript>",
    "javascript:window.hacked=1", "\u2028\u2029 \u202e\u2066 \ud800 \x00 \x1b[2J",
    "' onmouseover='window.hacked=1' x='", '" autofocus onfocus="window.hacked=1" x="',
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        opened.resize(1280, 900)
        yield opened


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("report")
    before, after = sampled(folder / "base", PASSES), sampled(folder / "ours", AFTER)
    html = page(Findings(gather([before, after, trained(folder / "train")])))
    (folder / "report.html").write_text(html)
    return f"file://{folder}/report.html"


@pytest.fixture
def opened(browser, report) -> Browser:
    browser.open("about:blank")
    browser.open(report)
    return browser


def ids(browser: Browser) -> list[str]:
    return browser.run(
        "[...document.querySelectorAll('#table tbody th a')].map(a => a.textContent)"
    )


def text(browser: Browser, selector: str) -> str:
    return browser.run(f"document.querySelector({json.dumps(selector)}).textContent")


def choose(browser: Browser, control: str, value: str) -> None:
    browser.run(
        f"{{ const c = document.getElementById('{control}'); c.value = {json.dumps(value)};"
        "c.dispatchEvent(new Event('input')) }"
    )


def show(browser: Browser, place: str) -> None:
    browser.run(f"location.hash = '{place}'")
    browser.until(f"viewer.problem === {place.split('/')[1]} && dialog.open")


def test_the_page_opens_from_disk_without_a_complaint_and_loads_nothing(opened, report):
    assert opened.console == []
    assert opened.requests == [report]
    assert text(opened, ".answer").startswith("Against base, ours ")


def test_columns_sort_both_ways_and_say_so(opened):
    heads = "[...document.querySelectorAll('#table thead button')]"
    click = heads + ".find(b => b.textContent === '{}').click()"
    opened.run(click.format("Problem"))
    assert ids(opened) == ["alpha", "beta", "delta", "gamma", "train/0", "train/1"]
    opened.run(click.format("base"))
    assert ids(opened) == ["gamma", "alpha", "delta", "beta", "train/0", "train/1"]
    assert opened.run("document.querySelector('th[aria-sort]').ariaSort") == "descending"
    opened.run(click.format("base"))
    assert ids(opened) == ["beta", "delta", "alpha", "gamma", "train/0", "train/1"]


def test_filters_and_search_narrow_the_table(opened):
    choose(opened, "filter", "lost")
    assert ids(opened) == ["delta"]
    choose(opened, "filter", "gained")
    assert ids(opened) == []
    choose(opened, "filter", "all")
    choose(opened, "search", "ALPH double")
    assert ids(opened) == ["alpha"]
    assert text(opened, "#count") == "1 of 6 problems"


def test_a_sample_opens_from_the_table_with_its_program_and_tests(opened):
    choose(opened, "search", "gamma")
    opened.run("document.querySelector('#table tbody td a').click()")
    opened.until("dialog.open")
    assert text(opened, "#viewer-title") == "gamma"
    assert text(opened, "#statement") == "Double it."
    assert text(opened, "#program") == "print(1)  # 0"
    assert (
        text(opened, "#facts")
        == "Sample 1 of 4 · wrong answer · 1 of 4 tests · reward 0.25 · 10 tokens"
    )
    rows = opened.run("[...document.querySelectorAll('#tests tbody tr')].map(r => r.innerText)")
    assert rows[0].split("\t") == ["1", "passed", "3", "6", "the same"]
    assert rows[1].split("\t") == ["2", "wrong answer", "-1", "-2", "5"]


def test_samples_without_their_program_are_stepped_over_and_can_be_seen(browser, tmp_path):
    folder = sampled(tmp_path / "run", {"a": [0, 0, 4, 0, 1]})
    path = tmp_path / "report.html"
    path.write_text(page(Findings(gather([folder])), samples=2))
    browser.open(f"file://{path}")
    browser.run("document.querySelector('#table tbody td a').click()")
    browser.until("dialog.open && viewer.sample === 2")
    browser.press("ArrowRight")
    browser.until("viewer.sample === 4")
    choose(browser, "which", "all")
    browser.press("ArrowLeft")
    browser.until("viewer.sample === 3")
    assert "is not in the page; its verdict is" in text(browser, "#program")
    assert text(browser, "#facts").startswith("Sample 4 of 5 · wrong answer · 0 of 4 tests")


def test_the_program_is_highlighted(opened):
    show(opened, "#/0/0/0")
    kinds = opened.run(
        "[...document.querySelectorAll('#program .line span')]"
        ".map(s => [s.className, s.textContent])"
    )
    assert kinds == [["b", "print"], ["n", "4"], ["c", "# 0"]]


def test_arrow_keys_walk_through_the_samples(opened):
    show(opened, "#/0/0/0")
    for key, expected in [
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("ArrowLeft", 0),
        ("ArrowLeft", 0),
    ]:
        opened.press(key)
        opened.until(f"viewer.sample === {expected}")
    choose(opened, "which", "passing")
    opened.press("ArrowRight")
    opened.until("viewer.sample === 3")
    opened.press("j")
    opened.until("viewer.problem !== 0")
    opened.press("Escape")
    opened.until("!dialog.open && location.hash === '#problems'")


def test_two_samples_are_compared_line_by_line(opened):
    show(opened, "#/2/0/1")
    opened.press("p")
    opened.press("ArrowLeft")
    opened.until("viewer.sample === 0")
    marks = opened.run(
        "[...document.querySelectorAll('#program .line')].map(l => l.dataset.mark + l.textContent)"
    )
    assert marks == ["-print(4)  # 1", "+print(1)  # 0"]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a\nb\nc", "a\nc\nd", [" a", "-b", " c", "+d"]),
        ("a", "a", [" a"]),
        ("", "x", ["-", "+x"]),
        ("a\nb\nb\nc", "b\nc\nc", ["-a", " b", "-b", " c", "+c"]),
    ],
)
def test_the_difference_is_the_shortest(opened, before, after, expected):
    call = f"difference({json.dumps(before)}, {json.dumps(after)}).map(([m, l]) => m + l)"
    assert opened.run(call) == expected


def test_programs_too_long_to_compare_are_shown_one_after_the_other(opened):
    call = "difference('x\\n'.repeat(3000) + 'a', 'y\\n'.repeat(3000)).map(([m]) => m).join('')"
    assert opened.run(call) == "-" * 3001 + "+" * 3001


@pytest.mark.parametrize(
    ("program", "kinds"),
    [
        ("def f(x):", [["k", "def"], ["d", "f"]]),
        ("s = 'it\\'s' # no", [["s", "'it\\'s'"], ["c", "# no"]]),
        ('"""a\nb""" + 1', [["s", '"""a'], ["s", 'b"""'], ["n", "1"]]),
        ("'open\nx = 0x1F", [["s", "'open"], ["n", "0x1F"]]),
        ("rb'#' or None", [["s", "rb'#'"], ["k", "or"], ["b", "None"]]),
        ("1e-3 + 1_0.5j", [["n", "1e-3"], ["n", "1_0.5j"]]),
    ],
)  # fmt: skip
def test_python_is_told_apart(opened, program, kinds):
    found = opened.run(f"highlighted({json.dumps(program)}).flat().filter(([kind]) => kind)")
    assert found == kinds


def test_highlighting_loses_no_character_and_no_time(opened):
    nasty = '"""\\' * 5000 + "'" * 5001 + "r" * 5000 + "1_" * 5000 + "\\\n" * 500
    call = f"highlighted({json.dumps(nasty)}).map(l => l.map(t => t[1]).join('')).join('\\n')"
    assert opened.run(call) == nasty


def test_training_samples_show_weight_and_ratio(opened):
    number = opened.run("ROWS.find(row => row.id === 'train/1').number")
    show(opened, f"#/{number}/2/5")
    rows = opened.run("[...document.querySelectorAll('#weights tbody tr')].map(r => r.innerText)")
    assert [row.split("\t") for row in rows] == [
        ["1", "0.25", "1.000", "0"],
        ["2", "-0.125", "1.649", "0.5"],
    ]
    assert "sampled at step 1" in text(opened, "#facts")


def test_hostile_text_stays_text(browser, tmp_path):
    texts = [text.replace("\ud800", "?") for text in HOSTILE]  # parquet has no half pairs
    names = [f"p{i} {text}" for i, text in enumerate(texts)]
    problems = {
        name: problem(name, text, [StdinTest(raw, raw)] * 4)
        for name, text, raw in zip(names, texts, HOSTILE, strict=True)
    }

    def completion(name: str, sample: int) -> str:
        return texts[names.index(name)] + "\n" * sample

    passes = {name: [4, 0] for name in names}
    folder = sampled(
        tmp_path / "<img src=x onerror=hacked=1>", passes, completion, problems, got=HOSTILE[2]
    )
    html = page(Findings(gather([folder])))
    path = tmp_path / "report.html"
    path.write_text(html, "utf-8", "replace")
    browser.open(f"file://{path}")
    for number in range(len(HOSTILE)):
        show(browser, f"#/{number}/0/0")
        browser.until("document.getElementById('program').textContent !== ''")
        assert text(browser, "#viewer-title").startswith(f"p{number} ")
        assert text(browser, "#statement")[:8] in (texts[number][:8], "\u2028\u2029 U+202")
    assert browser.run("window.hacked === undefined")
    assert browser.console == []
    assert browser.requests == [f"file://{path}"]
    assert browser.run("document.querySelectorAll('script').length") == 2
    assert browser.run("document.querySelectorAll('img, iframe, base, link, object').length") == 0
    show(browser, "#/15/0/1")
    assert "U+202EU+2066" in text(browser, "#program")
    assert text(browser, "#tests tr td:last-child") == HOSTILE[2]


def test_the_policy_stops_script_that_got_in(browser, report):
    """Were there a hole, the policy is behind it: script, handlers and loading are refused."""
    browser.open("about:blank")
    browser.open(report)
    browser.run(
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 1';"
        "document.body.append(s);"
        "const i = document.createElement('img'); i.setAttribute('onerror', 'window.hacked = 1');"
        "i.src = 'http://evil.invalid/x.png'; document.body.append(i)"
    )
    assert browser.run(
        "new Promise(done => setTimeout(() => done(window.hacked === undefined), 200))"
    )
    assert len([line for line in browser.console if "Content Security Policy" in line]) >= 2


@pytest.mark.parametrize("where", ["", "#/0/1/2"])
def test_nothing_is_wider_than_a_phone(opened, where):
    opened.resize(375, 812, mobile=True)
    try:
        if where:
            show(opened, where)
        assert opened.run("document.documentElement.scrollWidth") == 375
        assert opened.run("document.querySelector('dialog').scrollWidth") <= 375
        assert opened.run(
            "[...document.querySelectorAll('button, select, input')].filter(b => b.offsetParent)"
            ".every(b => b.getBoundingClientRect().right <= 376 || b.closest('.scroll'))"
        )
    finally:
        opened.resize(1280, 900)


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not there: make .axe/axe.min.js")
@pytest.mark.parametrize(
    ("where", "dark"), [("", False), ("", True), ("#/0/0/1", True), ("#/4/2/5", False)]
)
def test_axe_finds_nothing_serious(opened, where, dark):
    opened.dark(dark)
    try:
        if where:
            show(opened, where)
            choose(opened, "other", opened.run("byId('other').options[1]?.value ?? ''"))
        opened.run("document.querySelectorAll('details').forEach(d => { d.open = true })")
        opened.run(AXE.read_text())
        found = opened.run(
            "axe.run().then(r => r.violations.map(v => [v.impact, v.id, v.nodes[0].html]))"
        )
        assert [each for each in found if each[0] in ("serious", "critical")] == []
    finally:
        opened.dark(False)


def test_a_live_page_follows_its_run(browser, tmp_path):
    folder = trained(tmp_path / "live", steps=2, finished=False)
    watched = Watched(
        [folder], lambda number: page(Findings(gather([folder], live=True)), version=number)
    )
    assert watched.check()
    with server(watched) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.05,))
        thread.start()
        try:
            browser.open(f"http://127.0.0.1:{serving.server_port}/")
            assert "step 2, not finished" in text(browser, ".runs")
            add_step(Run.open(folder), 2)
            assert watched.check()
            browser.until(
                "document.querySelector('.runs')?.textContent.includes('step 3')", seconds=20
            )
            assert browser.console == []
        finally:
            serving.shutdown()
            thread.join()
