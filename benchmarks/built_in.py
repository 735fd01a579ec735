"""What README's first command and the demo reach on the built-in corpus: the first rows of the table on the front page.

    python benchmarks/built_in.py            # about a quarter of an hour of one core
    python benchmarks/built_in.py README     # one of the two

Trains into runs/built-in/NAME as the command does, translates the test split and the unseen combinations with a beam
of 4, and writes results/built_in.json. Both runs end after a number of steps, in float32 and with one thread: another
machine is slower or faster, and its scores are the same but for rounding. `minutes` are of computing, since by the
clock they say how busy the machine was. A run that was stopped goes on where it was.
"""
import json
import resource
import subprocess

from common import ROOT, Experiment, cpu_name, digest

from transformer_nb import checkpoints
from transformer_nb.cli import _scores, _tests
from transformer_nb.core import profile
from transformer_nb.data.corpora import load_builtin
from transformer_nb.decode.translator import Translator

STEPS = {'README': 1000, 'demo': profile('cpu').steps}


def computed():
    "Minutes of computing of the programs that were started here."
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime)/60


def measured(name, out, more):
    "Train, unless it is done, and score."
    command = ['tnb-train', '--data', 'builtin', '--steps', str(STEPS[name]), *more]
    before = computed()
    subprocess.run([*command, '--device', 'cpu', '--out', out, '--resume', 'auto'], check=True)
    return row(name, out, computed() - before, ' '.join(command))


def row(name, out, minutes, command):
    "What is kept of a run."
    translator, about = Translator.from_pretrained(out, 'cpu'), checkpoints.load(out/'averaged').training
    found = _scores(translator, _tests(about), beam=4, alpha=.6)
    scores = {split: {'pairs': s['pairs'], **{name: round(s[name]['score'], 2) for name in ('BLEU', 'chrF')}}
              for split, s in found.items()}
    return {'name': name, 'command': command, 'steps': about['step'], 'seed': about['settings']['seed'],
            'dtype': about['settings']['dtype'], 'threads': about['settings']['threads'], 'minutes': round(minutes, 1),
            'scores': scores, 'signature': found['test']['BLEU']['signature'], 'answer':
            translator.translate(['a dog runs .'])[0], 'cpu': cpu_name()}


def main():
    experiment = Experiment(__file__, __doc__)
    experiment.option('names', nargs='*', metavar='NAME', help=f"Runs (default: all): {', '.join(STEPS)}")
    args = experiment.begin(names=['README'])
    if args.tiny: STEPS.update(README=2)
    more = '--corpus-size 2000 --vocab-size 800 --batch-tokens 512 --max-len 64'.split() if args.tiny else []
    runs = experiment.file.parent/'runs' if args.tiny else ROOT/'runs'/'built-in'
    corpus = digest(load_builtin(2000) if args.tiny else load_builtin())
    for name in args.names or STEPS:
        found = measured(name, runs/name, more)
        experiment.keep(found, 'name', corpus=corpus)
        print(json.dumps(found, indent=1, ensure_ascii=False), flush=True)


if __name__ == '__main__': main()
