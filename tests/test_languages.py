"Pages, tasks and diagnoses in Japanese, Chinese and Korean say what the English says today."
import ast
import json
import re
import sys
from collections import Counter
from contextlib import contextmanager
from functools import partial
from unicodedata import east_asian_width
from unittest.mock import patch

import pytest
import torch
from conftest import ROOT, tnb

sys.path.insert(0, str(ROOT/'tools'))
import build_glossary
import build_languages as pages
import site_course
from notebooks import read, text_of
from site_words import add_scripts, write_words

from transformer_nb.course import exercises as ex
from transformer_nb.course.widgets import WIDGETS, beam_data, widget
from transformer_nb.course.viewer import Viewer

LANGUAGES = list(pages.NAMES)
SCRIPTS = {'ja': r'[ぁ-んァ-ヶ一-鿿]', 'zh': r'[一-鿿]', 'ko': r'[가-힣]'}


def ours():
    "The lessons and what stands beside them; not the tasks' source, nor the pages made here."
    paths = sorted(pages.NBS.rglob('*.ipynb'))
    return [p for p in paths if not {'languages', 'tasks'} & set(p.relative_to(pages.NBS).parts)]


def columns(text, name):
    "The cells under a heading in the tables of a Markdown text."
    rows = [line.strip().strip('|').split(' | ') for line in text.splitlines() if line.startswith('| ')]
    heads = [row for row in rows if name in map(str.strip, row)]
    if not heads: return []
    at = [cell.strip() for cell in heads[0]].index(name)
    return [row[at].strip() for row in rows if len(row) == len(heads[0]) and row not in heads]


def written_in(language):
    "All texts in a language, each with the place where it stands: translations, summaries, columns, sections."
    yield from ((f'{language}.json', text) for text in ex.translations(language).values())
    yield from ((f'{language}.json', said[language]) for said in ex.exercise_translations(language).values())
    for number in pages.LESSONS:
        yield from ((f'{language}/{number}.json', text) for text in pages.texts_of(language, number).values())
    name = pages.NAMES[language]
    section = re.compile(rf'^(?:## {name}|<details><summary>{name}</summary>)$\n(.*?)(?=^## |^:::|^</details>|\Z)',
                         re.M | re.S)
    for path in ours():
        for cell in (text_of(c) for c in read(path)['cells'] if c['cell_type'] == 'markdown'):
            yield from ((path.name, text) for text in section.findall(cell) + columns(cell, name))


@pytest.mark.parametrize('language', LANGUAGES)
def test_all_general_words_are_translated(language):
    assert pages.faults(language) == []


@pytest.mark.slow
@pytest.mark.parametrize('language', LANGUAGES)
def test_every_text_of_the_exercises_is_translated_as_it_stands_today(language):
    "Before a release; until then what waits for its translation is English and listed, and stops nobody."
    assert pages.waiting(language) == []


@pytest.mark.parametrize('language', LANGUAGES)
def test_english_that_has_changed_is_listed(language, monkeypatch):
    "One word of a hint, a new hint and a mistake that is no more; the reader gets today's English."
    monkeypatch.setenv('TNB_LANG', language)
    e, before = ex.find('01.2'), pages.waiting(language)
    first, *others = e.hints
    faults = {'cut': e.faults['cut'], 'start': [('numbers', *e.faults['start'][0][1:])]}
    monkeypatch.setattr(e, 'hints', (first + ' Look!', *others, 'A new one'))
    monkeypatch.setattr(e, 'faults', faults)
    assert [line for line in pages.waiting(language) if line not in before] == [
        f'{language}/01.2/hint/3: not translated: A new one',
        f'{language}/01.2/hint/1: its English is now: {first} Look!',
        f'{language}/01.2/fault/added: is no more', f'{language}/01.2/fault/nothing-seen: is no more']
    assert ex.hint('01.2') == f"{first} Look! (One more: hint('01.2', 2))"
    assert ex.hint('01.2', 3) == 'A new one' and not ex.hint('01.2', 2).isascii()
    assert pages.Speaker(language, '01').say_of(e, 'hint/3') == f'{pages.MISSING[language]} A new one'


def marked(text):
    "What is the same in all languages: formulas, code, names in braces, links."
    return Counter(re.findall(r'```.*?```|\$[^$]+\$|`[^`]+`|\{\w+(?:[:!][^{}]*)?\}|\]\([^)]+\)', text, re.S))


@pytest.mark.parametrize('language', LANGUAGES)
def test_formulas_and_code_stay_as_they_are(language):
    for text, translation in ex.translations(language).items(): assert marked(translation) == marked(text), text
    for id, said in ex.exercise_translations(language).items(): assert marked(said[language]) == marked(said['en']), id


@pytest.mark.parametrize('text, altered', [
    ('$d_k$', '$d_v$'), ('`q`', '`k`'), ('{right}', '{got}'), ('{lesson:<3}', '{lesson}'), ('{right:2}', '{n:2}'),
    ('{x!r}', '{x}'), ('[here](#layernorm)', '[here](#norm)')])
def test_what_is_lost_in_a_translation_is_seen(text, altered):
    "A name in braces counts with its format: without it the columns of `cards` would not stand in line."
    assert marked(f'a {text} b') == marked(f'{text}。') != marked(f'a {altered} b')


@pytest.mark.parametrize('language', LANGUAGES)
def test_it_is_written_in_that_language(language):
    "Few texts have no word in them: names and formulas."
    script = re.compile(SCRIPTS[language])
    texts = [*ex.translations(language).values(), *(t[language] for t in ex.exercise_translations(language).values())]
    foreign = [text for text in texts if not script.search(text)]
    assert len(foreign) <= .02*len(texts), foreign
    if language == 'zh': assert not any(re.search('[ぁ-んァ-ヶ가-힣]', text) for text in texts)
    if language == 'ko': assert not any(re.search('[ぁ-んァ-ヶ]', text) for text in texts)


def inverted(n): return ~ex.find('01.2').answer()(n)


@pytest.mark.parametrize('language', LANGUAGES)
def test_check_and_hint_answer_in_the_language(language, monkeypatch, tmp_path):
    monkeypatch.setenv('TNB_PROGRESS', str(tmp_path/'progress.json'))
    monkeypatch.setenv('TNB_LANG', f'{language}_XX.UTF-8')
    e, table = ex.find('01.2'), ex.translations(language)
    def said(name): return ex.exercise_translations(language)[f'01.2/{name}'][language]
    result = ex.check('01.2', inverted)
    assert result.mistake == 'inverted' and result.text.startswith(said('fault/inverted'))
    assert result.text.endswith(table['. '] + table['A hint: {call}'].format(call="hint('01.2')"))
    assert ex.check('01.2', lambda n: e.answer()(n)[1:]).text.startswith(
        table["the shape is {got}, not {right}, for {args}"].format(got=(0, 1), right=(1, 1), args='(1)'))
    assert ex.hint('01.2', 2) == said('hint/2')
    assert ex.check('01.2', e.answer()).text == table['right']
    both = ex.check('01.2', lambda n: inverted(n).float())
    assert both.mistake == 'inverted+numbers' and both.text.startswith(
        table['{first}; and {second}'].format(first=said('fault/inverted'), second=said('fault/numbers')))
    assert ex.solution('01.8').startswith(ex.exercise_translations(language)['01.8/solution'][language])


@pytest.mark.parametrize('language', LANGUAGES)
def test_every_diagnosis_is_in_one_language(language, monkeypatch):
    "The reader's, in all lessons, and the way to a hint as well."
    monkeypatch.setenv('TNB_LANG', language)
    table, done = ex.translations(language), 0
    for e in (ex.find(e.id) for e in ex.exercises()):
        for name in e.diagnoses():
            if e.tongue(f'fault/{name}') == 'en': continue  # it waits
            said = e.known_mistake(name).text
            start, end = e.say(f'fault/{name}'), table['A hint: {call}'].format(call=f"hint('{e.id}')")
            assert said.startswith(start) and said.endswith(end)
            assert said[len(start):-len(end)] in (table['. '], table[' ']), said
            done += 1
    assert done > 1500


def test_an_answer_without_translation_is_all_english(monkeypatch):
    "A diagnosis that nobody has translated has the way to a hint in English, too."
    monkeypatch.setenv('TNB_LANG', 'ja')
    e = ex.find('01.2')
    monkeypatch.setattr(e, 'faults', e.faults | {'new': [('new', None, 'a new diagnosis')]})
    assert e.known_mistake('new').text == "a new diagnosis. A hint: hint('01.2')"
    assert e.known_mistake('inverted+new').text == (
        f"{e.diagnoses()['inverted']}; and a new diagnosis. A hint: hint('01.2')")


@pytest.mark.parametrize('language', LANGUAGES)
def test_the_list_of_exercises_and_a_task_are_in_the_language(language, monkeypatch, tmp_path):
    monkeypatch.setenv('TNB_PROGRESS', str(tmp_path/'progress.json'))
    monkeypatch.setenv('TNB_LANG', language)
    table, e = ex.translations(language), ex.find('11.1')
    title, task = (ex.exercise_translations(language)[f'11.1/{name}'][language] for name in ('title', 'task'))
    assert ex.task('11.1').startswith(f"**11.1 {title}** {task}")
    rows = repr(ex.exercises('11')).splitlines()
    def wide(text): return sum(1 + (east_asian_width(c) == 'W') for c in text)
    assert len({wide(row[:row.index(ex.find(e.id).say('title'))]) for row, e in zip(rows[1:], ex.exercises('11'))}) == 1
    assert table[e.kind] in rows[1]
    assert not re.search('[a-z]{4}', re.sub('`.*?`', '', rows[0]))


def test_another_language_gets_english(monkeypatch):
    monkeypatch.setenv('TNB_LANG', 'fr_FR')
    with pytest.warns(UserWarning, match='known are en, ja'): assert ex.localized('right') == 'right'


def test_every_text_of_check_can_be_translated():
    "Each general text of `check` is written where `localized` is called, for the tool finds it there."
    said = pages.spoken()
    assert 'right' in said and len(said) >= 15
    source = (ROOT/'transformer_nb/course/exercises.py').read_text(encoding='utf-8')
    assert not re.search(r"result\('[\w-]+', f?\"", source)
    for language in LANGUAGES: assert set(said) <= ex.translations(language).keys()


def test_every_lesson_begins_with_a_summary_in_four_languages():
    "README says so in three of them. (The glossary and the questions are in four languages themselves.)"
    def summed_up(path):
        cells = [text_of(c) for c in read(path)['cells'][:4]]
        folds = [re.findall('^<details><summary>(.*)</summary>$', text, re.M) for text in cells]
        return ['In short', *pages.NAMES.values()] in folds
    lessons = [p for p in ours() if p.name not in ('index.ipynb', 'glossary.ipynb', 'questions.ipynb')]
    assert [str(p.relative_to(pages.NBS)) for p in lessons if not summed_up(p)] == [] and len(lessons) > 45


def test_readme_names_the_lessons_that_are_translated():
    "The exercises of all lessons are, and the first lessons whole."
    lessons = dict.fromkeys(e.lesson for e in ex.exercises())
    for language in LANGUAGES:
        done = {id.split('.')[0] for id in ex.exercise_translations(language)}
        assert done == {*lessons} and pages.LESSONS == tuple(lessons)[:len(pages.LESSONS)]
        said, = (text for where, text in written_in(language) if where == 'index.ipynb' and 'TNB_LANG' in text)
        assert f' {pages.LESSONS[0]}–{pages.LESSONS[-1]} ' in said.replace('）', ' ').replace(')', ' ')


@pytest.mark.parametrize('language', LANGUAGES)
def test_a_lesson_has_one_title(language):
    "On the page of the language and in README's table, if both have the same title in English."
    table, readme = ex.translations(language), (ROOT/'README.md').read_text(encoding='utf-8')
    heads = [pages.head_of(pages.lesson(n)[1])[0] for n in pages.LESSONS]
    rows = [(head, row) for head in heads for row in re.findall(rf'^\|.*\[\d\d\w? {head}\]\(.*', readme, re.M)]
    column = LANGUAGES.index(language) - len(LANGUAGES)
    titles = {head: row.strip('| ').split(' | ')[column] for head, row in rows}
    assert titles == {head: table[head] for head in titles} and len(titles) > 3


# What is not to be written, as a pattern, and what is right instead: the glossary's term, or the style of the pages.
NOT = {
    'ja': {
        r'(?:です|ます|ません|ました|ください)：': '。', r'\d %': '97%', r'は\{wanted\}': '（正しい型：{wanted}）',
        r'(?<![A-Za-z{])id(?![A-Za-z}])': 'ID', r'(?<!（)(?:post|pre)-norm': 'Post-LN（post-norm）',
        '[二三四][乗倍]': '2 乗、2 倍', 'リカレント': '再帰型', 'ベースモデル': 'base モデル',
        'ソフトマックス(?!関数)': 'softmax', 'ビーム$': 'ビーム幅', 'Attention(?= ?[はがをの])': 'アテンション',
        '除数': '割る数', 'ディレクトリ|フォルダー': 'フォルダ', '括弧': 'かっこ', '清掃': 'クリーニング',
        '配備': 'デプロイ', '六つの部品': '六つのウィジェット',
        '[ぁ-んァ-ヶ一-鿿][A-Za-z0-9]|[A-Za-z0-9][ぁ-んァ-ヶ一-鿿]': '字 A 字',
    },
    'zh': {
        '宽': '维数', '维度': '维数', '操作数': '操作次数', '内核': '算子', '真假值': '布尔值',
        '这些是数(?!值)': '数值', '分数的轴|一个分数': '得分', '包装(?!器)': '包装器', '代码单元(?!格)': '单元格',
        '做注意力': '计算注意力', '，像[^，。；：]*那样': '像…那样，…', r' “|” ': '“…”', r'\d %': '97%',
        r'不是\{wanted\}|应为 \{wanted\}': '应为：{wanted}',
        r'(?<!（)(?:post|pre)-norm': '后置归一化（post-norm，即 Post-LN）',
        '归一化、前置归一化$': '前置归一化（pre-norm，即 Pre-LN）', '基础模型': 'base 模型', '杀死': '强行终止',
        '严格证明': '精确验证',
        '[一-鿿][A-Za-z0-9]|[A-Za-z0-9][一-鿿]': '字 A 字',
    },
    'ko': {
        '너비|폭': '차원', '인수|배율': '계수', '피드포워드 네트워크': '피드포워드 신경망', '[첫둘셋]째': '첫 번째',
        '기계': '컴퓨터', '소프트맥스(?! 함수)': 'softmax', '나눗수': '나누는 수', '디렉터리': '폴더',
        '기본 모델': 'base 모델', '빔$': '빔 크기', r'정칙화(?!\()': '정칙화(regularization)',
        '만든 글': '인위적으로 만든 텍스트', '토큰 개수의 제곱근': '어휘 크기의 제곱근', r"'[가-힣][^']*'": '‘…’',
        r'\d %': '97%', r'이\(가\)': '…', r'(?<!\()(?:post|pre)-norm': '사후 정규화(post-norm)',
    },
}
BUT = {  # where the word means something else, such as the width of a kernel or a window, or is English
    'ja': ('最小二乗法', 'post-norm, pre-norm'),
    'zh': (
        'post-norm, pre-norm',
        '束宽', '窗口宽', '宽度为 1 的卷积', '可以有多宽', '宽度相同时，权重', '而不是宽', '一半的宽度',
        '三分之一的宽度', '网络宽 4', '叫做注意力', '有的只有三个词宽，有的宽到整个句子',
    ),
    'ko': (
        'post-norm, pre-norm', '두 인수', '폭이 1인 합성곱', '같은 폭으로 움직', '기계 번역', '증폭', '폭발',
        '그 폭이 단어 세 개', '에폭',
    ),
}


@pytest.mark.parametrize('language', LANGUAGES)
def test_each_term_has_one_translation(language):
    "What a reader of the language once found wrong is written nowhere; code and formulas are left out."
    found = []
    for where, text in written_in(language):
        words = re.sub(r'```.*?```|`[^`]*`|\$[^$]*\$|\]\([^)]*\)', '', text, flags=re.S)
        for phrase in BUT[language]: words = words.replace(phrase, '')
        found += [f'{where}: {again[0]} → {right}: {text[:80]}'
                  for wrong, right in NOT[language].items() if (again := re.search(wrong, words))]
    assert found == []


# Single statements that once were wrong or not idiomatic: the words that held the fault.
ONCE = {
    'ja': (
        'どの単語も同じベクトルになります', '`V` に分割したら', 'ほんのわずかな学習コスト', '四つの行のうち',
        '「割り」ます', '12 のネットワーク', '二つになります', '800 の文対', '使うのではありません', '§3.3 は、',
        '層は狭くなって', '別の訳を引き', '参照訳のそれ', 'どちらも学習していない', '何も教えない',
        '二つの言語のために一度だけ', '数えてあり', 'メモリの二倍ある', '出力がほとんど変わって', 'ルートを忘れた',
        '長い学習の備え',
    ),
    'zh': (
        '同一幅图，加上', '既有头，“也有”查询', '要求证明', '评测一个小型分析器', '第 {lesson:<3} 课',
        '分数是最后一个轴', '全宽度的头', '的包装里', '32 宽', 'd_k 宽', '越来越宽', '在每个头里做',
    ),
    'ko': (
        '단어마다 같은 벡터를', '토큰 개수의', '나눌 지수 값들', '기울기를 계산하는 파라미터', '`x`까지 지워',
        '0 · ∞은', '1보다 클 수 있나요? | 아닙니다', '셀프 어텐션의 세 가지', '세어 둘 다', '위치에만 따라',
        '모든 위치를 겪게', '값들이 넘겨준 것', '후대의', '우리가 만든 글', 'b_1을 최댓값 다음에', '증거를 요구',
        '가르치지 않거나', '지도처럼', '])` 실행', '구문 하나는', '구문 |',
        '긴 학습의 대비',
    ),
}


@pytest.mark.parametrize('language', LANGUAGES)
def test_a_statement_that_was_corrected_stays_so(language):
    "Formulas and code are part of these texts, and so is README, for the rows of its tables."
    texts = [*written_in(language), ('README.md', (ROOT/'README.md').read_text(encoding='utf-8'))]
    assert [(where, wrong) for wrong in ONCE[language] for where, text in texts if wrong in text] == []


@pytest.mark.parametrize('language', LANGUAGES)
def test_what_reads_the_texts_reads_all_of_them(language):
    "Summaries, the glossary's column and its answers, README's column and its section."
    places = Counter(where for where, _ in written_in(language))
    assert places['glossary.ipynb'] > 100 and places['questions.ipynb'] == 1 and places['index.ipynb'] > 50
    prose = {f'{language}/{number}.json' for number in pages.LESSONS}
    assert set(places) == {p.name for p in ours()} | {f'{language}.json'} | prose


# The glossary

# Code, such as √d_k and max(0, x), signs, numbers, single letters but a and I
FORMULA = re.compile(r"`[^`]+`|[A-Za-z]+[_^][A-Za-z]+|max\(.*?\)|[√∞−·π]|\d+|(?<!')\b[b-zB-HJ-Z]\b", re.ASCII)
TERM = re.compile(r'^\| \[(.+?)\]\((.+?)\) \| (.+) \|$', re.M)


def formulas(text): return Counter(FORMULA.findall(text))


def terms(title):
    "The glossary's rows in a language or in English: the term, its link, and the other columns."
    fold = re.compile(rf'^<details(?: open)?><summary>{title}</summary>\n(.*?)^</details>', re.M | re.S)
    cells = [text_of(c) for c in read(build_glossary.NOTEBOOK)['cells']]
    rows = [row for cell in cells for table in fold.findall(cell) for row in TERM.findall(table)]
    return [(term, link, rest.split(' | ')) for term, link, rest in rows]


@pytest.mark.parametrize('formula, altered', [
    ('√d_k', 'd_k'), ('max(0, x)', 'max(0, y)'), ('2π', '3π'), ('W^Q', 'W^K'), ('−∞', '∞'), ('q·k', 'q, k'),
    ('`>>fra<<`', '`>>deu<<`'), ('e', 'd'), ('0/0', '0')])
def test_a_formula_of_a_definition_is_seen(formula, altered):
    "Among words of any language, as they are written in it."
    assert formulas(f'the one with {formula}') == formulas(f'하나의 {formula}로') == formulas(f'一つの {formula} です')
    assert formulas(f'一个 {formula}。') != formulas(f'一个 {altered}。')


@pytest.mark.parametrize('language', LANGUAGES)
def test_every_term_of_the_glossary_has_a_definition_in_the_language(language):
    "With the same link and the same formulas; a number may be written as a word in English."
    english, ours = terms('English'), terms(pages.NAMES[language])
    assert len(english) > 130 and len(ours) == len(english)
    for (term, link, (*names, meaning)), (name, to, (also, said)) in zip(english, ours):
        assert (name, to, also) == (names[LANGUAGES.index(language)], link, term)
        assert re.search(SCRIPTS[language], said) and said.endswith('.' if language == 'ko' else '。'), said
        assert marked(said) == marked(meaning)
        assert formulas(meaning) <= formulas(said), said
        assert not re.search(r'\D', ''.join(formulas(said) - formulas(meaning))), said


@pytest.mark.parametrize('language', LANGUAGES)
def test_the_glossary_says_what_its_english_says_today(language):
    assert build_glossary.faults(language) == []


def test_the_glossary_is_in_step():
    assert build_glossary.rewritten() == build_glossary.NOTEBOOK.read_text(encoding='utf-8'), 'tools/build_glossary.py'


def test_a_definition_without_translation_is_english_and_is_named(monkeypatch):
    texts = build_glossary.texts_of('ko')
    gone = 'One of these attentions'
    monkeypatch.setattr(build_glossary, 'texts_of', lambda language: {k: v for k, v in texts.items() if k != gone})
    assert build_glossary.faults('ko') == [f'ko: not translated: {gone}']
    assert f'| head | {pages.MISSING["ko"]} {gone} |' in build_glossary.rewritten()


# No English in an answer

EXAMPLE = re.compile(r'```.*?```|`[^`]*`|\$[^$]*\$|\*\*|\*[^*]+\*|“[^”]*”|「[^」]*」|‘[^’]*’', re.S)
PYTHON = re.compile('not callable|no attribute|could not convert|element tensors can|Boolean value of')  # its errors
TASKS = ROOT/'transformer_nb/course/tasks'


def english(texts, known='', run=4):
    "Texts with so many English words in a row that are neither code nor examples, nor all among those that are known."
    runs, known = re.compile(rf'[A-Za-z]{{2,}}(?: [A-Za-z]+){{{run - 1},}}'), {*re.findall('[A-Za-z]+', known)}
    foreign = [(text, {*found.split()} - known) for text in texts for found in runs.findall(EXAMPLE.sub('', text))]
    return [text for text, unknown in foreign if unknown]


def test_english_is_seen():
    texts = ['答え：nothing came back yet', 'これは `a b c d` と“a dog runs now”', "('the dog runs now .')"]
    assert english(texts, 'now the dog runs') == texts[:1] and english(texts) == [texts[0], texts[2]]


def questions(e): return list(e.inputs(torch.Generator().manual_seed(0))) if issubclass(e, ex.Write) else []


def answers(e):
    "What the functions say of an exercise, and of answers that make no sense."
    if waits(e): return []
    said = [ex.task(e.id), *(ex.hint(e.id, n) for n in range(len(e.hints) + 2)), ex.solution(e.id)]
    with patch.object(ex, 'remember'):
        said += [ex.check(e.id, mine, 0).text for mine in (None, ..., -12345, [], *ex.GARBAGE)]
    return [text for text in said if not PYTHON.search(text)]


def waits(e): return e.tongue(*(name for name, text in e.texts().items() if pages.has_words(text))) == 'en'


@contextmanager
def computed_once():
    "What an answer gives to the same questions is the same in every language: in this block it is kept."
    outcomes, kept = ex.Write.outcomes.__func__, {}

    def remembered(cls, answer, *asked):
        changed = {name: id(part) for name, part in answer.keywords.items()} if isinstance(answer, partial) else {}
        key = cls, getattr(answer, 'func', answer), str(changed)
        found, more = kept.setdefault(key, ([], outcomes(cls, answer, *asked)))
        yield from found
        for one in more:
            found.append(one)
            yield one

    with patch.object(ex.Write, 'outcomes', classmethod(remembered)): yield


def test_no_answer_is_in_english(monkeypatch, tmp_path):
    "Of `task`, `hint`, `check`, `exercises`, `cards` and the command, for all exercises in all languages."
    monkeypatch.setenv('TNB_PROGRESS', str(tmp_path/'progress.json'))
    done = Counter()
    for e in (ex.find(entry.id) for entry in ex.exercises()):
        asked = repr(questions(e))
        with computed_once():
            for language in LANGUAGES:
                monkeypatch.setenv('TNB_LANG', language)
                said = answers(e)
                done[language] += len(said)
                assert english(said, asked) == []
            if not waits(e): ex.check(e.id, ex.GARBAGE[-1], 0)  # which is remembered
    for language in LANGUAGES:
        monkeypatch.setenv('TNB_LANG', language)
        status, out, err = tnb('tnb-progress')
        assert (status, err) == (0, '') and out.decode() == ex.cards() + '\n'
        lines = [line for line in ex.cards().splitlines() if not PYTHON.search(line)]
        assert english([*lines, repr(ex.exercises())]) == [] and len(lines) > 200 and done[language] > 1500


WORDLESS = {}  # what is below of exercises whose outcomes are the same in every language


def different(e):
    "The questions, and for each mistake the first one that shows it: its number, what is given, what is right."
    if e in WORDLESS: return WORDLESS[e]
    with patch.object(ex, 'language', wraps=ex.language) as tongue:
        asked = questions(e)
        right = list(e.outcomes(e.answer(), asked))
        found = asked, [next((k, got, right[k]) for k, got in enumerate(e.outcomes(wrong, asked))
                             if not ex.allclose(got, right[k])) for _, wrong in e.mistakes()]
    if not tongue.called: WORDLESS[e] = found
    return found


def unlike(e):
    "What would be said of each mistake if it were not known, and the questions. Errors are Python's, in its words."
    asked, shown = different(e)
    for k, got, right in shown:
        mistake, text, *_ = ex.difference(got, right, asked[k])
        if mistake != 'error': yield text, repr(asked)


@pytest.mark.parametrize('language', LANGUAGES)
def test_no_difference_is_told_in_english(language, monkeypatch):
    "Tasks put words into what they compare, such as whether a file is left; those of the questions are examples."
    monkeypatch.setenv('TNB_LANG', language)
    told = [found for entry in ex.exercises() if issubclass(e := ex.find(entry.id), ex.Write) for found in unlike(e)]
    assert [text for text, known in told if english([text], known, run=3)] == [] and len(told) > 800


def test_what_a_task_raises_is_translated():
    "But not what is raised only to be caught, or in place of Python and the library."
    nodes = [n for path in TASKS.glob('*.py') for n in ast.walk(ast.parse(path.read_text(encoding='utf-8')))]
    calls = [n.exc for n in nodes if isinstance(n, ast.Raise) and isinstance(n.exc, ast.Call)]
    texts = [ast.unparse(arg) for call in calls for arg in call.args]
    assert {text for text in texts if re.match("f?['\"]", text) and ' ' in text} == {
        "'No space left on device'", "'unequal or empty'", "'no memory left'"}


def test_a_name_of_a_mistake_has_one_diagnosis():
    "`progress` keeps the name."
    for e in (ex.find(entry.id) for entry in ex.exercises()):
        parts = (*e.faults.values(), e.properties) if issubclass(e, ex.Write) else [e.wrong.values()]
        assert {*e.diagnoses().values()} == {row[-1] for rows in parts for row in rows}, e.id


@pytest.mark.parametrize('language', LANGUAGES)
def test_who_has_changed_the_language_reads_diagnoses_in_the_new_one(language, monkeypatch, tmp_path):
    monkeypatch.setenv('TNB_PROGRESS', str(tmp_path/'progress.json'))
    monkeypatch.setenv('TNB_LANG', 'en')
    asked = [('01.2', inverted), ('01.7', 800)]
    for id, mine in asked: assert english([ex.check(id, mine).text])
    monkeypatch.setenv('TNB_LANG', language)
    *_, first, second = ex.cards().splitlines()
    assert first.startswith(f"01.2: {ex.exercise_translations(language)['01.2/fault/inverted'][language]}")
    assert english([first, second]) == []


def test_an_exercise_that_is_no_more_keeps_its_line(monkeypatch, tmp_path):
    monkeypatch.setenv('TNB_PROGRESS', str(tmp_path/'progress.json'))
    ex.remember(ex.Result('01.99', False, 'not quite', 'other'))
    assert ex.cards().endswith('\n\n01.99: not quite')


# Scripts: what they show they give to `say`

SCRIPTS_OF = [ROOT/'transformer_nb/assets/widgets', pages.SITE_LIBS]
WORDS = re.compile('[A-Za-z]{2,} [a-z]{2,}')
NOT_SHOWN = re.compile('use strict|btn btn-|main pre|main details|attention decoder|auto repeat|color-mix')


@pytest.mark.parametrize('folder', SCRIPTS_OF, ids=lambda folder: folder.name)
def test_scripts_say_all_their_words(folder):
    "A text of two words in a script without `say` would be English on every page; none is put together of pieces."
    said, found = {*pages.said_in(folder)}, []
    for path in folder.rglob('*.js'):
        script = re.sub(r'^\s*//.*| // .*', '', path.read_text(encoding='utf-8'), flags=re.M)
        texts = [''.join(m) for m in re.findall(r"'([^'\n]*)'|\"([^\"\n]*)\"|`([^`]*)`", script)]
        found += [text for text in texts if WORDS.search(re.sub(r'\$\{.*?\}', '', text)) and text not in said]
    assert [text for text in found if not NOT_SHOWN.match(text)] == [] and len(said) > 20


LOOK = """
const seen = new Set()
const look = () => document.querySelectorAll('.tnb-widget *').forEach(e => {
  const own = [...e.childNodes].filter(node => node.nodeType === 3).map(node => node.data)
  for (const text of [...own, e.ariaLabel, e.ariaValueText]) if (text) seen.add(text)
})
document.querySelectorAll('.tnb-widget').forEach(e => seen.add(e.ariaLabel))
look()
document.querySelectorAll('.tnb-widget button').forEach(b => { b.click(); look() })
document.querySelectorAll('.tnb-widget select').forEach(s => [...s.options].forEach((_, i) => {
  s.selectedIndex = i
  s.onchange()
  look()
}))
document.querySelectorAll('.tnb-widget input').forEach(i => [i.min, i.max].forEach(value => {
  i.value = value
  i.oninput()
  look()
}))
return [...seen]"""
NAMES = {'d_k', 'd_model', 'softmax', 'reshape', 'transpose', 'base', 'NaN', 'the', 'dog', 'rested', 'pad'}


def told_by_widgets(language, browser, folder, monkeypatch):
    "All that the six widgets show or say aloud while they are moved."
    monkeypatch.setenv('TNB_LANG', language)
    Viewer(''.join(widget(name).html for name in WIDGETS)).save(folder/'page.html')
    browser.open((folder/'page.html').as_uri())
    return browser.play(LOOK)


@pytest.mark.parametrize('language', LANGUAGES)
def test_no_widget_speaks_english(language, browser, monkeypatch, tmp_path):
    "Nothing that it shows has a word of its English texts, but for names of the code and the words of the sentence."
    texts = told_by_widgets(language, browser, tmp_path, monkeypatch)
    def words(text): return {*re.findall('(?<![A-Za-z_])[A-Za-z][A-Za-z_]+', re.sub(r'\{\w+\}', '', text))} - NAMES
    english = set().union(*map(words, pages.of_widgets()))
    examples = json.dumps(beam_data(), ensure_ascii=False)
    found = [text for text in texts if words(text) & english and re.sub(' [×■]$', '', text) not in examples]
    assert found == [] and len(texts) > 150 and len(english) > 100
    assert not any(re.search(r'\{\w+\}|undefined', text) for text in texts)


@pytest.mark.parametrize('language', LANGUAGES)
def test_a_widget_of_a_translated_lesson_has_its_words_and_the_same_numbers(language):
    said = str([shown for number in ('01', '05') for cell in json.loads(pages.notebook(language, number))['cells']
                for shown in cell.get('outputs', [])])
    for name in ('scores', 'masks', 'clock'):
        assert f'data-widget="{name}"' in said and ex.translations(language)[WIDGETS[name][0]] in said
    english, = (''.join(out['data']['text/html']) for c in read(pages.NBS/'05_positional_encoding.ipynb')['cells']
                for out in c.get('outputs', []) if 'data-widget="clock"' in str(out))
    given = re.search("data-given='(.*?)'", english)[1]
    assert given in pages.Speaker(language, '05').widget(english) != english


@pytest.mark.parametrize('language', LANGUAGES)
def test_the_site_has_the_words_of_its_scripts(language, tmp_path):
    (tmp_path/'site_libs').mkdir()
    write_words(tmp_path)
    script = (tmp_path/f'site_libs/words.{language}.js').read_text(encoding='utf-8')
    words = json.loads(script.removeprefix('globalThis.translations = '))
    assert [*words] == pages.said_in(pages.SITE_LIBS) and words.items() <= ex.translations(language).items()
    lang = {'zh': 'zh-Hans'}.get(language, language)
    page = add_scripts(f'<html lang="{lang}"><head></head>', '../')
    assert f'<head><script src="../site_libs/words.{language}.js" defer></script><script ' in page
    assert 'words' not in add_scripts('<html lang="en"><head></head>', '')


# The first lessons whole

WHOLE = [(language, number) for language in LANGUAGES for number in pages.LESSONS]


@pytest.mark.parametrize('number', pages.LESSONS)
def test_a_lesson_is_its_pieces(number):
    "What stays and what is translated are together the whole text, so nothing of a lesson can be lost."
    for text in pages.lesson(number)[1]['markdown']:
        assert ''.join(stays + part for stays, part in pages.pieces(text)) == text


def code(cell):
    "A cell's code without the directives, which name captions and modules."
    return re.sub(r'^#\|.*\n', '', text_of(cell), flags=re.M)


def shown(cell):
    """What a cell has put out, of a widget its data, of a viewer its maps without their titles, and nothing of links;
    of a question that nobody has answered nothing."""
    if re.search(r"^check\('", text_of(cell), re.M): return []
    outputs = [re.sub(r'\]\([^)]*\)', '', str(out).replace("', '", '')) for out in cell['outputs']]
    found = [re.search('data-widget=.*?data-given=.*?>|data-maps=".*?"', out) for out in outputs]
    return [re.sub('&quot;title&quot;:&quot;.*?&quot;', '', data[0]) if data else out
            for data, out in zip(found, outputs)]


@pytest.mark.parametrize('language, number', WHOLE)
def test_code_and_outputs_are_those_of_the_english_lesson(language, number):
    name, _ = pages.lesson(number)
    english, other = read(pages.NBS/name), json.loads(pages.notebook(language, number))
    theirs, ours = ([c for c in nb['cells'] if c['cell_type'] == 'code' and c['id'] != 'language']
                    for nb in (english, other))
    assert [code(c) for c in ours] == [code(c) for c in theirs]
    assert [shown(c) for c in ours] == [shown(c) for c in theirs]
    assert not any('#| export' in text_of(c) or '#| default_exp' in text_of(c) for c in ours)


@pytest.mark.parametrize('language, number', WHOLE)
def test_formulas_code_and_links_of_the_prose_stay(language, number):
    for text, translation in pages.texts_of(language, number).items():
        assert marked(translation).keys() == marked(text).keys(), text


@pytest.mark.parametrize('language, number', WHOLE)
def test_every_exercise_stands_once_in_a_whole_lesson(language, number):
    texts = [text_of(c) for c in json.loads(pages.notebook(language, number))['cells'] if c['cell_type'] == 'markdown']
    found = re.findall(r'^\*\*(\w+\.\d+) ', '\n'.join(texts), re.M)
    assert sorted(found) == sorted(e.id for e in ex.exercises(number))


def test_a_paragraph_without_translation_is_english_and_is_named(monkeypatch):
    texts, before = pages.texts_of('ja', '06a'), pages.stale('ja', '06a')
    gone = next(iter(texts))
    monkeypatch.setattr(pages, 'texts_of', lambda language, number: {k: v for k, v in texts.items() if k != gone}
                        | {'An old text': '古い文'})
    assert sorted({*pages.stale('ja', '06a')} - {*before}) == [
        'ja/06a: its English is gone: An old text', f'ja/06a: not translated: {gone}']
    assert f'{pages.MISSING["ja"]} {gone}' in '\n'.join(
        text_of(c) for c in json.loads(pages.notebook('ja', '06a'))['cells'])


@pytest.mark.parametrize('language', LANGUAGES)
def test_the_site_knows_the_heading_above_the_exercises(language):
    "Below it stands how many are done; under another word nothing would."
    assert site_course.HEADING.fullmatch(f'## {ex.translations(language)[pages.EXERCISES]}')


def test_links_lead_to_the_translated_heading():
    speaker = pages.Speaker('ja', '01')
    heads = [re.sub('^#+ ', '', line) for c in json.loads(pages.notebook('ja', '00'))['cells']
             for line in text_of(c).splitlines() if line.startswith('## ')]
    anchor = pages.anchors('ja')['00_overview.ipynb']['What-you-should-know-before']
    assert anchor in [head.replace(' ', '-') for head in heads]
    assert pages.LINK.sub(speaker.link, '[a](00_overview.ipynb#What-you-should-know-before)') == (
        f'[a](00_overview.ipynb#{anchor})')
    assert pages.LINK.sub(speaker.link, '[a](14_training.ipynb#The-loop)') == '[a](../../14_training.ipynb#The-loop)'
