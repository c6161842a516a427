"""Sample completions of problems into a run's folder.

    sampler = make("Qwen/Qwen2.5-Coder-0.5B-Instruct")
    run = Run.start("runs/mbpp", "sample", config)
    sample(load("mbpp", "test"), sampler, run, 256, Sampling(), grading=VerifierSettings())

Importing this imports neither torch nor pyarrow: what needs them is loaded when it is first used.

Back ends, and what can be repeated exactly:

- vllm: the default where vLLM is installed and there is a GPU. With ``seeds=True`` each sample, by
  its seed.
- transformers: otherwise; maxk's own engine (`maxk.sample.native`), on a CPU or one GPU. Every
  sample. ``graphs=True`` records each step as a CUDA graph, for small models on a GPU.
- openai: a server that speaks OpenAI's protocol. What the server does with its seed.

torch has a thread for each core, and waiting threads spin. Before two processes sample on the same
cores, set ``OMP_WAIT_POLICY=passive``; the command `maxk` does.
"""

import importlib.util
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from maxk.records import Completion
from maxk.sample.base import Request, Sampler, Sampling

if TYPE_CHECKING:
    from maxk.sample.run import Progress, sample
    from maxk.sample.shards import join, shard_of

__all__ = [
    "Backend",
    "Completion",
    "Progress",
    "Request",
    "Sampler",
    "Sampling",
    "choose",
    "join",
    "make",
    "sample",
    "shard_of",
]

Backend = Literal["auto", "vllm", "transformers", "openai"]

_MODULES = {
    "Progress": "maxk.sample.run",
    "join": "maxk.sample.shards",
    "sample": "maxk.sample.run",
    "shard_of": "maxk.sample.shards",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def choose(backend: Backend = "auto", base_url: str | None = None) -> Backend:
    """The back end that "auto" stands for: a server if its address is given, then vLLM."""
    if base_url is not None and backend not in ("auto", "openai"):
        raise ValueError(f"base_url={base_url!r} goes with backend='openai', not {backend!r}")
    if backend == "openai" and base_url is None:
        raise ValueError(
            "backend='openai' needs base_url; give one such as http://localhost:8000/v1"
        )
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
        raise ImportError("backend='transformers' needs: pip install 'maxk[train]'")
    from maxk.sample.native.engine import TransformersSampler

    return TransformersSampler(model, **options)
