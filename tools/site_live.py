"""The live sentence of the front page: the small trained model as one file for browsers, and a dozen sentences that are
translated already, with where each word looked. `site_libs/live/transformer.js` reads the model, which is packed with
gzip: the length of its header (4 bytes), the header in JSON, the low bytes of all 16-bit numbers, their high bytes,
then the 8-bit numbers. Bytes that are alike stand together: gzip finds more to save."""
import json
import zlib
from functools import cache

import torch

from transformer_nb.data.corpora import load_corpus
from transformer_nb.decode.translator import Translator
from transformer_nb.course.viewer import _asset, compact, to_words
from transformer_nb.parts.kernels import Int8Linear, linear_of

SENTENCES = [  # the first one stands on the first screen: German orders its words otherwise
    "did the tram depart last summer ?",
    "a dog runs .",
    "the child is not eating an apple .",
    "Paul is drawing three beautiful apple trees .",
    "the guests are trying to turn off their modern computers .",
    "because the thief is tired , he falls asleep .",
    "tomorrow a customer will thank my son .",
    "the postman has walked to the airport to photograph the parents .",
    "he is sending the old dresses to his sister .",
    "a mother must be kissed by my uncles .",
    "Julia wants to read her good magazines .",
    "the cook believes that Jakob picked our apple .",
]
END = "(end)"  # what a reader sees of </s>
SETTINGS = "N", "d_model", "h", "pad_id", "bos_id", "eos_id", "max_len"  # of the model that the browser must know
TRAINED_ON = 40_000  # pairs of the built-in corpus: their words are known


def parts_of(name, numbers):
    """What the browser needs of a tensor of the model: (place in the model, name of the part, numbers). A matrix is
    rounded by the package itself; the browser finds the scale of a row in its largest number. What is not rounded
    stays in 16 bits, as it is stored: the embedding too, for looking words up."""
    place, _, kind = name.rpartition(".")
    if numbers.dim() == 1:
        return [(place, kind, numbers.half())]
    if place == "embedding":
        return [(place, "exact", numbers.half())]
    whole, _ = torch.ops.quantized.linear_unpack(Int8Linear(linear_of(numbers)).packed)
    return [(place, "W", whole.int_repr()), (place, "largest", numbers.abs().amax(1).half())]


@cache
def corpus():
    "What the model was trained on, and sentences that it has not seen."
    return load_corpus("builtin", "en", "de", TRAINED_ON)


def known_words():
    "Every English word of the sentences that the model was trained on."
    return sorted({word for source, _ in corpus()["train"] for word in source.split()})


def packed_model(translator, words):
    "The file for browsers, as bytes: always the same for the same model."
    state = translator.model.float().state_dict()
    parts = [part for name, numbers in state.items() for part in parts_of(name, numbers)]
    bits = {torch.float16: 16, torch.int8: 8}
    header = dict(
        cfg={key: getattr(translator.cfg, key) for key in SETTINGS},
        pieces=translator.tokenizer.pieces(range(translator.cfg.vocab_size)),
        unk_id=translator.tokenizer.unk_id,
        words=words,
        tensors=[(place, part, bits[numbers.dtype], numbers.numel()) for place, part, numbers in parts],
    )
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    halves = torch.cat([numbers.flatten() for *_, numbers in parts if numbers.dtype == torch.float16])
    low, high = halves.view(torch.uint8).view(-1, 2).T
    whole = torch.cat([numbers.flatten() for *_, numbers in parts if numbers.dtype == torch.int8])
    return gzipped(len(text).to_bytes(4, "little") + text, *(rows.numpy().tobytes() for rows in (low, high, whole)))


def gzipped(*parts):
    "Text and numbers as one gzip file, each with codes of its own; what repeats in numbers is mostly chance: FILTERED."
    gzip = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS, 9, zlib.Z_FILTERED)
    return b"".join(gzip.compress(part) + gzip.flush(zlib.Z_FULL_FLUSH) for part in parts) + gzip.flush()


def told(translator, text):
    "A sentence that is translated already: words of both sides, and cross-attention between them in thousandths."
    maps = compact(to_words(translator.attention(text)))
    source, target = ([*maps[side][:-1], END] for side in ("source", "target"))
    return dict(text=text, source=source, target=target, cross=maps["cross"])


def stored_sentences(translator):
    "The file of the sentences that are translated already."
    return json.dumps([told(translator, text) for text in SENTENCES], ensure_ascii=False, separators=(",", ":"))


def write_live(folder, translator, words):
    "Write the model, the stored sentences and the arithmetic of the viewer, from which live.js takes that of words."
    (folder / "model.bin").write_bytes(packed_model(translator, words))
    (folder / "sentences.json").write_text(stored_sentences(translator), encoding="utf-8")
    (folder / "maps.js").write_text(_asset("maps.js") + "\nexport {mean, spell, toWords, wordsOf}\n", encoding="utf-8")


def add_live(out):
    "Write into the site's folder `out` what the live sentence fetches."
    write_live(out / "site_libs/live", Translator.from_pretrained("demo", int8=True), known_words())
