"""What is done once, in the process of which tests/conftest.py makes copies: imports that most need, measuring the
machine's speed, a tenth of a second in every process that trains, and drawing the built-in corpus, up to four seconds
in every notebook that reads it."""
import gc
import os
import sys
from pathlib import Path

import matplotlib.pyplot  # noqa: F401
import torch
import torch._dynamo  # which the first optimizer imports
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.backends.registry import backend_registry
from matplotlib.figure import Figure

import transformer_nb.cli  # noqa: F401
from transformer_nb.course.exercises import find
from transformer_nb.english_german import grammar
from transformer_nb.train.costs import matmul_rate

sys.path.insert(0, str(Path(__file__).parent))
import conftest  # noqa: F401  # whose functions the copies call
from drawn import drawn_once, unseen

try:
    import IPython.core.application
    import IPython.core.magics.execution
    import IPython.core.oinspect  # noqa: F401
    import matplotlib_inline.backend_inline  # noqa: F401
    import nbdev.test  # noqa: F401
except ImportError: pass  # not installed where the oldest versions are tried


gc.disable()  # until all is here
backend_registry.list_all()  # asks all distributions for backends, which every notebook would
FigureCanvasBase.print_figure = unseen(FigureCanvasBase.print_figure)
FigureCanvasBase.draw_idle = lambda canvas: None  # by which every cell's figure is drawn for a window first
figure = Figure()  # finds the fonts and builds the grammar of formulas, which the first figure of a process would
figure.gca().set(title='text', xlabel=r'$\mathit{x}$', ylabel=r'$\mathbf{W}_1$', xscale='log')
figure.draw_without_rendering()
grammar.builtin_corpus = drawn_once(grammar.builtin_corpus)
sizes = [2000, 20_000, 40_000]
if os.environ.get('PYTEST_XDIST_WORKER') == 'gw1': sizes.reverse()  # or it would wait for what the first worker draws
for size in sizes: grammar.builtin_corpus(size)
find('01.1')  # imports all exercises
matmul_rate(torch.device('cpu'), torch.float32)
gc.freeze()  # what is here now stays: no copy needs to look through it for what could go
gc.enable()
