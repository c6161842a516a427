"""Run TRL's own GRPO tests with stock TRL and with MaxKTrainer: `make test-peer TRL=DIR`.

DIR is a checkout of TRL; nothing of it is kept here. Its file is run as it is, with two names
changed and its hub models replaced by tiny local ones. A test counts that stock TRL passes so.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.peer.hub import write_models

ROOT = Path(__file__).parents[2]
FILES = ("tests/__init__.py", "tests/testing_utils.py", "tests/test_grpo_trainer.py")
WHICH = {
    "stock": {},
    "grpo": {"PEER_METHOD": "grpo"},
    "off-policy-exact": {"PEER_METHOD": "off-policy-exact"},
    "bon-centered": {"PEER_METHOD": "bon-centered"},
    "grpo, pack_prompts": {"PEER_METHOD": "grpo", "PEER_PACK": "1"},
}


def run(trl: Path, out: Path, which: str, only: str) -> dict[str, tuple[str, str]]:
    """Of each test its outcome and its error."""
    work = out / "trl"
    for name in FILES:
        to = work / name.replace("tests/", "trl_tests/")
        to.parent.mkdir(parents=True, exist_ok=True)
        if (trl / name).exists():
            shutil.copy(trl / name, to)
        else:
            to.touch()
    seen = out / f"{which.replace(', ', '-')}.tsv"
    seen.unlink(missing_ok=True)
    env = {**os.environ, **WHICH[which], "PEER_HUB": str(out / "hub"), "PEER_OUT": str(seen)}
    env |= {"PYTHONPATH": f"{ROOT}:{work}", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    asked = ["-m", "pytest", "-q", "-p", "tests.peer.plugin", "-p", "no:cacheprovider"]
    asked += ["-c", os.devnull, "--rootdir", str(work), "-W", "ignore"]
    asked += ["-k", only, "trl_tests/test_grpo_trainer.py"]
    with (out / f"{seen.stem}.log").open("w") as log:
        subprocess.run([sys.executable, *asked], cwd=work, env=env, stdout=log, stderr=log)
    lines = [line.split("\t") for line in seen.read_text().splitlines()]
    return {name: (outcome, said) for name, outcome, said in lines}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("trl", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "peer")
    parser.add_argument("--with", dest="which", nargs="*", default=list(WHICH))
    parser.add_argument("-k", dest="only", default="TestGRPOTrainer and not VLM and not Slow")
    asked = parser.parse_args()
    out = asked.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    write_models(out / "hub")
    found = {name: run(asked.trl.resolve(), out, name, asked.only) for name in asked.which}
    passes = {name for name, (outcome, _) in found["stock"].items() if outcome == "passed"}
    print(f"stock TRL passes {len(passes)} of {len(found['stock'])}")
    skipped = Counter(said for outcome, said in found["stock"].values() if outcome == "skipped")
    for said, count in skipped.items():
        print(f"  {count} skipped: {said}")
    for which, outcomes in found.items():
        if which == "stock":
            continue
        other = {name for name in passes if outcomes.get(name, ("missing", ""))[0] != "passed"}
        print(f"{which}: {len(passes) - len(other)} of {len(passes)}")
        for name in sorted(other):
            outcome, said = outcomes.get(name, ("missing", ""))
            print(f"  {name}: {outcome}: {said}")


if __name__ == "__main__":
    main()
