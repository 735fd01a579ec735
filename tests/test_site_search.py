"""What readers ask the search of the built site, and what must come first. Whoever adds a page or changes a weight sees
here what it does to the others: `make docs`, then `pytest tests/test_site_search.py --slow`."""
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
pytest.importorskip("selenium")
from browser import served

QUESTIONS = {  # and the beginning of the first address that is shown; several where each would do
    "beam_search": "decode/search.html#beam_search",
    "from_pretrained": "transformer.html#transformer.from_pretrained decode/translator.html#translator.from_pretrained",
    "Translator.translate": "decode/translator.html#translator.translate",
    "why divide by sqrt d_k": "attention.html#why-divide",
    "train on my own data": "index.html#train-on-your-own-data",
    "label smoothing": "regularization.html#",
    "install": "index.html#install",
    "GPU": "index.html table2.html#what-a-day-on-a-gpu-costs",
    "exercise 01.4": "attention.html#exercise-01.4",
    "lesson 05": "positional_encoding.html",
    "license": "index.html#licence",
    "atention": "attention.html",
    "transformr": "transformer.html",
    "query": "attention.html#",
    "softmax": "embeddings.html",
    "causal mask": "attention.html#",
    "masks": "attention.html#masks",
    "layer norm": "norms.html transformer.html#",
    "residual": "transformer.html#",
    "warmup": "optimizer.html#",
    "learning rate": "optimizer.html training.html#the-learning-rate",
    "dropout": "regularization.html#dropout",
    "tokenizer": "tokenizer.html",
    "BPE": "tokenizer.html",
    "BLEU": "evaluation.html table2.html",
    "perplexity": "training.html# regularization.html#",
    "average checkpoints": "averaging.html",
    "multi-head attention": "multihead.html",
    "positional encoding": "positional_encoding.html",
    "KV cache": "parts/inference.html#kvcache",
    "how long does training take": "training.html",
    "Table 3": "variations.html",
    "parsing": "parsing.html",
    "ONNX": "serving.html",
    "colab": "overview.html index.html",
    "glossary": "glossary.html",
    "claims": "claims.html",
    "tnb-train": "cli.html",
    "backpropagation": "overview.html embeddings.html#gradients",
    "バッチ": "batching.html",
    "位置エンコーディング": "languages/ja/positional_encoding.html positional_encoding.html",
    "ソフトマックス": "glossary.html languages/ja/",
    "注意力": "languages/zh/attention.html attention.html",
    "标签平滑": "regularization.html",
    "为什么除以根号": "languages/zh/attention.html#",
    "残差连接": "languages/zh/transformer.html# norms.html",
    "위치 인코딩": "languages/ko/positional_encoding.html positional_encoding.html",
    "어텐션": "languages/ko/attention.html attention.html",
    "학습률": "optimizer.html languages/ko/norms.html#각각이-견디는-학습률",
}
RESULTS = "document.querySelector('.search-results')"


@pytest.fixture(scope="module")
def front(browser):
    "The front page of the site."
    with served(ROOT / "_docs") as address:
        browser.open(f"{address}/index.html")
        yield browser


def asked(front, question):
    "Where the results lead when a reader has typed this."
    front.execute_script(f"{RESULTS}.querySelector('p').textContent = ''")
    front.play("""const input = document.querySelector('.site-search input')
    input.value = arguments[0]
    input.dispatchEvent(new Event('input'))""", question)
    front.until(f"{RESULTS}.querySelector('p').textContent")
    return front.run(f"[...{RESULTS}.querySelectorAll('a')].map(link => link.getAttribute('href').replace('./', ''))")


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / "_docs/index.html").exists(), reason="the site is not built: make docs")
@pytest.mark.parametrize("question, answers", QUESTIONS.items())
def test_what_readers_ask_is_answered_first(front, question, answers):
    found = asked(front, question)
    assert found and found[0].startswith(tuple(answers.split())), found[:4]
