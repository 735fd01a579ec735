"""Makes the small trained model that ships with the package: `python tools/build_demo_model.py`, 13 minutes of a core.

The run is bounded by steps and fixed by its seed, so that it can be made again. Its weights are stored as float16;
the scores in training.json are those of the stored weights, read back as a user reads them. What is true of this
model may be true of this one seed alone: `python tools/build_demo_model.py FOLDER 1` makes another by the same recipe.
"""
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from transformer_nb import checkpoints, cli
from transformer_nb.data.corpora import load_corpus
from transformer_nb.decode.translator import Translator

PLACE = Path(__file__).resolve().parent.parent/'transformer_nb'/'assets'/'demo'
MOST = 3_500_000  # bytes of the whole directory
SETTINGS = dict(
    preset='tiny', norm='pre', dropout=0., vocab_size=2000, corpus_size=40_000, batch_tokens=1536, warmup=200,
    lr_scale=.8, steps=3000, save_every=250, seed=0, device='cpu', dtype='float32', threads=1,
)
# of what the run says of itself
KEPT = ('data', 'src', 'tgt', 'corpus_size', 'preset', 'pairs', 'step', 'averaged', 'writing')


def scores(place:Path) -> dict:
    "BLEU and chrF with their signatures on the splits that the model was not trained on."
    corpus = load_corpus('builtin', 'en', 'de', SETTINGS['corpus_size'])
    return cli._scores(Translator.from_pretrained(place, 'cpu'), {name: corpus[name] for name in ('test', 'unseen')})


def ship(run:Path, place:Path, settings:dict):
    "Store the average of a run as float16, score what is stored, and store the scores with it."
    found = checkpoints.load(run)
    about = {name: found.training[name] for name in KEPT} | {
        'minutes': round(found.training['seconds']/60, 1),
        'settings': settings,
    }
    model = found.model.half()
    checkpoints.save(place, model, found.tokenizer, about)
    about['scores'] = scores(place)
    checkpoints.save(place, model, found.tokenizer, about)
    size = sum(file.stat().st_size for file in place.iterdir())
    print(f"{place}: {size:,} bytes, {about['scores']}", file=sys.stderr)
    if size > MOST: sys.exit(f"{place}: more than {MOST:,} bytes; take a smaller vocabulary")


def main(place:str|Path=PLACE, seed:str|int=SETTINGS['seed']):
    "Train and ship."
    settings = SETTINGS | {'seed': int(seed)}
    with TemporaryDirectory() as folder:
        cli.train(out=f'{folder}/run', **settings)
        ship(Path(folder)/'run', Path(place), settings)


if __name__ == '__main__': main(*sys.argv[1:])
