"`OnnxModel`, the program that readers copy from the lesson on serving: these are the lesson's own two cells."
from pathlib import Path

import pytest
from notebooks import read, text_of

pytest.importorskip('onnxruntime')
CELLS = read(Path(__file__).parents[1]/'nbs/20a_serving.ipynb')['cells']
PROGRAM = next(i for i, cell in enumerate(CELLS) if text_of(cell).startswith('class OnnxModel:'))
exec(text_of(CELLS[PROGRAM - 1]) + '\n' + text_of(CELLS[PROGRAM]))  # its imports, and the class
