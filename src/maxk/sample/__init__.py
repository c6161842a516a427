"""Prompts in, completions in a run's folder out.

    sampler = make("Qwen/Qwen2.5-Coder-0.5B-Instruct")
    run = Run.start("runs/mbpp", "sample", config)
    sample(load("mbpp", "test"), sampler, run, 256, Settings(), grading=VerifierSettings())

Importing this does not import torch; making a back end does.
"""

import importlib.util
from typing import Any, Literal

from maxk.grade.parallel import grade_run
from maxk.records import Completion
from maxk.sample.base import Request, Sampler, Settings
from maxk.sample.run import Progress, sample
from maxk.sample.shards import merge, share
from maxk.store.tables import problems_of
from maxk.verify import VerifierSettings

__all__ = [
    "Backend",
    "Completion",
    "Progress",
    "Request",
    "Sampler",
    "Settings",
    "VerifierSettings",
    "choose",
    "grade_run",
    "make",
    "merge",
    "problems_of",
    "sample",
    "share",
]

Backend = Literal["auto", "vllm", "transformers", "openai"]


def choose(backend: Backend = "auto", base_url: str | None = None) -> Backend:
    """The back end that "auto" means here: a server if its address is given, then vLLM."""
    if base_url is not None and backend not in ("auto", "openai"):
        raise ValueError(f"base_url={base_url!r} goes with backend='openai', not {backend!r}")
    if backend == "openai" and base_url is None:
        raise ValueError("backend='openai' needs base_url, such as http://localhost:8000/v1")
    if backend != "auto":
        return backend
    if base_url is not None:
        return "openai"
    if importlib.util.find_spec("vllm") is not None:
        import torch

        if torch.cuda.is_available():
            return "vllm"
    return "transformers"


def make(
    model: str, backend: Backend = "auto", base_url: str | None = None, **options: Any
) -> Sampler:
    """A sampler of a model: "pocket", a folder, a name on the hub, a LoRA adapter, a GGUF file.

    options: of the back end, such as batch=128 or, for a server, concurrency=64.
    """
    chosen = choose(backend, base_url)
    if chosen == "openai":
        from maxk.sample.openai_ import OpenAISampler

        assert base_url is not None
        return OpenAISampler(model, base_url, **options)
    if chosen == "vllm":
        from maxk.sample.vllm_ import VllmSampler

        return VllmSampler(model, **options)
    if importlib.util.find_spec("transformers") is None:
        raise ImportError("the back end transformers needs: pip install 'maxk[train]'")
    from maxk.sample.native.engine import TransformersSampler

    return TransformersSampler(model, **options)
