"""The API reference: `DocFilter` is nbdev's processing of a notebook, with `show_doc(name)` for each exported function
and class, and for each public method of a class. Importing this module exchanges what draws an entry."""
import ast
import re
from functools import cache
from importlib import import_module

import nbdev.processors
import nbdev.showdoc
from fastcore.nbio import mk_cell
from nbdev.config import get_config
from nbdev.doclinks import NbdevLookup, _lineno
from nbdev.process import Processor
from nbdev.processors import FilterDefaults, add_links, add_show_docs, exec_show_docs, rm_export

MARKUP = re.compile(r"(`[^`]*`)|<(?=[/\w])")
NESTED = re.compile(r"\[\[(`[^`]*`)\]\([^)]*\)\](?=\()")  # a name that is the text of a link has been linked, too
FUNCTIONS = ast.FunctionDef, ast.AsyncFunctionDef
NAME_LINK = re.compile(r"\[`(\w+)`\]\(https?://[^)]*\.html#(?i:\1)\)")

config = cache(get_config)
nbdev.processors.get_config = nbdev.showdoc.get_config = config  # which they would read for each cell


def line_of(name):
    "The line of `package.module.Class.method` in its file: nbdev looks for it under its short name alone."
    _, file, _ = NbdevLookup()[name]
    return _lineno(name.removeprefix(file.removesuffix(".py").replace("/", ".") + "."), file)


class Entry(nbdev.showdoc.BasicMarkdownRenderer):
    "nbdev's entry, in which signs such as `</s>` are text, source links lead to a line, and a record has no signature."

    def __init__(self, sym, **kwargs):
        super().__init__(sym, **kwargs)
        self.docs = self.docs and MARKUP.sub(lambda m: m[1] or "&lt;", self.docs)  # code is left as it is

    def _repr_markdown_(self):
        text = super()._repr_markdown_().replace(":NoneType=None", "=None")  # what nbdev takes a bare default to say
        if getattr(self.sym, "__init__", None) is object.__init__:  # a mere record, such as a task, is not made
            text = text.replace(f"```python\n{self.dm}\n```\n\n", "")
        return text.replace("#LNone", f"#L{line_of(self.fn)}", 1) if "#LNone" in text else text


nbdev.showdoc.BasicMarkdownRenderer = Entry


def public_methods(cls):
    "`Class.method` for each public method of a class, but for those of which nothing is said: their code stands above."
    defs = [d.name for d in cls.body if isinstance(d, FUNCTIONS) and says_something(d)]
    return [f"{cls.name}.{name}" for name in dict.fromkeys(defs) if not name.startswith("_") or name == "__call__"]


def says_something(function):
    "Whether a method's entry would tell more than its name: it has a docstring, or types."
    typed = [a.annotation for a in function.args.args] + [function.returns]
    return ast.get_docstring(function) is not None or any(typed)


def shown_name(tree):
    "What a statement such as `show_doc(Class.method)` shows; None for other statements."
    call = getattr(tree, "value", None)
    is_show = isinstance(call, ast.Call) and getattr(call.func, "id", None) == "show_doc" and call.args
    return ast.unparse(call.args[0]) if is_show else None


class split_title(Processor):
    "Give the title and its line a cell of their own: nbdev takes them, and all that follows, for the front matter."

    def begin(self):
        for i, cell in enumerate(self.nb.cells):
            title = re.match(r"# .+\n+> .+\n", cell.source) if cell.cell_type == "markdown" else None
            if title and (rest := cell.source[title.end():].strip()):
                cell.source = title[0]
                self.nb.cells.insert(i + 1, mk_cell(rest, "markdown"))
                return


class add_entries(Processor):
    "After each exported cell an entry for what it defines, and after a class one for each of its public methods."

    def begin(self):
        cells, self.nb.has_docs_ = [], False  # whether there is something to run
        for cell in self.nb.cells:
            directives = getattr(cell, "directives_", {}).keys()
            self.nb.has_docs_ |= bool(directives & {"export", "exec_doc"})
            trees = cell.parsed_() or [] if "export" in directives and "hide" not in directives else []
            cells += [cell, *[mk_cell(f"show_doc({entry})") for tree in trees for entry in entries_of(tree)]]
        self.nb.cells = cells


def entries_of(tree):
    "The arguments of `show_doc` for a definition in a cell; for other statements none."
    if isinstance(tree, (ast.ClassDef, *FUNCTIONS)) and not tree.name.startswith("_"):
        yield tree.name
        methods = public_methods(tree) if isinstance(tree, ast.ClassDef) else []
        yield from (f"{name}, title_level=4" for name in methods)


def drop_hidden(cell):
    "Leave out the cells that are to be hidden. nbdev leaves out exported ones, too; here they are what a lesson shows."
    if cell.cell_type == "code" and cell.directives_.keys() & {"hide", "default_exp"}:
        del cell["source"]


class show_package(exec_show_docs):
    """Show entries of what the package has. Nothing else of a lesson is run: what its cells put out stands in the
    notebook. One without a module may have cells to run (`exec_doc`)."""

    def begin(self):
        exports = (getattr(cell, "directives_", {}).get("default_exp") for cell in self.nb.cells)
        self.module = next(filter(None, exports), None)
        if self.nb.has_docs_:
            super().begin()
        if self.nb.has_docs_ and self.module:
            self.k.user_ns.update(vars(import_module(f"{config().lib_path.name}.{self.module}")))

    def __call__(self, cell):
        if not self.module or any(map(shown_name, cell.parsed_() or [])):
            super().__call__(cell)


def has_entry(name):
    "Whether a name of the library is in the API: what a lesson exports for others only, or keeps private, is not."
    _, file, _ = NbdevLookup()[name]
    return name in import_module(file.removesuffix(".py").replace("/", ".")).__all__


class note_imports(Processor):
    "Note what a notebook imports from the library, before any cell is left out; None if it has no code."

    def begin(self):
        code = [cell for cell in self.nb.cells if cell.cell_type == "code"]
        imports = [t for cell in code for t in cell.parsed_() or [] if isinstance(t, ast.ImportFrom)]
        ours = [t for t in imports if t.module.startswith(config().lib_path.name)]
        self.nb.imported_ = {name.asname or name.name for t in ours for name in t.names} if code else None


class link_names(Processor):
    """Links from `names` to the API. nbdev looks them up in the whole library, names without an entry included. And one
    plain word, such as `score`, is often a method or a variable of the lesson: the lesson must show or import it."""

    def begin(self):
        trees = [t for c in self.nb.cells if c.cell_type == "code" for t in c.parsed_() or []]
        self.own = {name.rpartition(".")[2]: name.lower() for t in trees if (name := shown_name(t))}

    def __call__(self, cell):
        add_links(cell)
        if cell.cell_type == "markdown":
            cell.source = NAME_LINK.sub(self.link, NESTED.sub(r"[\1]", cell.source))
        for data in (out.data for out in cell.get("outputs", []) if "text/markdown" in out.get("data", {})):
            data["text/markdown"] = NAME_LINK.sub(self.link, data["text/markdown"])

    def link(self, m):
        if m[1] in self.own:
            return f"[`{m[1]}`](#{self.own[m[1]]})"
        is_known = self.nb.imported_ is None or m[1] in self.nb.imported_ or not re.fullmatch("[a-z]+", m[1])
        return m[0] if is_known and has_entry(m[1]) else f"`{m[1]}`"


class DocFilter(FilterDefaults):
    "nbdev's processors, with an entry for each method, and with nothing lost below the title."

    def base_procs(self):
        ours = {add_show_docs: add_entries, exec_show_docs: show_package, rm_export: drop_hidden, add_links: link_names}
        return [split_title, note_imports] + [ours.get(p, p) for p in super().base_procs()]
