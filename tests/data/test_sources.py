"""Where rows come from: hub calls, file formats, folders, and what is wrong with files."""

import gzip
import logging
import sys

import datasets
import huggingface_hub
import pytest

from maxk.data import DATASETS, load, load_with_account
from tests.data import published

# --- names and splits ----------------------------------------------------------------------------


def test_an_unknown_name_lists_the_names():
    with pytest.raises(ValueError, match="name='mbbp' is unknown; use one of code-contests, live"):
        load("mbbp", "train")


def test_an_unknown_split_lists_the_splits():
    with pytest.raises(ValueError, match="split='valid' is unknown; mbpp has train, validation"):
        load("mbpp", "valid")


def test_the_registry_is_complete():
    assert set(DATASETS) == {
        *("code-contests", "live-code-bench", "live-bench", "codeforces", "mbpp", "mbpp-plus"),
        *("humaneval", "humaneval-plus", "leetcode", "starter", "pocket", "jsonl"),
        *("cure-code-contests-train", "cure-code-contests", "cure-live-code-bench"),
        *("cure-live-bench", "cure-codeforces", "cure-mbpp"),
    }
    for dataset in DATASETS.values():
        if dataset.hub is not None:
            assert set(dataset.files) >= set(dataset.splits), dataset.name
            pinned = dataset.hub.startswith("Gen-Verse/") or len(dataset.revision or "") == 40
            assert pinned, dataset.name


# --- the hub -------------------------------------------------------------------------------------

ROWS = {
    "code-contests": published.code_contests,
    "live-bench": published.live_bench,
    "codeforces": published.codeforces,
    "mbpp": published.mbpp,
    "humaneval": published.humaneval,
    "humaneval-plus": published.humaneval,
    "leetcode": published.leetcode,
}


@pytest.mark.parametrize(
    ("name", "split", "arguments", "streaming"),
    [
        ("code-contests", "valid", ("deepmind/code_contests", None), True),
        ("live-bench", "test", ("livebench/coding", None), False),
        ("codeforces", "train", ("open-r1/codeforces", "default"), True),
        ("mbpp", "train", ("google-research-datasets/mbpp", "full"), False),
        ("humaneval", "test", ("openai/openai_humaneval", None), False),
        ("humaneval-plus", "test", ("evalplus/humanevalplus", None), False),
        ("leetcode", "test", ("newfacade/LeetCodeDataset", None), False),
    ],
)
def test_the_hub_is_asked_for_a_pinned_revision(monkeypatch, name, split, arguments, streaming):
    asked = []

    def load_dataset(*args, **named):
        asked.append((args, named))
        return [ROWS[name]()]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    [problem] = load(name, split)
    revision = DATASETS[name].revision
    wanted = {"split": split, "streaming": streaming, "revision": revision}
    assert asked == [(arguments, wanted)]
    assert (problem.origin, len(revision or "")) == (arguments[0], 40)


def test_a_row_of_the_hub_that_cannot_be_read_is_named(monkeypatch):
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: [published.mbpp(), {}])
    with pytest.raises(ValueError, match=r"^google-research-datasets/mbpp train, row 2, field"):
        load("mbpp", "train")


@pytest.mark.parametrize(
    ("name", "split", "hub", "files", "row"),
    [
        (
            *("live-code-bench", "test", "livecodebench/code_generation_lite"),
            ["test.jsonl", *(f"test{n}.jsonl" for n in range(2, 7))],
            published.live_code_bench,
        ),
        (
            *("live-code-bench", "v6", "livecodebench/code_generation_lite"),
            ["test6.jsonl"],
            published.live_code_bench,
        ),
        (
            *("cure-code-contests-train", "train", "Gen-Verse/CodeContests_train"),
            ["train/CodeContests_train.json"],
            published.cure,
        ),
        (
            *("cure-mbpp", "test", "Gen-Verse/MBPP-ReasonFlux"),
            ["test/MBPP-ReasonFlux.json"],
            published.cure,
        ),
    ],
)
def test_sets_that_are_files_are_fetched_file_by_file(
    monkeypatch, tmp_path, name, split, hub, files, row
):
    asked = []

    def hf_hub_download(repo, file, **named):
        asked.append((repo, file, named))
        write = published.write_json if file.endswith(".json") else published.write_jsonl
        own = f"q{len(asked)}" if name.startswith("live") else len(asked)
        return str(write(tmp_path / file, [row(own)]))

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", hf_hub_download)
    problems = load(name, split)
    named = {"repo_type": "dataset", "revision": DATASETS[name].revision}
    assert asked == [(hub, file, named) for file in files]
    assert len(problems) == len(files)


@pytest.mark.parametrize(
    ("package", "name"), [("datasets", "mbpp"), ("huggingface_hub", "live-code-bench")]
)
def test_a_missing_package_is_named_with_its_remedy(monkeypatch, package, name):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"{package}: pip install 'maxk\[train\]'"):
        load(name, "test")


# --- disk ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.json", "x.parquet"])
def test_every_format_gives_the_same_problems(tmp_path, name):
    rows = [published.mbpp(602), published.mbpp(603)]
    if name.endswith(".parquet"):
        path = published.write_parquet(tmp_path / name, rows)
    elif name.endswith(".json"):
        path = published.write_json(tmp_path / name, rows)
    else:
        path = published.write_jsonl(tmp_path / name, rows)
    expected = load("mbpp", "train", published.write_jsonl(tmp_path / "other.jsonl", rows))
    assert load("mbpp", "train", path) == expected


def test_a_folder_in_the_hubs_layout_gives_the_split(tmp_path):
    for file in ("train-00000-of-00002-ab", "train-00001-of-00002-cd", "test-00000-of-00001-ef"):
        row = published.code_contests(file)
        published.write_parquet(tmp_path / "data" / f"{file}.parquet", [row])
    names = [problem.id.split("/")[-1] for problem in load("code-contests", "train", tmp_path)]
    assert names == ["train-00000-of-00002-ab", "train-00001-of-00002-cd"]


def test_a_folder_of_files_named_after_their_splits_gives_the_split(tmp_path):
    published.write_jsonl(tmp_path / "my_test.jsonl", [published.codeforces("1/A")])
    published.write_jsonl(tmp_path / "my_train.jsonl", [published.codeforces("2/A")])
    published.write_jsonl(tmp_path / "latest.jsonl", [published.codeforces("3/A")])
    assert [p.id for p in load("codeforces", "test", tmp_path)] == ["codeforces/1/A"]


def test_a_folder_without_the_split_says_what_it_holds(tmp_path):
    published.write_jsonl(tmp_path / "mine.jsonl", [published.codeforces()])
    with pytest.raises(FileNotFoundError, match=r"nothing for the split 'train' .* mine\.jsonl"):
        load("codeforces", "train", tmp_path)


def test_folders_and_files_without_problems_are_passed_over(tmp_path):
    published.write_jsonl(tmp_path / "mine.jsonl", [published.codeforces()])
    (tmp_path / "train.md").write_text("About the files.")
    (tmp_path / "train.jsonl").mkdir()
    with pytest.raises(FileNotFoundError, match=r"it holds mine\.jsonl\. Name the file"):
        load("codeforces", "train", tmp_path)


def test_a_folder_of_many_files_is_said_by_the_first(tmp_path):
    for number in range(7):
        published.write_jsonl(tmp_path / f"{number}.jsonl", [published.codeforces()])
    with pytest.raises(FileNotFoundError, match=r"it holds 0\.jsonl, .* 4\.jsonl and 2 more\."):
        load("codeforces", "train", tmp_path)


def test_a_missing_source_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load("mbpp", "train", tmp_path / "nowhere")


def test_an_unknown_suffix_lists_those_known(tmp_path):
    (tmp_path / "x.csv").write_text("a,b")
    with pytest.raises(ValueError, match=r"x\.csv: not one of \.jsonl"):
        load("mbpp", "train", tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"task_id": 1}\n{"a": "\xff"}\n', r"x\.jsonl, line 2: not UTF-8: byte 8 is 0xff"),
        (b'{"task_id": 1}\n\n{"a": \n', r"x\.jsonl, line 3: not JSON"),
        (b"[1]\n", r"x\.jsonl, line 1: a list; use an object"),
        (b"[" * 100_000, r"x\.jsonl, line 1: not JSON"),
        (b'{"text": "no id"}\n', r"x\.jsonl, line 1, field task_id: is missing"),
        (b'{"task_id": "602"}\n', r"x\.jsonl, line 1, field task_id: is text; use an integer"),
    ],
)
def test_a_broken_line_is_named(tmp_path, data, message):
    (tmp_path / "x.jsonl").write_bytes(data)
    with pytest.raises(ValueError, match=message):
        load("mbpp", "train", tmp_path / "x.jsonl")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'[\n{"a": "\xff"}]', r"x\.json, line 2: not UTF-8: byte 0xff"),
        (b"[\n{]", r"x\.json, line 2: not JSON"),
        (b"{}", r"x\.json: an object; a \.json file is one list"),
        (b"[1]", r"x\.json, entry 1: an integer; use an object"),
    ],
)
def test_a_broken_json_list_is_named(tmp_path, data, message):
    (tmp_path / "x.json").write_bytes(data)
    with pytest.raises(ValueError, match=message):
        load("mbpp", "train", tmp_path / "x.json")


def test_a_broken_gzip_file_is_named(tmp_path):
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(b'{"task_id": 1}\n' * 99)[:-9])
    with pytest.raises(ValueError, match=r"x\.jsonl\.gz: broken gzip file"):
        load("mbpp", "train", tmp_path / "x.jsonl.gz")


def test_a_broken_parquet_file_is_named(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(ValueError, match=r"x\.parquet: not a readable parquet file"):
        load("mbpp", "train", tmp_path / "x.parquet")


def test_an_id_used_for_two_problems_names_both_places(tmp_path):
    rows = [published.mbpp(602), published.mbpp(603), {**published.mbpp(602), "text": "Another."}]
    path = published.write_jsonl(tmp_path / "x.jsonl", rows)
    names = r"line 3, field id: 'mbpp/602' is the id of another problem, at x\.jsonl, line 1"
    with pytest.raises(ValueError, match=names):
        load("mbpp", "train", path)


def test_a_problem_that_is_there_twice_is_kept_once(tmp_path):
    rows = [published.mbpp(602), published.mbpp(603), published.mbpp(602)]
    path = published.write_jsonl(tmp_path / "x.jsonl", rows)
    problems, account = load_with_account("mbpp", "train", path)
    assert [problem.id for problem in problems] == ["mbpp/602", "mbpp/603"]
    assert account.dropped == {"repeated": 1}


# --- the account ---------------------------------------------------------------------------------


def test_the_account_has_a_line_for_each_reason(tmp_path):
    rows = [published.codeforces(f"{i}/A") for i in range(3)]
    rows += [published.codeforces(f"{i}/B", input_mode="file") for i in range(2)]
    rows += [published.codeforces("1/C", executable=False, official_tests_complete=False)]
    rows += [published.codeforces("1/D", official_tests_complete=False)]
    path = published.write_jsonl(tmp_path / "x.jsonl", rows)
    _, account = load_with_account("codeforces", "test", path)
    assert str(account).splitlines() == [
        "kept 4",
        "dropped 2: reads or writes a file",
        "dropped 1: not executable",
        "noted 1: official tests incomplete",
    ]


def test_load_prints_nothing_and_logs_one_line(tmp_path, caplog, capsys):
    rows = [published.codeforces(), published.codeforces("1/B", input_mode="file")]
    path = published.write_jsonl(tmp_path / "x.jsonl", rows)
    with caplog.at_level(logging.INFO, logger="maxk.data"):
        load("codeforces", "test", path)
    assert caplog.messages == ["codeforces test: kept 1; dropped 1: reads or writes a file"]
    assert capsys.readouterr() == ("", "")
