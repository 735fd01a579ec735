"Pages, tasks and diagnoses in Japanese, Chinese and Korean say what the English says today."
import re
import sys
from collections import Counter

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT/'tools'))
import build_languages as pages

from transformer_nb import exercises as ex

LANGUAGES = list(pages.NAMES)
SCRIPTS = {'ja': r'[ぁ-んァ-ヶ一-鿿]', 'zh': r'[一-鿿]', 'ko': r'[가-힣]'}


@pytest.mark.parametrize('language', LANGUAGES)
def test_everything_is_translated_and_the_page_in_step(language):
    assert pages.faults(language) == []


@pytest.mark.parametrize('language', LANGUAGES)
def test_english_that_has_changed_is_named(language, monkeypatch):
    "One word of a hint and a new diagnosis: both are named, and so is the old text that nobody needs any more."
    hints = ex.find('01.2').hints
    monkeypatch.setattr(ex.find('01.2'), 'hints', (hints[0] + ' Look!', *hints[1:]))
    def new(n): "a new diagnosis"
    monkeypatch.setattr(ex.find('01.2').wrong, 'new', new, raising=False)
    found = pages.faults(language)
    assert found[:2] == [f'{language}: not translated: {text}' for text in (hints[0] + ' Look!', 'a new diagnosis')]
    assert found[2] == f'{language}: its English is gone: {hints[0]}'
    assert found[3:] == [f'{language}: run tools/build_languages.py']


def marked(text):
    "What is the same in all languages: formulas, code, names in braces, links."
    return Counter(re.findall(r'\$[^$]+\$|`[^`]+`|\{\w+\}|\]\([^)]+\)', text))


@pytest.mark.parametrize('language', LANGUAGES)
def test_formulas_and_code_stay_as_they_are(language):
    for text, translation in ex.translations(language).items(): assert marked(translation) == marked(text), text


@pytest.mark.parametrize('language', LANGUAGES)
def test_it_is_written_in_that_language(language):
    "Few texts have no word in them: names and formulas."
    script = re.compile(SCRIPTS[language])
    table = ex.translations(language)
    foreign = [text for text, translation in table.items() if not script.search(translation)]
    assert len(foreign) <= .02*len(table), foreign
    if language == 'zh': assert not any(re.search('[ぁ-んァ-ヶ가-힣]', translation) for translation in table.values())
    if language == 'ko': assert not any(re.search('[ぁ-んァ-ヶ]', translation) for translation in table.values())


@pytest.mark.parametrize('language', LANGUAGES)
def test_check_and_hint_answer_in_the_language(language, monkeypatch, tmp_path):
    monkeypatch.setenv('TNB_PROGRESS', str(tmp_path/'progress.json'))
    monkeypatch.setenv('TNB_LANG', f'{language}_XX.UTF-8')
    e, table = ex.find('01.2'), ex.translations(language)
    result = ex.check('01.2', e.wrong.inverted)
    assert result.mistake == 'inverted' and result.text.startswith(table[e.wrong.inverted.__doc__])
    assert result.text.endswith(table['. '] + table['A hint: {call}'].format(call="hint('01.2')"))
    assert ex.check('01.2', lambda n: e.answer()(n)[1:]).text.startswith(
        table["the shape is {got}, not {right}, for {args}"].format(got=(0, 1), right=(1, 1), args='(1)'))
    assert ex.hint('01.2', 2) == table[e.hints[1]]
    assert ex.check('01.2', e.answer()).text == table['right']


def test_another_language_gets_english(monkeypatch):
    monkeypatch.setenv('TNB_LANG', 'fr_FR')
    with pytest.warns(UserWarning, match='known are en, ja'): assert ex.say('right') == 'right'


def test_every_text_of_check_can_be_translated():
    "Each general text of `check` is written where `say` is called, for the tool finds it there."
    said = pages.spoken()
    assert 'right' in said and len(said) >= 15
    source = (ROOT/'transformer_nb/exercises.py').read_text(encoding='utf-8')
    assert not re.search(r"result\('[\w-]+', f?\"", source)
    for language in LANGUAGES: assert set(said) <= ex.translations(language).keys()
