"""The live sentence of the front page: the small trained model as one file for browsers, and a dozen sentences that are
translated already, with where each word looked. `site_libs/live/transformer.js` reads the model, which is packed with
gzip: the length of its header (4 bytes), the header in JSON, float32 numbers, then 8-bit ones."""
import gzip
import json
import warnings

import torch

from transformer_nb.attention_maps import to_words
from transformer_nb.corpora import load_corpus
from transformer_nb.translation import Translator

SENTENCES = [  # short ones, then those in which German orders words otherwise
    "a dog runs .",
    "the child is not eating an apple .",
    "Paul is drawing three beautiful apple trees .",
    "the guests are trying to turn off their modern computers .",
    "because the thief is tired , he falls asleep .",
    "tomorrow a customer will thank my son .",
    "the postman has walked to the airport to photograph the parents .",
    "he is sending the old dresses to his sister .",
    "did the tram depart last summer ?",
    "a mother must be kissed by my uncles .",
    "Julia wants to read her good magazines .",
    "the cook believes that Jakob picked our apple .",
]
SETTINGS = "N", "d_model", "h", "pad_id", "bos_id", "eos_id", "max_len"  # of the model that the browser must know
TRAINED_ON = 40_000  # pairs of the built-in corpus: their words are known


def rounded(matrix):
    "A matrix in 8 bits, as `engine.products.Int8Linear` rounds it: whole numbers, and the largest number of each row."
    largest = matrix.abs().amax(1).clamp(min=1e-9)
    scale = largest/127
    zeros = torch.zeros(len(matrix), dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch means to replace this type one day
        return torch.quantize_per_channel(matrix, scale.double(), zeros, 0, torch.qint8).int_repr(), largest


def parts_of(name, numbers):
    "What the browser needs of a tensor of the model: (place in the model, name of the part, numbers)."
    place, _, kind = name.rpartition(".")
    if numbers.dim() == 1:
        return [(place, kind, numbers)]
    if place == "embedding":  # as it is stored, in 16 bits, for looking words up; the browser rounds it for products
        low, high = numbers.half().view(torch.uint8).view(-1, 2).T.contiguous()
        return [(place, "low", low), (place, "high", high)]
    W, largest = rounded(numbers)
    return [(place, "W", W), (place, "largest", largest)]


def known_words():
    "Every English word of the sentences that the model was trained on."
    pairs = load_corpus("builtin", "en", "de", TRAINED_ON)["train"]
    return sorted({word for source, _ in pairs for word in source.split()})


def packed_model(translator, words):
    "The file for browsers, as bytes: always the same for the same model."
    state = translator.model.float().state_dict()
    parts = [part for name, numbers in state.items() for part in parts_of(name, numbers)]
    parts.sort(key=lambda part: part[2].dtype != torch.float32)  # these stand at multiples of 4 bytes
    kinds = {torch.float32: "float32", torch.int8: "int8", torch.uint8: "uint8"}
    header = dict(
        cfg={key: getattr(translator.cfg, key) for key in SETTINGS},
        pieces=translator.tokenizer.pieces(range(translator.cfg.vocab_size)),
        unk_id=translator.tokenizer.unk_id,
        words=words,
        tensors=[(place, part, kinds[numbers.dtype], numbers.numel()) for place, part, numbers in parts],
    )
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" "*(-len(text) % 4)
    numbers = b"".join(numbers.numpy().tobytes() for _, _, numbers in parts)
    return gzip.compress(len(text).to_bytes(4, "little") + text + numbers, mtime=0)


def told(translator, text):
    "A sentence that is translated already: words of both sides, and cross-attention between them in thousandths."
    maps = to_words(translator.attention(text))
    translation, = translator.translate([text])
    cross = (1000*maps["cross"]).round().int().tolist()
    return dict(text=text, translation=translation, source=maps["source"], target=maps["target"], cross=cross)


def stored_sentences(translator):
    "The file of the sentences that are translated already."
    return json.dumps([told(translator, text) for text in SENTENCES], ensure_ascii=False, separators=(",", ":"))


def add_live(out):
    "Write into the site's folder `out` what the live sentence fetches."
    folder, translator = out / "site_libs/live", Translator.from_pretrained("demo", int8=True)
    (folder / "model.bin").write_bytes(packed_model(translator, known_words()))
    (folder / "sentences.json").write_text(stored_sentences(translator), encoding="utf-8")
