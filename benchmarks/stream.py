"""Single lines through `tnb-translate`, as a person or a program sends them, against a script with CTranslate2.

    pip install -e . --group bench
    python benchmarks/stream.py --json

The model of the package (`demo`), a beam of 4; each line is sent when the translation of the one before has come.
*First*: seconds from the start of the command to the first translation. `lines_per_s`: of those after it. *Says*:
seconds until `-h` and `--version` are done. Each round starts every program once, in random order.
"""
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import render
from common import Experiment, machine

SCRIPT = """import sys, ctranslate2, sentencepiece
folder, kind = sys.argv[1:]
pieces = sentencepiece.SentencePieceProcessor(folder + '/tokenizer.model')
translator = ctranslate2.Translator(folder, compute_type=kind)
for line in sys.stdin:
    found = translator.translate_batch([pieces.encode(line.strip(), out_type=str) + ['</s>']], beam_size=4,
                                       length_penalty=.6)
    print(pieces.decode(found[0].hypotheses[0]), flush=True)
"""


def programs(folder):
    "What is started, by its name."
    ours = [str(Path(sys.executable).parent/'tnb-translate')]
    return {'ours': [*ours, 'demo'], 'ours int8': [*ours, 'demo', '--int8'],
            **{f'CTranslate2 {kind}': [sys.executable, '-c', SCRIPT, folder, kind] for kind in ('float32', 'int8')},
            '-h': [*ours, '-h'], '--version': [*ours, '--version']}


def sent(command, lines):
    "Seconds to the first translation, lines a second after it, and the translations."
    start = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          bufsize=1) as program:
        found = []
        for line in lines:
            program.stdin.write(line + '\n')
            found.append(program.stdout.readline().strip())
            if len(found) == 1: first = time.perf_counter()
        done = time.perf_counter()
        program.stdin.close()
    return {'first': first - start, 'lines_per_s': (len(lines) - 1)/(done - first)}, found


def says(command):
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return {'says': time.perf_counter() - start}


def main():
    import torch
    from transformer_nb.data.corpora import load_builtin
    from transformer_nb.decode.translator import Translator
    from transformer_nb.interop.export import to_ctranslate2
    experiment = Experiment(__file__, __doc__, asked=True)
    experiment.peers = ('ctranslate2',)
    experiment.option('--rounds', type=int, default=5, help='(5)')
    experiment.option('--lines', type=int, default=50, help='(50)')
    args = experiment.begin(rounds=1, lines=3)
    lines = [src for src, _ in load_builtin(n_train=2000)['test'].pairs[:args.lines]]
    with tempfile.TemporaryDirectory() as folder:
        t = Translator.from_pretrained('demo')
        to_ctranslate2(t, f'{folder}/model')
        started, found = programs(f'{folder}/model'), {}
        rows = {name: [] for name in started}
        for _ in range(args.rounds):
            for name, command in random.sample(list(started.items()), len(started)):
                if name.startswith('-'): seconds = says(command)
                else: seconds, found[name] = sent(command, lines)
                rows[name].append(seconds)
    same = {name: sum(a == b for a, b in zip(found['ours'], found[name])) for name in found}
    result = {'hardware': machine(torch.device('cpu')), 'torch': torch.__version__, 'lines': len(lines), 'rows': rows,
              'as ours': same}
    print(render.stream({'': result}))
    experiment.keep(result, 'hardware')


if __name__ == '__main__': main()
