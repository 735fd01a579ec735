"""The public face as other people's code uses it. Nothing runs this: a type checker reads it (tests/test_typing.py).

A line that must be refused carries `pyright: ignore`, and one too many of these is an error itself."""
from pathlib import Path
from typing import assert_type

import torch
from torch import Tensor

from transformer_nb import Tokenizer, Trainer, TrainingConfig, Transformer, TransformerConfig, Translator, preset, show
from transformer_nb.attention import additive_attention, attention, causal_mask, padding_mask
from transformer_nb.checkpoints import average, load, save
from transformer_nb.data.tokenizer import TokenizerLike, register_tokenizer
from transformer_nb.decode.search import beam_search
from transformer_nb.multihead import MultiHeadAttention
from transformer_nb.positional_encoding import sinusoids
from transformer_nb.train.callbacks import EMA, default_callbacks


def the_model_of_section_3(q: Tensor, k: Tensor, v: Tensor, ids: Tensor):
    out, weights = attention(q, k, v, causal_mask(q.shape[-2]))
    assert_type(out, Tensor)
    assert_type(weights, Tensor)
    out, weights = additive_attention(q, k, q[0], k[0], v[0], v)
    heads = MultiHeadAttention(512, 8, d_k=32, bias=True)
    out, looked = heads.forward(q, k, v, padding_mask(ids, pad_id=0), need_weights=True)
    assert_type(out, Tensor)
    assert_type(looked, Tensor | None)
    assert_type(heads.split(heads.W_q(q)), Tensor)
    assert_type(sinusoids(100, 512), Tensor)
    heads.forward(q, k, v, need_weight=True)  # pyright: ignore[reportCallIssue]


def a_model(src: Tensor, tgt: Tensor):
    cfg = preset("base", vocab_size=37_000)
    assert_type(cfg, TransformerConfig)
    assert_type(cfg.d_model, int)
    cfg.d_model = 256  # pyright: ignore[reportAttributeAccessIssue]
    model = Transformer(cfg)
    assert_type(model.encode(src), Tensor)
    assert_type(model.decode(tgt, model.encode(src), src), Tensor)
    assert_type(model.forward(src, tgt), Tensor)  # torch says Any of model(src, tgt)
    assert_type(model.cfg, TransformerConfig)
    assert_type(Transformer.from_pretrained("runs/demo"), Transformer)
    model.encode(src, tgt)  # pyright: ignore[reportCallIssue]
    beam_search(model, src, beam=4, alpha=0.6)


def a_translator(texts: list[str]):
    t = Translator.from_pretrained("runs/mine", device="auto", dtype="auto", int8=False)
    assert_type(t, Translator)
    german: list[str] = t.translate(texts, beam=4, alpha=0.6)
    one: str = t.translate(texts[0], max_new_tokens=20)
    print(one, t.score(texts[0], one, alpha=0.6) + 1)
    for hypotheses in t.nbest(texts, n=4):
        for h in hypotheses:
            print(h.text.upper(), h.score + 1, len(h.tokens))
    drawn: list[str] = t.sample(texts, temperature=1.0, top_k=0, top_p=1.0, seed=0)
    nats: list[float] = t.score(texts, german)
    t.align(texts, german)
    t.attention("a dog runs .")
    show(t, "a dog runs .").save(Path("maps.html"))
    t.translat(texts)  # pyright: ignore[reportAttributeAccessIssue]
    t.translate(texts, bean=4)  # pyright: ignore[reportCallIssue]
    return drawn, nats, t.model.eval()


def a_run(pairs: list[tuple[list[int], list[int]]], tokenizer: Tokenizer, out: Path):
    model = Transformer(preset("tiny", vocab_size=tokenizer.vocab_size))
    cfg = TrainingConfig(steps=100, batch_tokens=4096, dtype="auto", minutes=None)
    trainer = Trainer(model=model, tokenizer=tokenizer, train=pairs, val=pairs[:10], cfg=cfg, out=out)
    trainer.fit(quiet=True)
    assert_type(trainer.model, Transformer)
    assert_type(trainer.step, int)
    def adamw(model: torch.nn.Module) -> torch.optim.Optimizer: return torch.optim.AdamW(model.parameters())
    Trainer(model, train=pairs, cfg=cfg, out=out, optimizer=adamw, schedule=lambda step: 1 / step,
        callbacks=[*default_callbacks(cfg), EMA(0.999)])
    trainer.fit(loud=True)  # pyright: ignore[reportCallIssue]
    TrainingConfig(step=100)  # pyright: ignore[reportCallIssue]
    found = load(out)
    average([out / "step-0000050", out / "step-0000100"], out / "mean")
    save(out / "last", found.model, tokenizer)
    return found.model.to(torch.device("cpu"))


class Letters(TokenizerLike):
    pad_id, bos_id, eos_id, unk_id, vocab_size = 0, 1, 2, 3, 30

    def __init__(self, model: bytes): self.model = model
    def encode(self, texts: list) -> list: return [[3] for _ in texts]
    def decode(self, ids: list) -> list: return ["" for _ in ids]
    def pieces(self, ids: list) -> list: return ["" for _ in ids]


def a_tokenizer_of_ones_own(path: Path):
    register_tokenizer(Letters, Letters)
    assert_type(load(path).tokenizer, TokenizerLike | None)
