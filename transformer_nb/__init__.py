"The paper 'Attention Is All You Need' as a package. The names below are imported when they are first used."
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for editors and type checkers, which do not run `__getattr__`
    from .course.viewer import show
    from .data.tokenizer import Tokenizer
    from .decode.translator import Translator
    from .train.trainer import Trainer, TrainingConfig
    from .transformer import Transformer, TransformerConfig, preset

__version__ = "0.1.0"
__all__ = [
    'Tokenizer', 'Trainer', 'TrainingConfig', 'Transformer', 'TransformerConfig', 'Translator', 'preset', 'show']

_PLACES = {
    'Tokenizer': 'data.tokenizer',
    'Trainer': 'train.trainer',
    'TrainingConfig': 'train.trainer',
    'Transformer': 'transformer',
    'TransformerConfig': 'transformer',
    'Translator': 'decode.translator',
    'preset': 'transformer',
    'show': 'course.viewer',
}


def __getattr__(name:str):
    if name not in _PLACES: raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(f'.{_PLACES[name]}', __name__), name)
    return found


def __dir__() -> list[str]: return sorted({*globals(), *__all__})
