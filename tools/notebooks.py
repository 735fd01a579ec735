"Notebooks as files: read, written in the form in which they are committed, and made anew."
import json

KERNEL = {'kernelspec': {'display_name': 'python3', 'language': 'python', 'name': 'python3'}}

# They are beside the path, but lie flat, as their modules do.
GROUND = ('checkpoints.ipynb', 'config.ipynb', 'core.ipynb', 'devices.ipynb', 'errors.ipynb', 'files.ipynb',
    'variants.ipynb')


def text_of(cell):
    "A cell's source as one string."
    return ''.join(cell['source'])


def read(path): return json.loads(path.read_text(encoding='utf-8'))


def written(nb):
    "A notebook as the text of its file."
    return json.dumps(nb, indent=1, ensure_ascii=False, sort_keys=True) + '\n'


def made(cells):
    "A notebook of these cells."
    return {'cells': cells, 'metadata': KERNEL, 'nbformat': 4, 'nbformat_minor': 5}
