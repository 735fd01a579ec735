"""What `tnb-train` reaches on real corpora in short runs: the table of recipes on the front page and in lesson 16.

    python benchmarks/recipes.py FOLDER                   # every recipe: about three hours of quiet cores
    python benchmarks/recipes.py FOLDER multi30k-en-de    # one of them

FOLDER holds the corpora as their publishers give them: multi30k/ (task 1, raw), tatoeba/ (eng-fra.txt.gz …, the
sentence pairs of manythings.org/anki), small-parallel-enja/. Each recipe trains into runs/NAME, translates the test
split with a beam of 4, and puts its scores into results/recipes.json. A run that is there already is only scored
again. With `taskset -c 0` before it, all is done on one core: `cores` in the results says on how many. A recipe ends
after a number of steps, so that a busy machine takes longer and ends with the same model. (The rows whose `command`
has `--minutes` are of runs that ended by the clock; their recipes have the steps that were made in that time.)
"""
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from common import ROOT, Experiment, cores, cpu_name, digest

from transformer_nb.data.corpora import load_corpus
from transformer_nb.decode.evaluation import score
from transformer_nb.decode.translator import Translator
from transformer_nb.experiments.table2 import paper_bleu
from transformer_nb.train.recipes import load_recipe, split_tatoeba

RUNS = ROOT/'runs'


@dataclass
class Recipe:
    corpus:str         # As a reader knows it
    folder:str         # Inside FOLDER
    src:str
    tgt:str
    steps:int
    options:str = ''   # More options of tnb-train

    def data(self, place):
        if self.folder != 'tatoeba': return place/self.folder
        return tatoeba(place/'tatoeba'/f"eng-{self.src if self.tgt == 'eng' else self.tgt}.txt.gz")


def packaged(name):
    "Steps and options of a recipe that comes with the package, whose settings are these; all others are below."
    options = dict(load_recipe(name).train)
    assert options.pop('preset') == 'tiny'  # what tnb-train takes by itself
    steps = options.pop('steps')
    return steps, ' '.join(f"--{option.replace('_', '-')} {value:{'g' if type(value) is float else ''}}"
                             for option, value in options.items())


# Everything that tnb-train would choose by the length of the run is given: the command says what was measured
# more and smaller steps, where sentences are short
SHORT = packaged('tatoeba')[1]
RECIPES = {
    'multi30k-en-de': Recipe('Multi30k', 'multi30k', 'en', 'de', *packaged('multi30k')),
    'multi30k-en-de-long': Recipe('Multi30k', 'multi30k', 'en', 'de', 13_417, SHORT),
    'multi30k-de-en': Recipe('Multi30k', 'multi30k', 'de', 'en', 1680, SHORT),
    'tatoeba-eng-fra': Recipe('Tatoeba', 'tatoeba', 'eng', 'fra', *packaged('tatoeba')),
    'tatoeba-jpn-eng': Recipe('Tatoeba', 'tatoeba', 'jpn', 'eng', 1850, SHORT),
    'enja': Recipe('small-parallel-enja (in words, lower case)', 'small-parallel-enja', 'en', 'ja', 2500, SHORT),
    'tatoeba-kor-eng': Recipe('Tatoeba', 'tatoeba', 'kor', 'eng', 408,
                              f'{SHORT} --vocab-size 3000 --dropout 0.3'),
}


def tatoeba(file):
    "A corpus folder, split by English sentence: no sentence of the test, in whatever translation, is in training."
    folder = RUNS/'corpora'/file.name.removesuffix('.txt.gz')
    if not folder.exists(): split_tatoeba(file, folder, *folder.name.split('-'))
    return folder


def scored(out, pairs, beam=4, device='auto'):
    "What a finished run writes for the sources of some pairs; and of the run and its scores what is kept."
    sources, references = map(list, zip(*pairs))
    translator = Translator.from_pretrained(out, device)
    found, about = translator.translate(sources, beam=beam), translator.about
    scores = score(found, references, intervals=True)
    return found, {'pairs': about['pairs'], 'minutes': round(about['seconds']/60, 2), 'steps': about['step'],
                   'seed': about['settings']['seed'], 'preset': about['preset'], 'bleu': scores['BLEU']['score'],
                   'interval': scores['BLEU']['interval'], 'signature': scores['BLEU']['signature'],
                   'chrf': scores['chrF']['score']}


def run(name, recipe, place):
    "Train if there is no run yet, translate the test split, score; and the corpus' digest."
    out, data = RUNS/name, recipe.data(place)
    options = f'--src {recipe.src} --tgt {recipe.tgt} --steps {recipe.steps} {recipe.options}'.split()
    if not (out/'averaged').exists(): subprocess.run(['tnb-train', '--data', data, '--out', out, *options], check=True)
    corpus = load_corpus(str(data), recipe.src, recipe.tgt)
    test = 'test' if 'test' in corpus.splits else (corpus.tests or ['val'])[0]
    found, row = scored(out, corpus[test].pairs)
    if recipe.tgt == 'de': row['paper_bleu'] = paper_bleu(found, [ref for _, ref in corpus[test].pairs])['score']
    for (src, ref), line in list(zip(corpus[test].pairs, found))[:5]: print(src, line, ref, sep='\n    ')
    return {'name': name, 'corpus': recipe.corpus, 'direction': f'{recipe.src}-{recipe.tgt}', 'test': test,
            'sentences': len(found), 'command': ' '.join(['tnb-train --data', recipe.folder, *options]), **row,
            'cores': cores(), 'cpu': cpu_name()}, digest(corpus)


def main():
    experiment = Experiment(__file__, __doc__)
    experiment.option('folder', type=Path, help='Folder of the corpora')
    experiment.option('names', nargs='*', metavar='NAME', help=f'Recipes (default: all): {", ".join(RECIPES)}')
    args = experiment.begin(names=['tiny'])
    if args.tiny:
        globals().update(RUNS=experiment.file.parent/'runs')
        RECIPES.update(tiny=Recipe('Multi30k', 'multi30k', 'en', 'de', 2, '--vocab-size 300 --batch-tokens 512'))
    for name in args.names or RECIPES:
        row, corpus = run(name, RECIPES[name], args.folder)
        experiment.keep(row, 'name', corpus=corpus, seeds=[row['seed']])
        print(json.dumps(row, indent=1, ensure_ascii=False), flush=True)


if __name__ == '__main__': main()
