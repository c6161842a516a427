"""The page as text: what it says, what it may load, how large it is."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from maxk.report import Findings, gather, page
from maxk.report.draw import inline, write_files
from maxk.report.figures import all_figures
from maxk.report.pack import pack
from maxk.report.sections import included
from maxk.report.theme import COLOURS, FAINT, INK, MUTED
from maxk.store.run import Run
from tests.report.runs import sampled, trained

PASSES = {"a": [4, 0, 1, 4], "bb": [0, 0, 0, 0]}
AFTER = {"a": [0, 0, 0, 0], "bb": [4, 4, 0, 0]}
HERE = Path(page.__globals__["__file__"]).parent


class Tags(HTMLParser):
    """Every tag with its attributes, and the text behind it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("page")
    return {
        "base": sampled(folder / "base", PASSES),
        "ours": sampled(folder / "ours", AFTER),
        "train": trained(folder / "train"),
        "blind": sampled(folder / "blind", PASSES, entropy=None),
    }


@pytest.fixture(scope="module")
def html(runs) -> str:
    return page(Findings(gather([runs["base"], runs["ours"], runs["train"]])))


def test_nothing_is_loaded_from_anywhere(html):
    for _, attributes in Tags(html).found:
        assert "src" not in attributes
        assert "style" not in attributes  # the policy would refuse it
        assert not any(name.startswith("on") for name in attributes)
        for link in filter(None, (attributes.get("href"), attributes.get("xlink:href"))):
            assert link.startswith("#")
    assert "url(" not in (HERE / "page.css").read_text()


def test_no_id_is_given_twice(html):
    ids = [attributes["id"] for _, attributes in Tags(html).found if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_policy_is_strict_and_names_what_is_there(html):
    tags = Tags(html).found
    (policy,) = [a["content"] for _, a in tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["img-src"] == "data:"
    assert re.fullmatch(r"'sha256-[\w+/]{43}='", rules["script-src"])
    assert re.fullmatch(r"'sha256-[\w+/]{43}='", rules["style-src"])
    assert set(rules) == {
        *("default-src", "script-src", "style-src", "img-src", "base-uri", "form-action"),
    }
    first_script = html.index("<script")
    assert html.index("Content-Security-Policy") < first_script


def test_every_figure_is_there_with_its_numbers(html):
    titles = re.findall(r"<figure>\s*<h3>(.*?)</h3>", html)
    assert titles == [
        *("pass@k", "max@k", "Where problems moved, ours", "Entropy of completions"),
        *(
            "Reward",
            "max@k of the training groups",
            "Entropy",
            "Policy lag",
            "Groups that change nothing",
        ),
        *("max@k by tokens", "Time of training"),
    ]
    assert html.count('role="img"') == len(titles)
    assert html.count("<summary>Numbers") == len(titles)
    assert "no longer reaches 1 problem that base solved" in html
    assert "different ones.</p>" in html


def test_what_a_run_does_not_have_is_said(runs):
    alone = page(Findings(gather([runs["blind"]])))
    assert "No entropies are stored: the back end of these runs does not give them." in alone
    assert "There is one run; a second one shows here which problems moved." in alone
    pair = page(Findings(gather([runs["base"], runs["ours"]])))
    assert "No training run is among these" in pair
    training = page(Findings(gather([runs["train"]])))
    assert 'id="curves"' not in training
    assert "In train the mean reward" in training


@pytest.mark.parametrize("passes", [{"a": [4]}, {"a": [0, 0], "b": [0, 0]}, {"a": [4, 1, 2]}])
def test_thin_runs_make_a_page_too(tmp_path, passes):
    one = sampled(tmp_path / "one", passes, entropy=0.0)
    two = sampled(tmp_path / "two", passes, text=lambda *_: "", entropy=0.0)
    html = page(Findings(gather([one, two])))
    assert "Against one, two leaves max@1 about unchanged" in html


def test_metrics_that_are_no_numbers_are_left_out(tmp_path):
    folder = trained(tmp_path / "t", steps=2)
    Run.open(folder).log(
        {"step": 3, "reward": float("nan"), "entropy": None, "policy_lag/odd": "x"}
    )
    html = page(Findings(gather([folder])))
    assert "nan" not in html.lower().split("application/json")[0].split("<main>")[1]


def test_what_is_left_out_is_said(runs):
    data = gather([runs["base"]])
    small = included(pack(data, budget=0, most=1))
    assert "All 8 verdicts are in this page, and the programs of 2 samples: up to 1 " in small
    assert "The other 6 programs are left out; --samples all keeps them." in small
    assert included(pack(data, 10**9)) == "All 8 samples are in this page, 8 different ones."


def test_every_colour_of_a_figure_is_recoloured_by_the_style_sheet():
    css = (HERE / "page.css").read_text()
    for colour in (INK, MUTED, FAINT, *COLOURS):
        assert f'[fill="{colour}"]' in css
        assert f'[stroke="{colour}"]' in css


def test_figures_in_the_page_have_no_styles_and_no_other_colours(runs):
    found = Findings(gather([runs["base"], runs["ours"], runs["train"]]))
    known = {INK, MUTED, FAINT, *COLOURS, "#ffffff", "#000000", "none"}
    ids: list[str] = []
    for figure in [each for group in all_figures(found).values() for each in group]:
        root = ET.fromstring(inline(figure))
        for element in root.iter():
            assert "style" not in element.attrib
            assert element.tag.rpartition("}")[2] not in ("style", "script", "metadata")
            assert element.get("fill", "none") in known, figure.name
            assert element.get("stroke", "none") in known, figure.name
        ids += [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
    assert len(ids) == len(set(ids))


def test_figures_are_written_in_three_forms(runs, tmp_path):
    found = Findings(gather([runs["base"], runs["ours"]]))
    written = write_files(all_figures(found)["moves"], tmp_path / "figures")
    assert [path.name for path in written] == ["moves-ours.svg", "moves-ours.png", "moves-ours.pdf"]
    for path in written:
        start = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}[path.suffix]
        assert path.read_bytes().startswith(start)


def test_a_name_with_dollars_is_no_mathematics(runs):
    found = Findings(gather([f"a$b_$c{{={runs['base']}", runs["ours"]]))
    assert "a$b_$c{" in inline(all_figures(found)["curves"][0])


def test_a_name_with_control_characters_is_drawn_without_them(runs):
    found = Findings(gather([f"a\x1b[0m\x00={runs['base']}"]))
    assert ">a?[0m?<" in inline(all_figures(found)["curves"][0])
