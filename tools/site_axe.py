"""What axe-core, a checker of accessibility, and the width of a phone say about every page of a site, in both themes.
Run: `python tools/site_axe.py _docs`. It prints counts by impact, and fails for what is critical or serious."""
import json
import os
import subprocess
import sys
from collections import Counter
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory

from browser import CHROMIUM, HEADLESS, Quiet, served

GRAVE = "critical", "serious"
SECONDS = 300  # for one page
# A page of ours beside the site, which opens the site's pages in a frame; what it sends arrives in Python.
FRAMED = """<!doctype html><html lang="en"><title>Look</title><body><script type="module">
const wait = (ms) => new Promise((done) => setTimeout(done, ms))
const send = (body) => fetch("found", { method: "POST", body: JSON.stringify(body) })

async function opened(page, scheme, width) {
  localStorage.setItem("smalldocs-scheme", scheme)
  const frame = document.createElement("iframe")
  Object.assign(frame, { width, height: 900, src: page })
  frame.style.border = 0
  document.body.append(frame)
  await new Promise((done) => { frame.onload = done })
  await wait(150) // smalldocs.js looks at the theme 50 ms after it has set it
  return frame
}

try {
  %s
  await send(null)
} catch (error) { await send({ error: error.stack }) }
</script>"""
LOOK = """
async function judge(page, scheme) {
  const frame = await opened(page, scheme, 1300)
  frame.contentWindow.eval(axe)
  const { violations } = await frame.contentWindow.axe.run(frame.contentDocument, { resultTypes: ["violations"] })
  frame.remove()
  return violations.map(({ id, impact, nodes }) => ({
    id, impact, nodes: nodes.map((node) => [String(node.target), node.failureSummary]),
  }))
}

async function tooWide(page) {
  const frame = await opened(page, "default", 390)
  const { scrollWidth } = frame.contentDocument.documentElement
  frame.remove()
  return Math.max(0, scrollWidth - 390)
}

const axe = await (await fetch("axe.js")).text()
for (const page of await (await fetch("pages.json")).json()) {
  const light = await judge(page, "default")
  const dark = await judge(page, "alternate")
  await send({ page, light, dark, wide: await tooWide(page) })
}
"""


class Handler(Quiet):
    "Serves the site and a few files more, and takes what our page sends back."

    def __init__(self, extra, found, *args, **kwargs):
        self.extra, self.found = extra, found
        super().__init__(*args, **kwargs)

    def do_GET(self):
        if self.path not in self.extra:
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8" if self.path.endswith("html") else "text/plain")
        self.end_headers()
        self.wfile.write(self.extra[self.path].encode())

    def do_POST(self):
        self.found.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()


def browsed(folder, script, files=()):
    "What a script sends that opens pages of a site; it may fetch these `files`, texts by their names."
    extra = {"/look.html": FRAMED % script} | {f"/{name}": text for name, text in dict(files).items()}
    found = Queue()
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile, \
            served(folder, partial(Handler, extra, found)) as address:
        switches = *HEADLESS, "--remote-debugging-port=0", f"--user-data-dir={profile}"
        command = [CHROMIUM, *switches, f"{address}/look.html"]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while (answer := found.get(timeout=SECONDS)) is not None:
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                yield answer
        finally:
            browser.kill()
            browser.wait()


def axe_source():
    "The script of axe-core, which the package axe-core-python carries (MPL 2.0); None where it is not installed."
    found = find_spec("axe_core_python")
    return found and (Path(found.origin).parent / "axe.min.js").read_text()


def look(folder, pages, axe):
    "What is wrong with each of these pages: `{page, light, dark, wide}`, one after the other."
    return browsed(folder, LOOK, {"pages.json": json.dumps(pages), "axe.js": axe})


def pages_of(folder):
    "Every page of a site."
    return sorted(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*.html"))


def complaints(answer):
    "One line for each place with a grave fault, and one for a page that is wider than a phone."
    for theme in ("light", "dark"):
        for fault in answer[theme]:
            if fault["impact"] in GRAVE:
                yield from (f"{answer['page']} ({theme}): {fault['id']} at {where}" for where, _ in fault["nodes"])
    if answer["wide"]:
        yield f"{answer['page']}: {answer['wide']} pixels wider than a phone of 390"


def counts(answers):
    "How many places each theme has, by impact and by rule."
    total = {"light": Counter(), "dark": Counter()}
    for answer in answers:
        for theme, count in total.items():
            for fault in answer[theme]:
                count[fault["impact"], fault["id"]] += len(fault["nodes"])
    return total


if __name__ == "__main__":
    folder = sys.argv[1]
    answers = list(look(os.path.abspath(folder), sys.argv[2:] or pages_of(folder), axe_source()))
    for theme, count in counts(answers).items():
        for (impact, rule), n in sorted(count.items()):
            print(f"{theme:6} {impact:9} {rule:32} {n}")
    grave = [line for answer in answers for line in complaints(answer)]
    print(*grave, sep="\n")
    sys.exit(bool(grave))
