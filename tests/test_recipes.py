"""Recipes: they are what was measured and what the paper says, a mistake in one is named in one line, what is typed
wins, and the walk that `tnb-data recipe` prints leads from raw text to a score and a translation."""
import json
import random
import re
import shlex
import subprocess
import sys
from inspect import signature
from pkgutil import resolve_name

import pytest
from conftest import ROOT, tnb

from transformer_nb import checkpoints
from transformer_nb.cli import train
from transformer_nb.core import InputError
from transformer_nb.data.corpora import load_corpus
from transformer_nb.experiments.table2 import TABLE2
from transformer_nb.train.recipes import FOLDER, TABLES, commands, describe, load_recipe, recipe_names, split_tatoeba
from transformer_nb.train.trainer import TrainingConfig, current_names
from transformer_nb.transformer import preset

MEASURED = json.loads((ROOT/'benchmarks/results/recipes.json').read_text())
NEWS = ROOT.parent/'shared'/'data'/'wmt-news'/'en-de'
SMALL = {  # what is typed besides, so that the walk takes seconds
    'prepare': '--vocab-size 60 --workers 1', 'clean': '--workers 1 --any-language',
    'train': '--preset tiny --steps 140 --batch-tokens 128 --grad-accum-steps 1 --warmup 40 --lr-scale 0.1 '
             '--save-every 20 '
             '--average-last 3 --dropout 0 --norm pre --dtype float32 --device cpu --threads 1'}
WORDS = dict(a='ein', the='der', dog='Hund', cat='Kater', bird='Vogel', sees='sieht', likes='mag', small='klein',
             old='alt')


# What the recipes say

def test_there_are_six():
    pairs = [f'wmt14-en-{lang}-{size}' for lang in ('de', 'fr') for size in ('base', 'big')]
    assert sorted(recipe_names()) == sorted([*pairs, 'multi30k', 'tatoeba'])


@pytest.mark.parametrize('name', recipe_names())
def test_what_a_recipe_takes_from_the_package_is_there(name):
    text = (FOLDER/f'{name}.toml').read_text(encoding='utf-8')
    for taken in re.findall(r'from (transformer_nb[\w.]*) import (\w+)', text): assert resolve_name(':'.join(taken))


@pytest.mark.parametrize('name', recipe_names())
def test_what_they_give_makes_a_run(name):
    recipe, options = load_recipe(name), signature(train).parameters
    assert all(options[key].default is None for key in recipe.train), 'or nobody could tell what was typed'
    TrainingConfig(**{key: value for key, value in recipe.train.items() if hasattr(TrainingConfig, key)})
    preset(recipe.train['preset'], dropout=recipe.train.get('dropout', .1), norm=recipe.train.get('norm', 'post'))


def test_every_option_that_a_recipe_may_give_is_one_of_the_command():
    options = signature(train).parameters
    assert all(key in options and options[key].default is None for key in TABLES['train'])


@pytest.mark.parametrize('name', [name for name in recipe_names() if name.startswith('wmt14')])
def test_the_papers_runs_are_the_papers(name):
    recipe, size = load_recipe(name), name.split('-')[-1]
    german, french, *_ = TABLE2[f'Transformer ({size})']
    assert recipe.expected['bleu'] == (german if '-de-' in name else french)
    assert recipe.prepare['vocab_size'] == (37_000 if '-de-' in name else 32_000)
    wanted = {'base': (100_000, .1, 5), 'big': (300_000, .1 if '-fr-' in name else .3, 20)}[size]
    assert tuple(recipe.train[key] for key in ('steps', 'dropout', 'average_last')) == wanted
    assert recipe.train['batch_tokens']*recipe.train['grad_accum_steps'] == 25_000 and recipe.train['warmup'] == 4000
    assert recipe.decode == {'beam': 4, 'alpha': .6} and recipe.train['preset'] == size


@pytest.mark.parametrize('name, row', [('multi30k', 'multi30k-en-de'), ('tatoeba', 'tatoeba-eng-fra')])
def test_the_small_ones_are_what_was_measured(name, row):
    recipe, row = load_recipe(name), MEASURED[row]
    words = shlex.split(row['command'])[1:]
    typed = {option.removeprefix('--').replace('-', '_'): value for option, value in zip(words[::2], words[1::2])}
    typed = current_names(typed)  # it was typed before they got their names of today
    typed.pop('minutes', None)
    ours = {key: value for key, value in recipe.train.items() if key not in ('preset', 'steps', 'norm', 'threads')}
    assert {key: float(typed.pop(key)) if key != 'dtype' else typed.pop(key) for key in ours} == ours
    assert recipe.train['steps'] == row['steps'] == int(typed.pop('steps', row['steps']))  # made in so many minutes
    assert recipe.train['norm'] == typed.pop('norm', 'post')
    assert recipe.train['threads'] == int(typed.pop('threads', row['cores']))
    assert typed == {'data': typed['data'], 'src': recipe.data['src'], 'tgt': recipe.data['tgt']}
    assert recipe.train['preset'] == row['preset'] and recipe.data['pairs'] == row['pairs'] and not recipe.prepare
    expected = recipe.expected
    assert (expected['bleu'], expected['test'], expected['counted']) == (row['bleu'], row['test'], row['signature'])
    cores = f"{row['cores']} core{'s'*(row['cores'] > 1)}"
    assert expected['time'] == f"{row['minutes']:g} minutes, {row['steps']:,} steps, on {cores} of an {row['cpu']}"


@pytest.mark.parametrize('name', recipe_names())
def test_none_ends_by_the_clock(name):
    "Or it would end untrained on a busy machine."
    assert 'steps' in load_recipe(name).train and 'minutes' not in load_recipe(name).train


# Mistakes

TEXT = (FOLDER/'multi30k.toml').read_text(encoding='utf-8')


@pytest.mark.parametrize('text, named', [
    (TEXT.replace('warmup =', 'warm_up ='), '[train] warm_up: no such key; there are preset'),
    (TEXT.replace('warmup = 1000', 'warmup = "1000"'), "[train] warmup = '1000': give a whole number"),
    (TEXT.replace('warmup = 1000', 'warmup = true'), '[train] warmup = True: give a whole number'),
    (TEXT.replace('preset = "tiny"', ''), '[train] preset is missing; add it'),
    (TEXT.replace('[decode]', '[search]'), 'search: no table of a recipe; there are [data]'),
    (TEXT.partition('[decode]')[0], 'the table [decode] is missing; add it'),
    ('beam = 4\n' + TEXT, 'beam: no table of a recipe'),
    (TEXT.replace('steps = 2753', ''), '[train] gives neither steps nor minutes'),
    (TEXT.replace('beam = 4', 'beam = '), 'no TOML'),
    (TEXT.replace('fetch = [', 'fetch = [1, '), '[data] fetch = [1, '),
    ('\udcff' + TEXT, 'no TOML')])
def test_a_mistake_is_named_in_one_line(text, named, tmp_path):
    file = tmp_path/'mine.toml'
    file.write_bytes(text.encode('utf-8', 'surrogateescape'))
    for args in (('tnb-data', 'recipe', file), ('tnb-train', '--recipe', file, '--data', tmp_path)):
        status, out, err = tnb(*args, cwd=tmp_path)
        assert (status, out, len(err.splitlines())) == (2, b'', 1) and f'{file}: {named}' in err, err
    assert sorted(tmp_path.iterdir()) == [file]


def test_names_that_are_not_there(tmp_path):
    for name, named in (('wmt15', 'no such recipe; choose one of multi30k, tatoeba'),
                        ('no.toml', 'missing; check the path')):
        status, _, err = tnb('tnb-data', 'recipe', name, cwd=tmp_path)
        assert status == 2 and named in err and len(err.splitlines()) == 1, err


def test_a_recipe_wants_its_corpus(tmp_path):
    status, _, err = tnb('tnb-train', '--recipe', 'wmt14-en-de-base', cwd=tmp_path)
    assert status == 2 and len(err.splitlines()) == 1
    assert 'give a corpus with --data; tnb-data recipe wmt14-en-de-base shows how to make it' in err
    assert not list(tmp_path.iterdir())


def test_sentences_of_the_test_are_not_in_training(tmp_path):
    rows = [f'E{i}\tF{i}.{k}\tCC' for i in range(40) for k in range(i % 3 + 1)]
    (tmp_path/'fra.txt').write_text('\n'.join(rows) + '\n')
    split_tatoeba(tmp_path/'fra.txt', tmp_path/'out', held_out=4)
    corpus = load_corpus(str(tmp_path/'out'), 'eng', 'fra')
    sides = {name: {english for english, _ in corpus[name]} for name in ('train', 'val', 'test')}
    assert [len(sides[name]) for name in sides] == [32, 4, 4] and len(set.union(*sides.values())) == 40
    assert len(corpus['test']) == 4 < len(corpus['train'])
    (tmp_path/'bad.txt').write_text('one\ttwo\nthree\n')
    with pytest.raises(InputError, match='bad.txt:2: no tab'): split_tatoeba(tmp_path/'bad.txt', tmp_path/'new')
    (tmp_path/'fra.csv').write_text('one,two\n')
    with pytest.raises(InputError, match=r'fra.csv: its other side is missing; .*\.txt'):
        split_tatoeba(tmp_path/'fra.csv', tmp_path/'new')
    assert not (tmp_path/'new').exists()


def test_too_few_sentences_for_three_parts_are_told(tmp_path):
    (tmp_path/'fra.txt').write_text(''.join(f'E{i}\tF{i}\tCC\n' for i in range(8)))
    with pytest.raises(InputError, match='fra.txt: 8 English sentences, and 8 are held out'):
        split_tatoeba(tmp_path/'fra.txt', tmp_path/'out', held_out=4)
    assert not (tmp_path/'out').exists()


# What wins

def settings_of(run): return checkpoints.load(checkpoints.newest(run)).training


def test_what_is_typed_wins_and_a_resumed_run_keeps_its_own(tmp_path):
    for lang in ('eng', 'fra'): (tmp_path/f'train.{lang}').write_text(''.join(f'a dog {w} .\n' for w in 'abcdefgh'))
    run = ('--data', tmp_path, '--device', 'cpu', '--out', tmp_path/'run')
    typed = ('--steps', 2, '--batch-tokens', 256, '--vocab-size', 20, '--preset', 'tiny', '--threads', 1)
    status, _, err = tnb('tnb-train', '--recipe', 'wmt14-en-fr-big', *run, *typed)
    assert status == 0, err
    about = settings_of(tmp_path/'run')
    kept = about['settings']
    assert (about['recipe'], about['preset']) == ('wmt14-en-fr-big', 'tiny')
    assert (kept['steps'], kept['batch_tokens']) == (2, 256)
    assert (kept['grad_accum_steps'], kept['warmup'], kept['average_last'], kept['save_every']) == (8, 4000, 20, 600)
    status, _, err = tnb('tnb-train', '--resume', '--steps', 3, *run[2:])  # neither recipe nor corpus
    assert status == 0 and '3 steps' in err, err
    again = settings_of(tmp_path/'run')
    assert again['settings'] == kept | {'steps': 3} and again['recipe'] == 'wmt14-en-fr-big'
    status, _, err = tnb('tnb-train', '--resume', '--recipe', 'tatoeba', *run)
    assert status == 2 and len(err.splitlines()) == 1 and 'its run has' in err, err


@pytest.mark.parametrize('typed, length', [((), (100_000, None)), (('--minutes', '5'), (None, 5)),
                                           (('--steps', '9'), (9, None))])
def test_a_length_that_is_typed_takes_the_place_of_the_recipes(typed, length, tmp_path, monkeypatch):
    kept = []
    def stop(trainer): kept.append(trainer.cfg)
    monkeypatch.setattr('transformer_nb.cli._run', stop)
    monkeypatch.setattr('transformer_nb.cli.choose_threads', lambda trainer: None)
    tnb('tnb-train', '--recipe', 'wmt14-en-de-base', '--preset', 'tiny', '--data', 'builtin', '--corpus-size', 2000,
        '--vocab-size', 300, '--device', 'cpu', '--out', tmp_path/'run', *typed)
    assert (kept[0].steps, kept[0].minutes, kept[0].warmup) == (*length, 4000)


# The walk

def text_as_mtdata_leaves_it(folder):
    "A language of nine words, translated word by word: it is learned in seconds."
    rng = random.Random(0)
    folder.mkdir()
    for name, n in (('train', 1000), ('dev', 50), ('test1', 50)):
        rows = [rng.choices(list(WORDS), k=rng.randint(1, 3)) for _ in range(n)]
        (folder/f'{name}.eng').write_text(''.join(' '.join(row) + '\n' for row in rows))
        (folder/f'{name}.deu').write_text(''.join(' '.join(WORDS[word] for word in row) + '\n' for row in rows))


def printed(name):
    "(what, command) of `tnb-data recipe`, read from what it prints."
    status, out, _ = tnb('tnb-data', 'recipe', name)
    assert status == 0
    return re.findall(r'^# (\w+)\n(.+)$', out.decode(), re.M)


@pytest.mark.long(10)
def test_the_walk_ends_with_a_score_and_a_translation(tmp_path):
    "Every command that is printed, but those that fetch; each with the options of `SMALL` behind its own."
    text_as_mtdata_leaves_it(tmp_path/'wmt14-en-de')
    steps = [(what, command) for what, command in printed('wmt14-en-de-base') if what != 'fetch']
    assert [what for what, _ in steps] == ['clean', 'prepare', 'train', 'eval', 'translate']
    assert steps == [step for step in commands(load_recipe('wmt14-en-de-base')) if step[0] != 'fetch']
    answers = {}
    for what, command in steps:
        text, _, own = command.rpartition(' | ')
        stdin = shlex.split(text)[1].encode() if text else b''
        argv = shlex.split(f"{own} {SMALL.get(what, '')}")
        status, out, err = tnb(argv[0], *argv[1:], stdin=stdin, cwd=tmp_path)
        assert status == 0, err
        answers[what] = out.decode()
    about = settings_of(tmp_path/'runs/wmt14-en-de-base')
    assert (about['recipe'], about['src'], about['tgt']) == ('wmt14-en-de-base', 'eng', 'deu')
    assert (about['settings']['steps'], about['settings']['average_last']) == (140, 3) and about['shards']
    assert re.search(r'test1 +50 pairs +BLEU +[\d.]+  nrefs:1\|.*tok:13a', answers['eval'])
    chrf = float(re.search(r'chrF +([\d.]+)', answers['eval'])[1])
    assert chrf > 25, 'after 60 steps it was 18, after 140 steps 61'
    assert answers['translate'].count('\n') == 1 and answers['translate'].strip()


def test_many_gpus_are_started_together():
    command = dict(commands(load_recipe('wmt14-en-de-big'), gpus=4))['train']
    assert command.startswith('torchrun --standalone --nproc-per-node 4 --no-python tnb-train --recipe wmt14-en-de-big')
    status, _, err = tnb('tnb-data', 'recipe', 'multi30k', '--gpus', 0)
    assert status == 2 and 'give at least 1' in err
    with pytest.raises(InputError, match='--gpus 16: the recipe has 8 micro-batches a step; give at most 8'):
        commands(load_recipe('wmt14-en-de-base'), gpus=16)


def test_a_folder_with_a_space_is_quoted(tmp_path):
    text = (FOLDER/'wmt14-en-de-base.toml').read_text(encoding='utf-8')
    text = re.sub('^folder = .*', "folder = 'my corpus'", text, flags=re.M)
    (tmp_path/'mine.toml').write_text(text, encoding='utf-8')
    typed = dict(commands(load_recipe(tmp_path/'mine.toml')))
    assert "clean 'my corpus' " in typed['clean'] and "prepare 'my corpus-clean' " in typed['prepare']
    assert "--data 'my corpus-shards' " in typed['train']


def test_a_file_of_ones_own_is_walked_by_its_path(tmp_path):
    (tmp_path/'mine.toml').write_text(TEXT, encoding='utf-8')
    command = dict(commands(load_recipe(tmp_path/'mine.toml')))['train']
    assert f"--recipe {tmp_path/'mine.toml'} " in command and command.endswith('--out runs/mine')


def test_whatever_else_a_recipe_of_ones_own_says_it_is_described(tmp_path):
    text = (FOLDER/'wmt14-en-de-base.toml').read_text(encoding='utf-8')
    (tmp_path/'mine.toml').write_text(re.sub('^steps = .*', 'minutes = 5', text, flags=re.M), encoding='utf-8')
    (tmp_path/'bare.toml').write_text(text.partition('[prepare]')[0] + '[train]' + text.partition('[train]')[2])
    for file in ('mine.toml', 'bare.toml'):
        found = describe(load_recipe(tmp_path/file))
        assert 'Expected: BLEU 27.3' in found and found.endswith('Time there: 12 hours on 8 P100')


@pytest.mark.slow
@pytest.mark.skipif(not NEWS.exists(), reason='the news test sets of WMT are not beside this repository')
def test_the_dry_run_on_news(tmp_path):
    "The rehearsal that is in benchmarks/results/dry_run.json, in less time."
    script = [sys.executable, ROOT/'benchmarks/dry_run.py', NEWS, '--minutes', '0.5']
    done = subprocess.run([*script, '--place', tmp_path/'place', '--out', tmp_path/'found.json'], capture_output=True)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path/'found.json').read_text())
    assert found['pairs'] == 13_573 and [step['what'] for step in found['steps']][-2:] == ['eval', 'translate']
    assert 'tok:13a' in found['signature'] and 0 <= found['bleu'] < 100
    test = {line for lang in ('eng', 'deu') for line in (tmp_path/'place/wmt14-en-de'/f'test1.{lang}').open()}
    train = [(tmp_path/'place/wmt14-en-de-clean'/f'train.{lang}').open() for lang in ('eng', 'deu')]
    assert len(test) > 900 and not test & {line for side in train for line in side}
