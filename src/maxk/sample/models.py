"""Load a model and its tokenizer: "pocket", a folder, a name on the hub, an adapter, GGUF."""

import contextlib
import difflib
import importlib.util
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from maxk.pocket import NAME as POCKET
from maxk.pocket import resolve
from maxk.prompts import messages, with_variant
from maxk.records import Problem
from maxk.sample.base import plain
from maxk.store import hub

ADAPTER = "adapter_config.json"
_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+")
_KINDS = "a folder, a name on the hub, a GGUF file, or pocket, the model that comes with maxk"


@contextlib.contextmanager
def found(model: str) -> Iterator[str]:
    """Where a model is to be loaded from; an error in the block says what is wrong with its name.

    Where the hub cannot be reached its cache is used at once.
    """
    place = resolve(model)
    here = Path(place).exists()
    if not here and not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", model):
        raise FileNotFoundError(f"the model {model} is missing; give {_KINDS}")
    reachable = here or hub.reachable()
    try:
        if not reachable and not in_cache(model):
            raise FileNotFoundError(model)  # known without the seconds that transformers takes
        yield place
    except ImportError:
        raise
    except (OSError, ValueError) as error:
        if here and model == place:
            why = str(error).strip().partition("\n")[0]
            raise OSError(f"the model in {model} cannot be loaded: {why}; give {_KINDS}") from None
        if here:
            raise
        close = difflib.get_close_matches(model, [POCKET], 1)
        fix = f"did you mean {POCKET}?" if close else f"give {_KINDS}"
        why = "it is no folder here, and the hub does not have it"
        if not reachable:
            why = "it is no folder here, the hub cannot be reached, and its cache does not have it"
        raise OSError(f"the model {model!r} cannot be had: {why}; {fix}") from None


def in_cache(model: str) -> bool:
    """Whether the hub's cache has a model; True if it cannot be asked."""
    if importlib.util.find_spec("huggingface_hub") is None:
        return True
    from huggingface_hub import try_to_load_from_cache

    return any(try_to_load_from_cache(model, name) for name in ("config.json", ADAPTER))


def too_long(
    model: str, problems: Sequence[Problem], prompt_variants: Sequence[str] = ()
) -> tuple[int, dict[str, int]]:
    """The positions of a model, and the problems whose prompts leave none free, with their tokens.

    Only for a model in a folder: its weights and transformers take seconds to load, its tokenizer
    does not. The tokens of the chat template are not counted.
    """
    folder = Path(resolve(model))
    files = [folder / name for name in ("config.json", "tokenizer.json")]
    if not all(file.exists() for file in files) or importlib.util.find_spec("tokenizers") is None:
        return 0, {}
    from tokenizers import Tokenizer

    positions = json.loads(files[0].read_text("utf-8")).get("max_position_embeddings")
    if not positions:
        return 0, {}
    tokenizer = Tokenizer.from_file(str(files[1]))
    tokenizer.no_truncation()
    longest = max(prompt_variants, key=len, default="")
    texts = [plain(with_variant(messages(problem), longest)) for problem in problems]
    lengths = [len(each.ids) for each in tokenizer.encode_batch(texts)]
    return positions, {
        problem.id: length
        for problem, length in zip(problems, lengths, strict=True)
        if length >= positions
    }


def adapter_of(model: str) -> dict[str, Any] | None:
    """The settings of a LoRA adapter in a folder or on the hub; None for other models."""
    path: str | Path | None = Path(model) / ADAPTER
    if _ON_HUB.fullmatch(model) and not Path(model).exists():
        from transformers.utils.peft_utils import find_adapter_config_file

        path = find_adapter_config_file(model)
    return json.loads(Path(path).read_text("utf-8")) if path and Path(path).exists() else None


def load(model: str, *, device: str | None = None, dtype: str | None = None) -> tuple[Any, Any]:
    """The model, ready to sample, and its tokenizer.

    An adapter is merged into its base model. dtype: default, float32 on a CPU and what the weights
    are stored in on a GPU.
    """
    with found(model) as place:
        return _load(place, device, dtype)


def _load(model: str, device: str | None, dtype: str | None) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = dtype or ("float32" if device == "cpu" else "auto")
    adapter = adapter_of(model)
    base = adapter["base_model_name_or_path"] if adapter else model
    where: dict[str, Any] = {}
    if base.endswith(".gguf"):
        if importlib.util.find_spec("gguf") is None:
            raise ImportError(f"{base} is a GGUF file; to read it: pip install gguf")
        base, where["gguf_file"] = str(Path(base).parent), Path(base).name
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        base, dtype=dtype, **where, **_dequantized(where)
    )
    if adapter:
        loaded = with_adapter(loaded, model)
        if (Path(model) / "tokenizer_config.json").exists():
            base, where = model, {}
    tokenizer = AutoTokenizer.from_pretrained(base, **where)
    return loaded.to(device).eval(), tokenizer


def _dequantized(where: dict[str, Any]) -> dict[str, Any]:
    """The argument with which newer transformers unpack a GGUF file, as older ones always do."""
    import transformers

    if "gguf_file" not in where or not hasattr(transformers, "GgufConfig"):
        return {}
    return {"quantization_config": transformers.GgufConfig(dequantize=True)}


def with_adapter(loaded: Any, folder: str) -> Any:
    """The model with an adapter merged into its weights."""
    if importlib.util.find_spec("peft") is None:
        raise ImportError(f"{folder} is a LoRA adapter; to read it: pip install peft")
    from peft import PeftModel

    return PeftModel.from_pretrained(loaded, folder).merge_and_unload()


def unpack(gguf: str, folder: str) -> None:
    """Write the model of a GGUF file as safetensors, in bfloat16."""
    loaded, tokenizer = load(gguf, device="cpu", dtype="bfloat16")
    loaded.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
