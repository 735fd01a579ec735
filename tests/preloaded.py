"""What is done once, in the process of which tests/conftest.py makes copies: imports that most need, and measuring the
machine's speed, a second in every process that trains."""
import matplotlib.pyplot  # noqa: F401
import torch
import torch._dynamo  # which the first optimizer imports

import transformer_nb.cli  # noqa: F401
from transformer_nb.course.exercises import find
from transformer_nb.train.costs import matmul_rate

try: import nbdev.test  # noqa: F401
except ImportError: pass  # not installed where the oldest versions are tried

find('01.1')  # imports all exercises
matmul_rate(torch.device('cpu'), torch.float32)
