"""Tiny models and data sets in the place of those on the hub that TRL's tests ask for.

The same architectures, with random weights and a tokenizer of characters.
"""

from pathlib import Path
from typing import Any

import torch
import transformers
from datasets import Dataset, DatasetDict
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

OWNER = "trl-internal-testing"
TEMPLATE = """{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content if message.content is string else '' }}{% for call in message.tool_calls or [] %}
<tool_call>
{{ (call.function or call) | tojson }}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
SIZES = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
}
EXPERTS = {"moe_intermediate_size": 16, "num_experts": 4, "num_experts_per_tok": 2}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "tiny-Qwen2ForCausalLM-2.5": ("Qwen2ForCausalLM", {}),
    "tiny-Qwen3ForCausalLM": ("Qwen3ForCausalLM", {"head_dim": 4}),
    "tiny-LlamaForCausalLM-3.2": ("LlamaForCausalLM", {}),
    "tiny-MistralForCausalLM-0.2": ("MistralForCausalLM", {}),
    "tiny-Gemma2ForCausalLM": ("Gemma2ForCausalLM", {"head_dim": 4}),
    "tiny-Cohere2ForCausalLM": ("Cohere2ForCausalLM", {}),
    "tiny-Qwen3MoeForCausalLM": ("Qwen3MoeForCausalLM", {"head_dim": 4, **EXPERTS}),
    "tiny-GptOssForCausalLM": (
        "GptOssForCausalLM",
        {"head_dim": 4, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "tiny-Glm4MoeForCausalLM": (
        "Glm4MoeForCausalLM",
        {"head_dim": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    ),
    "tiny-Qwen2ForSequenceClassification-2.5": ("Qwen2ForSequenceClassification", {}),
    "tiny-Qwen3ForSequenceClassification": (
        "Qwen3ForSequenceClassification",
        {"head_dim": 4},
    ),
    "tiny-LlamaForSequenceClassification-3.2": ("LlamaForSequenceClassification", {}),
}


def tokenizer() -> PreTrainedTokenizerFast:
    """Of characters, with a chat template that has tools."""
    special = [
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        "<tool_call>",
        "</tool_call>",
        "<unk>",
    ]
    letters = [chr(code) for code in range(32, 127)] + ["\n"]
    words = {word: i for i, word in enumerate([*special, *letters])}
    plain = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    plain.decoder = decoders.Fuse()
    plain.add_special_tokens([AddedToken(word, special=True) for word in special[:3]])
    made = PreTrainedTokenizerFast(
        tokenizer_object=plain,
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        unk_token="<unk>",
        model_input_names=["input_ids", "attention_mask"],
    )
    made.chat_template = TEMPLATE
    return made


def write_models(folder: Path) -> None:
    """Every model into a folder of its name."""
    words = tokenizer()
    for name, (architecture, more) in MODELS.items():
        to = folder / OWNER / name
        if (to / "config.json").exists():
            continue
        kind = getattr(transformers, architecture)
        torch.manual_seed(0)
        given = SIZES | more | {"vocab_size": len(words), "pad_token_id": 0, "eos_token_id": 2}
        if "Sequence" in architecture:
            given["num_labels"] = 1
        config = kind.config_class(**given, bos_token_id=None)
        kind(config).save_pretrained(to)
        words.save_pretrained(to)


def data(name: str, config: str | None = None) -> DatasetDict:
    """Prompts of ten words in each split, as text or as chat."""
    assert name == "zen", f"{name} has images, for which there is no tiny processor here"
    texts = [f"the rule number {i} of ten is to be" for i in range(10)]
    chat = config is not None and config.startswith("conversational")
    rows = [{"prompt": [{"role": "user", "content": t}] if chat else t} for t in texts]
    return DatasetDict({"train": Dataset.from_list(rows * 2), "test": Dataset.from_list(rows[:4])})
