"""The two ways to sample: one vLLM for all cells, or transformers where there is no GPU."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from safetensors.torch import load_file

from maxk.pocket import resolve
from maxk.sample import Sampler
from maxk.sample.native.engine import TransformersSampler
from maxk.sample.vllm_ import VllmSampler

Kind = Literal["vllm", "transformers"]
FUSED = {  # vLLM's name of the weights that it keeps as one
    **dict.fromkeys(("q_proj", "k_proj", "v_proj"), "qkv_proj"),
    **dict.fromkeys(("gate_proj", "up_proj"), "gate_up_proj"),
}


def weights_of(folder: str | Path) -> Iterator[tuple[str, Any]]:
    """Names and tensors of a model that was saved."""
    files = sorted(Path(folder).glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"{folder} holds no model: it has no .safetensors file")
    for file in files:
        yield from load_file(file).items()


class TransformersEngine:
    """maxk's own sampling: a sampler for each model, kept until another is asked for.

    options: of TransformersSampler, in training too.
    """

    kind: Kind = "transformers"
    vllm = None

    def __init__(self, options: dict[str, Any] | None = None) -> None:
        self.options = options or {}
        self.loaded: str | None = None
        self.made: TransformersSampler | None = None

    def sampler(self, folder: str | Path) -> Sampler:
        if self.loaded != str(folder) or self.made is None:
            self.forget()
            self.made = TransformersSampler(str(folder), **self.options)
            self.loaded = str(folder)
        return self.made

    def forget(self) -> None:
        """Before a training, which needs the memory."""
        self.loaded = self.made = None


class VllmEngine:
    """One vLLM, whose weights are exchanged."""

    kind: Kind = "vllm"

    def __init__(self, model: str, options: dict[str, Any]) -> None:
        self.vllm = VllmSampler(model, **options)
        self.loaded: str | None = None  # the model whose weights it has; None: those of a training

    def sampler(self, folder: str | Path) -> Sampler:
        """The engine with the weights of this model in it."""
        if self.loaded != str(folder):
            self.vllm.load(weights_of(resolve(str(folder))))
            self.loaded = str(folder)
        return self.vllm

    def forget(self) -> None:
        """Before a training, which puts other weights into it."""
        self.loaded = None

    def difference(self, folder: str | Path) -> float:
        """The largest difference between a weight in the engine and the saved one, as it rounds."""
        saved = weights_of(resolve(str(folder)))
        (largest,) = self.vllm.llm.apply_model(
            lambda model: largest_difference(dict(model.named_parameters()), saved)
        )
        return largest


def largest_difference(there: dict[str, Any], saved: Iterator[tuple[str, Any]]) -> float:
    """Between the weights of a vLLM model, some of which are several in one, and saved ones."""
    largest, rows = 0.0, {}
    for name, wanted in sorted(saved, key=lambda pair: order_of(pair[0])):
        if name == "lm_head.weight" and name not in there:
            continue  # it is the embedding
        known, fused = fused_name(name)
        begin = rows.get(known, 0) if fused else 0
        rows[known] = begin + len(wanted)
        found = there[known][begin : begin + len(wanted)]  # vLLM pads the embedding
        gap = (found.float() - wanted.to(found.device, found.dtype).float()).abs().max()
        largest = max(largest, float(gap))
    for name, end in rows.items():
        if len(there[name]) != end and "embed" not in name and "lm_head" not in name:
            raise ValueError(f"{name} has {len(there[name])} rows in the engine, {end} saved")
    return largest


def fused_name(name: str) -> tuple[str, bool]:
    """
    >>> fused_name("model.layers.0.self_attn.k_proj.bias")
    ('model.layers.0.self_attn.qkv_proj.bias', True)
    """
    *parts, module, kind = name.split(".")
    return ".".join([*parts, FUSED.get(module, module), kind]), module in FUSED


def order_of(name: str) -> tuple[str, int]:
    """Parts of one weight in the order in which vLLM has them."""
    known, fused = fused_name(name)
    return known, list(FUSED).index(name.split(".")[-2]) if fused else 0
