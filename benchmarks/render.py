"""The tables of RESULTS.md, made from the files in results/.

    python benchmarks/render.py            # write them anew
    python benchmarks/render.py --check    # only say which differ; fails if one does

RESULTS.md has blocks, from `<!-- NAME -->` to `<!-- /NAME -->`. TABLES names the function that makes each of them, and
its file; the block `files` lists all files. In brackets are the lowest and the highest value, or an interval: two
digits, or three where these two lie closer together than a tenth of the number.
"""
import hashlib
import json
import re
import sys
from collections import Counter
from functools import cache
from itertools import product
from math import floor, log10
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
PAGE, RESULTS, LESSONS = HERE/'RESULTS.md', HERE/'results', HERE.parent/'nbs'
# Of runs that do not say by which commit they were measured: those that brought their numbers, looked up in the
# history once; the digest of the run as it was; and of the corpus, as the code of that commit draws it
CAME_WITH = json.loads((HERE/'came_with.json').read_text(encoding='utf-8'))
BLOCK = re.compile(r'<!-- ([\w-]+) -->\n(.*?)<!-- /\1 -->', re.S)


# What every table is made with

def table(head, rows):
    "Markdown."
    lines = [head, ['---']*len(head), *rows]
    return '\n'.join('| ' + ' | '.join(map(str, line)) + ' |' for line in lines)


def digits(value, count):
    "A number with so many significant digits."
    value = float(f'{value:.{count - 1}e}')
    before = floor(log10(abs(value))) if value else 0
    return f'{value:,.{max(0, count - 1 - before)}f}'


def ranged(values, middle=None):
    "The median of some values (or what is given in its place), and in brackets their lowest and highest."
    middle = median(values) if middle is None else middle
    low, high = min(values), max(values)
    middle, low, high = (digits(value, 3 if 0 < high - low < middle/10 else 2) for value in (middle, low, high))
    return middle if len(values) == 1 else f'{middle} [{low} to {high}]'


def speed(row):
    "Tokens a second."
    return ranged((row['lowest'], row['highest']), row['tokens_per_s'])


def times_as_fast(row, other):
    """Speed of a row ÷ that of another: of the medians; in brackets of single repetitions, which were made in turns.
    Where some were left out as disturbed, any two may be compared."""
    ours, theirs = ([repetition['seconds'] for repetition in one['repetitions']] for one in (row, other))
    pairs = zip(ours, theirs) if len(ours) == len(theirs) else product(ours, theirs)
    return ranged([b/a for a, b in pairs], row['tokens_per_s']/other['tokens_per_s'])


def percent(share): return f'{100*share:.0f} %'


# Speed

def training_on(device):
    "train_speed.json: for each run on a device a table with target tokens a second and GiB."
    return lambda runs: '\n\n'.join(training_run(run) for run in runs.values() if run['device'] == device)


def training_run(run):
    "One run of train_speed.json: one model in one format of numbers."
    rows, best = run['rows'], 'ours compiled' if 'ours compiled' in run['rows'] else 'ours'
    about = (f"**{run['preset']}, {run['dtype']}**: {run['hardware']}, torch {run['torch']}; vocabulary "
             f"{run['vocab']:,}, batches of at most {run['batch_tokens']:,} padded target tokens; "
             f"{len(rows['ours']['repetitions'])} repetitions; matrix product {run['ceiling']/1e9:,.0f} GFLOP/s; "
             f"{days('train_speed', [run])}")
    head = ['', 'target tokens/s', f'{best} ÷ it', 'utilisation', 'peak memory, GiB']
    return about + '\n\n' + table(head, [
        [name, speed(row), times_as_fast(rows[best], row) if name != best else '', percent(row['utilisation']),
         f"{row['memory']/2**30:.2f}"] for name, row in rows.items()])


def parts(runs):
    "parts.json but its ladder: time and memory without a part over those with it; a column for each work."
    runs = [run for run in runs.values() if run['work'] != 'ladder']
    names = list(dict.fromkeys(name for run in runs for name in run['rows']))
    def size(run):
        batch = f", {run['batch_tokens']:,} tokens" if run['work'] == 'training' else ''
        return f"{run['preset']}: {run['work']}{batch}" + (', bfloat16' if run['dtype'] == 'bfloat16' else '')
    def cell(run, name):
        row = run['rows'].get(name)
        return f"{row['time']:.2f} ({row['memory']:.2f})" if row else ''
    told = dict.fromkeys(f"{run['hardware']}, torch {run['torch']}" for run in runs)
    return '; '.join(told) + '\n\n' + table(['time (memory) without it ÷ with it', *map(size, runs)], [
        [name, *(cell(run, name) for run in runs)] for name in names if name != 'everything'])


def ladder(runs):
    "parts.json's ladder: the speed of each rung, beside the plain model's and the rung's before, and its memory."
    runs = [run for run in runs.values() if run['work'] == 'ladder']
    def rows(run):
        names = list(run['rows'])
        times = [run['rows'][name]['time'] for name in names]
        return [[f'{1/time:.2f}', f'{before/time:.2f}', f"{run['rows'][name]['memory']:.2f}"]
                for name, before, time in zip(names, [times[0], *times], times)]
    heads = [f'{size}: {what}' for size in (f"{run['preset']}, {run['batch_tokens']:,} tokens" for run in runs)
             for what in ('speed ÷ plain', 'speed ÷ the row above', 'memory ÷ plain')]
    cells = [[name, *sum(row, [])] for name, *row in zip(runs[0]['rows'], *map(rows, runs))]
    return f"{runs[0]['hardware']}, torch {runs[0]['torch']}\n\n" + table(['rung', *heads], cells)


def decoding(runs):
    "Runs of decode_speed.json: speed beside Marian's, or that of the first row where Marian was left out, and MiB."
    first, base = runs[0], base_of(runs[0]['rows'])
    versions = ', '.join(' '.join(item) for item in first['versions'].items())
    about = (f"{first['hardware']}; {versions}; vocabulary {first['vocab']:,}, {first['dtype']}; "
             f"{len(first['rows'][base]['repetitions'])} repetitions; "
             f"{days('decode_speed', runs)}")
    speeds, memory = by_search(f'speed ÷ {base}', runs, beside), by_search('peak memory, MiB', runs, mebibytes)
    return '\n\n'.join([about, speeds, memory])


def decoding_of(preset, device, told=False):
    "The same for all runs of one shape of model (or of all) on one device, told to keep to some instructions or not."
    return lambda runs: decoding([run for run in runs.values() if run['device'] == device
                                  and preset in (run['preset'], None) and told == ('only' in run['hardware'])])


def stream(runs):
    "stream.json: seconds to the first translation, and lines a second after it."
    run, = runs.values()
    rows = {name: rounds for name, rounds in run['rows'].items() if 'first' in rounds[0]}
    lines = table(['', 'first translation, s', 'lines a second', 'translations as ours'], [
        [name, *(ranged([one[key] for one in rounds]) for key in ('first', 'lines_per_s')),
         f"{run['as ours'][name]} of {run['lines']}"] for name, rounds in rows.items()])
    says = ', '.join(f"`{name}` {ranged([one['says'] for one in rounds])} s" for name, rounds in run['rows'].items()
                     if 'says' in rounds[0])
    return f"{run['hardware']}, torch {run['torch']}\n\n{lines}\n\nDone after: {says}."


def base_of(rows): return 'Marian' if 'Marian' in rows else next(iter(rows))


def by_search(title, runs, cell):
    "A column for each run, a row for everyone who took part in one of them."
    names = dict.fromkeys(name for run in runs for name in run['rows'])
    head = [f"{run['preset']}: {run['search']}, {run['batch']}" for run in runs]
    return table([title, *head],
                 [[name, *(cell(run['rows'], name) if name in run['rows'] else '' for run in runs)] for name in names])


def beside(rows, name):
    "A row's speed ÷ that of the row it is compared with; for that one its tokens a second."
    base = base_of(rows)
    return f"{speed(rows[name])} tokens/s" if name == base else times_as_fast(rows[name], rows[base])


def mebibytes(rows, name): return f"{rows[name]['memory']/2**20:,.0f}"


# Runs of many hours and many hosts

def checkpoints(models):
    "checkpoint_stall.json, seconds: `waits` until the next step may begin, `written` until all is on the disk."
    about = '; '.join(f"{name}: {model['bytes']/1e9:.2f} GB" for name, model in models.items())
    first = next(iter(models.values()))
    head = ['', *(f'{name}: {what}' for name in models for what in ('waits, s', 'written, s'))]
    rows = [[way, *(ranged(model['ways'][way][what]) for model in models.values() for what in ('stall_s', 'written_s'))]
            for way in first['ways']]
    times = len(first['ways']['ours']['stall_s'])
    return f"{first['on']}, torch {first['torch']}; {times} repetitions; {about}\n\n{table(head, rows)}"


def exchange(found, model='base'):
    "hosts.json: bytes and seconds of an all-reduce of a model's gradient."
    runs = {(run['hosts'], run['rate']): run for run in found['exchange'] if run['model'] == model}
    hosts, rates = (dict.fromkeys(keys) for keys in zip(*runs))
    size = found['gradient_bytes'][model]
    sent = [f"{max(runs[n, rate]['sent_by_each'] for rate in rates)/(2*(n - 1)/n*size):.3f}" for n in hosts]
    rows = [[f"seconds, {rate.replace('none', 'without a limit')}", *(ranged(runs[n, rate]['seconds']) for n in hosts)]
            for rate in rates]
    head = [f'all-reduce of {size/1e6:.0f} MB', *(f'{n} hosts' for n in hosts)]
    about = f"{found['machine']}, torch {found['torch']}; {len(next(iter(runs.values()))['seconds'])} rounds"
    return f"{about}\n\n{table(head, [['bytes that each host sends at most, over 2(n−1)/n × gradient', *sent], *rows])}"


def shared_step(found):
    "hosts.json, seconds: a step of the small model on one host, and shared by two."
    seconds = {(run['hosts'], run['rate'], run['micro_batches']): run['seconds'] for run in found['step']}
    sizes = dict.fromkeys(size for _, _, size in seconds)
    ways = dict.fromkeys((hosts, rate) for hosts, rate, _ in seconds)
    rows = [[f"{hosts} host{'s'*(hosts > 1)}, {rate.replace('none', 'without a limit')}",
             *(ranged(seconds[hosts, rate, size]) for size in sizes)] for hosts, rate in ways]
    gains = [[f'{said} of one host ÷ {said} of two at 1 Gbit/s',
              *(f"{of(seconds[1, 'none', size])/of(seconds[2, '1 Gbit/s', size]):.2f}" for size in sizes)]
             for said, of in (('fastest turn', min), ('median', median))]
    return table(['seconds a step', *(f'{size} micro-batches' for size in sizes)], rows + gains)


def lost(found):
    "hosts.json, seconds after the host of process 0 was lost; one trial of each."
    def seconds(value): return '' if value is None else ranged([value])
    return table(['', 'the other notices after, s', 'the run is further than before after, s'],
                 [[what, seconds(t['noticed_s']), seconds(t['goes_on_s'])] for what, t in found['lost'].items()])


def large_corpus(parts):
    "large_corpus.json: seconds and GiB, with all pairs and with a few."
    made, trained, of = (parts[name]['found'] for name in ('prepare', 'train', 'speed'))
    steps, memory = ([ranged([run[what]]) for run in trained.values()] for what in ('first_step_s', 'peak_gib'))
    return f"{parts['prepare']['on']}, {made['workers']} workers, {made['pairs']:,} pairs\n\n" + table(
        ['what', *trained],
        [['`tnb-data prepare`, s', ranged([made['seconds']]), ''],
         ['pairs a minute and core', ranged([made['pairs_per_minute_and_core']]), ''],
         ['its peak memory, all processes, GiB', ranged([made['peak_gib']]), ''],
         ['`tnb-train`, from start to the end of the first step, s', *steps],
         ['its peak memory, GiB', *memory],
         ['speed of training from shards, over that from memory', f"{of['of_memory']:.2f}", '']])


# The paper's tables and figures, and scores

def parallel(runs):
    "parallel.json: speed of each model, and in brackets the lowest and highest round; a column for each machine."
    rows = {(row['model'], row['length']): [] for row in next(iter(runs.values()))['rows']}
    for run in runs.values():
        for row in run['rows']: rows[row['model'], row['length']].append(ranged([x/1e9 for x in row['rounds']]))
    def column(run):
        threads = '' if 'NVIDIA' in run['machine'] else f", {run['threads']} thread{'s'*(run['threads'] > 1)}"
        return f"{run['machine']}{threads}, {run['tokens']:,} tokens"
    return table(['GFLOP/s', 'length', *map(column, runs.values())], [[*key, *cells] for key, cells in rows.items()])


def table1(found):
    "table1.json: exponents in n, with 95 % intervals, beside Table 1's; the longest path."
    said = {'self-attention': 2, 'fused self-attention': 2, 'recurrent': 1, 'convolutional': 1, 'restricted': 1}
    hops, grows = found['paths']['hops'], found['exponents']['n']
    def exponent(name, what): return ranged(grows[name][what][1:], grows[name][what][0])
    rows = [[name, exponent(name, 'seconds'), power, exponent(name, 'bytes'),
             hops[name.removeprefix('fused ')][-1]] for name, power in said.items()]
    lengths = found['by_n']['recurrent']['n']
    about = (f"{found['machine']}, torch {found['torch']}; n = {lengths[0]:,} to {lengths[-1]:,}, d = "
             f"{found['by_n']['recurrent']['d'][0]}; paths with k = {found['paths']['k']}, r = {found['paths']['r']}")
    head = ['layer', 'time grows with n to the [95 %]', 'Table 1 says', 'memory [95 %]',
            f"longest path, n = {found['paths']['n'][-1]}"]
    return f"{about}\n\n{table(head, [*rows, ['convolutional, dilated', '', '', '', hops['dilated'][-1]]])}"


def maps(found):
    "heads.json: what chosen heads do in each trained model, and what the models lose without some of what they have."
    trained = [run for run in found['runs'] if run['model'] != 'untrained']
    overall, rules = found['over models'], found['without a model']
    texts = {'pronoun': 'from a pronoun at its noun', 'bracket': "from a verb's end at its beginning",
             'agreement': 'from a verb at its subject, across a clause'}
    def row(what, of, its, rule, shown):
        cells = [f"{place(chosen['head'])}: {shown(chosen['test'])} ({shown(chosen['best on test'])})"
                 for chosen in map(of, trained)]
        return [what, *cells, within(its['trained'], shown), shown(rule), within(its['untrained'], shown)]
    rows = [row(f'looks {text}, {kind}', lambda run: run['dependencies'][name][kind]['chosen'], its,
                rules[name][kind]['test'], percent)
            for name, text in texts.items() for kind, its in overall[name].items()]
    rows.append(row('error rate of its word alignment, cross', lambda run: run['alignment']['chosen'],
                    overall['alignment'], rules['alignment']['diagonal'], '{:.2f}'.format))
    head = ['the head that is best on validation sentences: what it reaches on test sentences (the best there)',
            *(f"seed {run['seed']}" for run in trained), 'mean ± half of the 95 % interval',
            'fixed distance, or diagonal', 'without training']
    sizes = found['recipe']
    about = (f"{sizes['sentences of a dependency']} sentences of each set, {sizes['sentences to align']} for the "
             f"alignment. BLEU: `{trained[0]['signature']}`")
    return f'{table(head, rows)}\n\n{table(*without_parts(trained))}\n\n{about}'


def place(head): return '.'.join(str(i + 1) for i in head)


def within(its, shown): return f"{shown(its['mean'])} ± {shown(its['half'])}"


def without_parts(trained):
    "A column for each model: right words when a head, paths or all maps of a kind are taken from it."
    kinds = ('encoder', 'decoder', 'cross')
    rows = [['BLEU', *(f"{run['bleu']:.1f}" for run in trained)], ['right pronouns', *(
        percent(run['paths']['pronoun']['none']) for run in trained)]]
    rows.append(['without the head of all kinds that looks at their noun most', *map(without_its_head, trained)])
    for kind in kinds:
        rows.append([f'cut off from their noun, {kind}', *(percent(run['paths']['pronoun'][kind]) for run in trained)])
    rows.append(['right words', *(percent(run['ablation']['whole']['test split']) for run in trained)])
    for kind in kinds:
        rows.append([f'all maps flat, {kind}', *(percent(run['ablation']['all uniform'][kind]) for run in trained)])
    return ['', *(f"`{run['model']}`, seed {run['seed']}, {run['steps']:,} steps" for run in trained)], rows


def without_its_head(run):
    looks = run['dependencies']['pronoun']
    kind = max(looks, key=lambda kind: looks[kind]['chosen']['validation'])
    found = looks[kind]['chosen']
    return f"{kind} {place(found['head'])}: {percent(found['right without it']['dependent'])}"


def parsing_rnn(found):
    "parsing_rnn.json: F1 and outputs without repair after the last step, for each number of trees and each model."
    head = ['trees', 'model', 'rate', 'F1, test', 'F1, unseen', 'without repair, test, %', 'unseen, %']
    groups = {}
    for run in found['runs']: groups.setdefault((run['trees'], run['model']), []).append(run)
    def cell(runs, key, split): return ranged([run['curve'][-1][split][key] for run in runs])
    rows = [[f'{trees:,}', model, runs[0]['lr_factor'],
             *(cell(runs, key, split) for key in ('f1', 'sound') for split in ('test', 'unseen'))]
            for (trees, model), runs in groups.items()]
    steps = found['runs'][0]['curve'][-1]['step']
    about = f"{found['machine']}, torch {found['torch']}; {steps:,} steps, {len(found['recipe']['seeds'])} seeds"
    return f'{about}\n\n{table(head, rows)}'


def multi30k(runs):
    "multi30k.json: BLEU with 95 % intervals."
    first = next(iter(runs.values()))
    about = (f"{first['hardware']}, torch {first['torch']}; {first['test']}, {first['sentences']:,} sentences, beam "
             f"{first['beam']}; `{first['signature']}`")
    head = ['', 'seed', 'minutes', 'at once', 'updates', 'sacreBLEU, cased [95 %]', 'lower-cased',
            'lower-cased, tokenised']
    return about + '\n\n' + table(head, [
        [run['way'], run['seed'], run['minutes'], run['at once'], f"{run['steps']:,}",
         ranged(run['interval'], run['bleu']), f"{run['lower-cased']:.1f}",
         f"{run['lower-cased, tokenised as in the paper']:.1f}"] for run in runs.values()])


def quality():
    "The rows of README's table of scores, without the corpus: pairs (of the built-in one no file tells), …, chrF."
    rows = []
    for name, run in load('built_in').items():
        test, unseen = ([f"{split['BLEU']:.1f}", f"{split['chrF']:.1f}"] for split in run['scores'].values())
        what = 'make demo' if name == 'demo' else run['command']
        rows += [['', f'`{what}`', f"{run['steps']:,}", f"{run['minutes']:.0f}", str(run['threads']), *test],
                 ['', 'the same', '', '', '', *unseen]]
    for name, run in load('recipes').items():
        bleu = '{:.1f} ({:.1f} to {:.1f})'.format(run['bleu'], *run['interval'])
        rows.append([f"{run['pairs']:,}", f'`{name}`', f"{run['steps']:,}", f"{run['minutes']:g}", str(run['cores']),
                     bleu, f"{run['chrf']:.1f}"])
    return rows


# The files themselves

def load(name): return json.loads((RESULTS/f'{name}.json').read_text(encoding='utf-8'))


def said(found, key):
    "All that a file says under a key, anywhere in it, each once."
    if isinstance(found, list): return list(dict.fromkeys(x for part in found for x in said(part, key)))
    if not isinstance(found, dict): return []
    return [found[key]] if isinstance(found.get(key), str) else said(list(found.values()), key)


def runs_of(found):
    "The runs of a file that is a dict of them; another file is one run, without a name."
    many = 'about' not in found and all(isinstance(run, dict) for run in found.values())
    return found if many else {'': found}


def since(file, name, run):
    "The commits by which a run was measured, with the day, as it says itself; of an older run those it came with."
    told = [about for about in (run.get('about', {}), *run.get('continued', ())) if about.get('commit')]
    found = [stated(about['commit'], about['date'][:10]) for about in told]
    if told[:1] == [run.get('about')]: return found
    older = CAME_WITH.get(file, {}).get(name, {'commits': {}})['commits']
    came = ' and '.join(stated(*each) for each in older.items())
    return [f'came with {came}' if came else 'not said', *found]


def days(file, runs):
    "The same of some runs of a file, each once."
    return ', '.join(dict.fromkeys(day for item in load(file).items() if item[1] in runs for day in since(file, *item)))


def stated(commit, day):
    commit, *changed = commit.split(', ')
    return f"`{commit[:7]}`{''.join(f', {word}' for word in changed)} ({day})"


def digest(run):
    "The beginning of the SHA-256 of a run."
    return hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()[:16]


def commits(name):
    "By which commits the runs of a file were measured; how many runs by each, where they differ."
    ways = Counter(', '.join(since(name, *item)) for item in runs_of(load(name)).items())
    if len(ways) == 1: return next(iter(ways))
    return '; '.join(f"{count} run{'s'*(count > 1)}: {way}" for way, count in ways.items())


def corpora(name):
    "Digests of the corpora of a file."
    found = runs_of(load(name))
    abouts = [about for run in found.values() for about in (run.get('about', {}), *run.get('continued', ()))]
    known = [about.get('corpus') for about in abouts]
    known += [entry.get('corpus') for key, entry in CAME_WITH.get(name, {}).items() if key in found]
    texts = [f'`{one}`' if isinstance(one, str) else ', '.join(f'{of}: `{of_it}`' for of, of_it in one.items())
             for one in known if one]
    return ', '.join(dict.fromkeys(texts))


def readers(name):
    "Links to what shows a file: this page, README, lessons whose code reads it."
    links = ['this page']*any(name == file for file, _ in TABLES.values())
    links += ['[README](../README.md)']*(name in ('built_in', 'recipes'))
    return links + [f'[{path.stem}](../{path.relative_to(HERE.parent)})' for path, code in code_of_lessons()
                    if f'{name}.json' in code]


@cache
def code_of_lessons():
    "Every notebook with its code, read once."
    left_out = {'languages', '.ipynb_checkpoints'}
    paths = [path for path in sorted(LESSONS.rglob('*.ipynb')) if not left_out & set(path.parts)]
    cells = [json.loads(path.read_text(encoding='utf-8'))['cells'] for path in paths]
    return [(path, '\n'.join(''.join(cell['source']) for cell in its if cell['cell_type'] == 'code'))
            for path, its in zip(paths, cells)]


def without_paths(command):
    "What a command writes into is of the machine alone."
    return re.sub(r'(--(?:json|out)) \S*/\S+', r'\1 FILE', command)


def files():
    "Every file of results/, with its command, commit and corpus, and who shows it."
    def command(found):
        values = said(found, 'command')
        if not all(said(run, 'command') for run in runs_of(found).values()): return 'above'  # the page has it
        return f'`{without_paths(values[0])}`' if len(values) == 1 else 'one for each run'
    names = sorted(path.stem for path in RESULTS.glob('*.json'))
    return table(['file', 'command', 'commit', 'digest of the corpus', 'shown by'], [
        [f'[{name}](results/{name}.json)', command(load(name)), commits(name), corpora(name),
         ', '.join(readers(name))] for name in names])


TABLES = {  # block: file and function
    'parts': ('parts', parts), 'ladder': ('parts', ladder),
    'training': ('train_speed', training_on('cpu')), 'training-gpu': ('train_speed', training_on('cuda')),
    'decoding-base': ('decode_speed', decoding_of('base', 'cpu')),
    'decoding-avx2': ('decode_speed', decoding_of('base', 'cpu', told=True)),
    'stream': ('stream', stream),
    'decoding-opus-mt': ('decode_speed', decoding_of('opus-mt', 'cpu')),
    'decoding-gpu': ('decode_speed', decoding_of(None, 'cuda')), 'table1': ('table1', table1),
    'parallel': ('parallel', parallel),
    'maps': ('heads', maps), 'parsing-rnn': ('parsing_rnn', parsing_rnn),
    'checkpoints': ('checkpoint_stall', checkpoints),
    'exchange': ('hosts', exchange), 'shared-step': ('hosts', shared_step), 'lost': ('hosts', lost),
    'large-corpus': ('large_corpus', large_corpus), 'multi30k': ('multi30k', multi30k)}


def contents():
    "What belongs into each block."
    return {name: function(load(file)) for name, (file, function) in TABLES.items()} | {'files': files()}


def filled(text, made):
    "The page with its blocks made anew."
    return BLOCK.sub(lambda block: f'<!-- {block[1]} -->\n\n{made[block[1]]}\n\n<!-- /{block[1]} -->', text)


def differing(text, made):
    "The blocks that are missing, unknown, or not what the files give."
    there = {name: content.strip() for name, content in BLOCK.findall(text)}
    return [name for name in {**made, **there} if there.get(name) != made.get(name)]


def main(check):
    text, made = PAGE.read_text(encoding='utf-8'), contents()
    if not check: PAGE.write_text(filled(text, made), encoding='utf-8')
    elif wrong := differing(text, made): sys.exit(f"{PAGE.name}, out of date: {', '.join(wrong)}")


if __name__ == '__main__': main('--check' in sys.argv[1:])
