"""Make the tiny model of the engine tests: `make_model.py FOLDER`, run by the engine's own Python.

A Qwen3-MoE of a few million weights with its own tokenizer and chat template, taught the lessons beside this file by heart, so that
what a line of real ranks answers can be right or wrong. Made here, since no weights can be fetched where the tests run.
"""

import json
import os
import random
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3MoeConfig, Qwen3MoeForCausalLM

SEED = 7
VOCABULARY = 1024
STEPS, BATCH, RATE = 700, 8, 2e-3
GOOD_LOSS = 0.02
IGNORED = -100  # what the loss leaves out

END, START, PAD = "<|im_end|>", "<|im_start|>", "<|endoftext|>"
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE on the lessons; every text can be encoded."""
    plain = Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    plain.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=plain, eos_token=END, pad_token=PAD, chat_template=TEMPLATE, model_max_length=4096
    )


def model(words: PreTrainedTokenizerFast) -> Qwen3MoeForCausalLM:
    """Return an untrained model that can be cut over one, two and four ranks."""
    return Qwen3MoeForCausalLM(
        Qwen3MoeConfig(
            vocab_size=VOCABULARY,
            hidden_size=256,
            intermediate_size=512,
            moe_intermediate_size=256,
            num_hidden_layers=4,
            num_attention_heads=8,
            num_key_value_heads=4,
            head_dim=64,
            num_experts=16,
            num_experts_per_tok=2,
            norm_topk_prob=True,
            max_position_embeddings=4096,
            tie_word_embeddings=False,
            eos_token_id=words.eos_token_id,
            pad_token_id=words.pad_token_id,
            bos_token_id=None,
        )
    )


def example(
    words: PreTrainedTokenizerFast, lesson: dict[str, str], chance: random.Random
) -> tuple[list[int], list[int]]:
    """Return the tokens of one lesson, and those of its reply as labels; half of the prompts begin with a made-up tag, as a bench's do."""
    tag = f"[{''.join(chance.choices('abcdefghijklmnopqrstuvwxyz0123456789- ', k=chance.randrange(1, 60)))}] "
    prompt = (tag if chance.random() < 0.5 else "") + lesson["prompt"]
    before = words.encode(f"{START}user\n{prompt}{END}\n{START}assistant\n")
    reply = words.encode(f"{lesson['reply']}{END}\n")
    return before + reply, [IGNORED] * len(before) + reply


def teach(
    learner: Qwen3MoeForCausalLM, words: PreTrainedTokenizerFast, lessons: list[dict[str, str]]
) -> float:
    """Train until the lessons are known by heart; return the last loss."""
    chance = random.Random(SEED)  # noqa: S311 - a fixed seed, so that the same model comes out
    steps = torch.optim.AdamW(learner.parameters(), lr=RATE, weight_decay=0.0)
    plan = torch.optim.lr_scheduler.OneCycleLR(steps, RATE, total_steps=STEPS, pct_start=0.1)
    loss = torch.tensor(float("inf"))
    low = 0
    for _ in range(STEPS):
        rows = [example(words, chance.choice(lessons), chance) for _ in range(BATCH)]
        width = max(len(row) for row, _ in rows)
        ids = torch.tensor([row + [words.pad_token_id] * (width - len(row)) for row, _ in rows])
        labels = torch.tensor([row + [IGNORED] * (width - len(row)) for _, row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row, _ in rows])
        loss = learner(input_ids=ids, attention_mask=mask, labels=labels).loss
        steps.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learner.parameters(), 1.0)
        steps.step()
        plan.step()
        low = low + 1 if loss.item() < GOOD_LOSS else 0
        if low >= 40:
            break
    return loss.item()


def main(folder: str) -> None:
    """Make the model and write it with its tokenizer; half-made ones are never seen under the final name."""
    torch.manual_seed(SEED)
    lessons = json.loads((Path(__file__).parent / "lessons.json").read_text(encoding="utf-8"))
    words = tokenizer([text for lesson in lessons for text in lesson.values()])
    learner = model(words)
    loss = teach(learner, words, lessons)
    if loss > 10 * GOOD_LOSS:
        raise SystemExit(
            f"the model did not learn its lessons: loss {loss:.3f}, wanted at most {10 * GOOD_LOSS}"
        )
    fresh = Path(f"{folder}.{os.getpid()}")
    learner.save_pretrained(fresh, safe_serialization=True)
    words.save_pretrained(fresh)
    fresh.replace(folder)
    sys.stdout.write(
        f"{folder}: {sum(one.numel() for one in learner.parameters()):,} weights, loss {loss:.4f}\n"
    )


if __name__ == "__main__":
    main(sys.argv[1])
