"""Sample with vLLM in this process: the default where there is a GPU.

A problem is one request, or a few if it has many samples, so that completions come out while others
are still being sampled; vLLM reads their prompt once (prefix caching). A request for n samples with
seed s gives its samples the seeds s, s + 1, ..., as `seed_of` assumes. Tokens are decoded when a
completion is done: vLLM would decode token by token, which takes longer than a small model does.

vLLM returns log-probabilities at temperature 1, and no entropy.
"""

import importlib
import importlib.util
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, NamedTuple

from maxk.pocket import resolve
from maxk.records import Completion
from maxk.sample.base import Request, Sampling, prompt_ids, runs_of, seed_of, text_of
from maxk.sample.models import adapter_of, unpack

_ROWS = 2048  # sampled at a time
_REQUEST = 64  # samples of one request
_DRAIN = 4  # steps after which vLLM holds nothing of requests that have ended
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # ranks of adapters that vLLM is built for


class _Part(NamedTuple):
    """One request to vLLM."""

    problem: str
    prompt: list[int]
    samples: tuple[int, ...]


class VllmSampler:
    """A model behind vLLM.

    model: a folder, a name on the hub, a LoRA adapter in a folder, or a GGUF file. batch: rows at a
    time. seeds: a random stream per sample, so that any completion can be repeated. logprobs: of
    every completion. Both are off by default: each halves the speed or worse.
    engine: further arguments of vllm.LLM, such as gpu_memory_utilization=0.5.
    """

    def __init__(
        self,
        model: str,
        *,
        batch: int | None = None,
        seeds: bool = False,
        logprobs: bool = False,
        **engine: Any,
    ) -> None:
        if importlib.util.find_spec("vllm") is None:
            raise ImportError("backend='vllm' needs: pip install 'maxk[vllm]'")
        self.seeds, self.logprobs, self.batch = seeds, logprobs, batch or _ROWS
        model = resolve(model)
        adapter = adapter_of(model)
        self.lora = None
        if adapter:
            requests: Any = importlib.import_module("vllm.lora.request")
            self.lora = requests.LoRARequest("adapter", 1, model)
            rank = next((rank for rank in _RANKS if rank >= adapter["r"]), adapter["r"])
            engine = {"enable_lora": True, "max_lora_rank": rank, **engine}
            model = adapter["base_model_name_or_path"]
        if model.endswith(".gguf"):  # newer vLLM does not read them
            folder = tempfile.mkdtemp(prefix="maxk-")
            weakref.finalize(self, shutil.rmtree, folder)
            unpack(model, folder)
            model = folder
        chosen = {
            "enable_prefix_caching": True,
            "max_num_seqs": self.batch,
            # By default vLLM makes graphs for up to 512 rows, and is slow with more.
            "compilation_config": {"max_cudagraph_capture_size": self.batch},
            **engine,
        }
        if not seeds:
            # vLLM starts every process with the same seed: a continued run would draw the same
            # completions again.
            chosen = {"seed": secrets.randbits(31), **chosen}
        self.vllm: Any = importlib.import_module("vllm")
        self.llm = self.vllm.LLM(model=model, **chosen)
        self.tokenizer: Any = self.llm.get_tokenizer()

    def load(self, weights: Iterable[tuple[str, Any]]) -> None:
        """Sample with these weights from now on: names and tensors as transformers has them.

        They are copied into the engine's weights and cast to their dtype. Cached prompts are
        dropped. Call it only between calls of `sample`.
        """
        pairs = list(weights)
        self.llm.apply_model(lambda model: model.load_weights(iter(pairs)))
        for _ in range(_DRAIN):
            if self.llm.reset_prefix_cache():
                return
            self.llm.llm_engine.step()
        raise RuntimeError("vLLM still caches prompts that the old weights have read")

    def sample(self, requests: Iterable[Request], settings: Sampling) -> Iterator[Completion]:
        """Every sample of every request; those of one request come together."""
        engine: Any = self.llm.llm_engine
        waiting = iter(self._parts(requests, settings))
        running: dict[str, _Part] = {}
        names = (f"maxk-{number}" for number in count())
        try:
            while True:
                # Twice the batch, so that the engine is never idle and its queue stays short.
                while sum(len(part.samples) for part in running.values()) < 2 * self.batch:
                    part = next(waiting, None)
                    if part is None:
                        break
                    name = next(names)
                    engine.add_request(
                        name,
                        {"prompt_token_ids": part.prompt},
                        self._params(part, settings),
                        lora_request=self.lora,
                    )
                    running[name] = part
                if not running:
                    return
                for output in engine.step():
                    if output.finished:
                        yield from self._completions(running.pop(output.request_id), output)
        finally:
            if running:  # stopped in the middle
                engine.abort_request(list(running))

    def _parts(self, requests: Iterable[Request], settings: Sampling) -> list[_Part]:
        parts: list[_Part] = []
        longest = self.llm.llm_engine.model_config.max_model_len
        for request in requests:
            prompt = prompt_ids(self.tokenizer, request.prompt, settings.chat)
            if len(prompt) >= longest:  # vLLM would refuse it in the middle of the run
                raise ValueError(
                    f"problem {request.problem!r} has a prompt of {len(prompt)} tokens; the model "
                    f"takes {longest} with the completion"
                )
            for samples in runs_of(request.samples, _REQUEST):
                parts.append(_Part(request.problem, prompt, samples))
        return parts

    def _params(self, part: _Part, settings: Sampling) -> Any:
        kinds: Any = importlib.import_module("vllm.sampling_params").RequestOutputKind
        seed = seed_of(settings.seed, part.problem, part.samples[0])
        return self.vllm.SamplingParams(
            n=len(part.samples) if settings.temperature else 1,  # vLLM refuses n > 1 otherwise
            temperature=settings.temperature,
            top_p=settings.top_p,
            max_tokens=settings.max_tokens,
            seed=seed if self.seeds and settings.temperature else None,
            logprobs=0 if self.logprobs else None,
            detokenize=False,
            output_kind=kinds.FINAL_ONLY,
        )

    def _completions(self, part: _Part, output: Any) -> Iterator[Completion]:
        found = {one.index: one for one in output.outputs}
        for i, sample in enumerate(part.samples):
            one = found[i if len(found) > 1 else 0]
            ids = list(one.token_ids)
            stopped = one.finish_reason != "length"
            yield Completion(
                part.problem,
                sample,
                text_of(self.tokenizer, part.prompt, ids[:-1] if stopped else ids),
                len(ids),
                "stop" if stopped else "length",
                one.cumulative_logprob if self.logprobs else None,
                ids=tuple(ids),
            )
