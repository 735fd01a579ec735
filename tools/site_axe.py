"""What axe-core, a checker of accessibility, and the width of a phone say about every page of a site, in both themes.
Run: `python tools/site_axe.py _docs`. It prints what is critical or serious, and fails for it."""
import sys
import time
from importlib.resources import files
from pathlib import Path

from browser import Browser, served

GRAVE = "critical", "serious"
THEMES = {"light": "default", "dark": "alternate"}  # as smalldocs calls them
PHONE = 390
AXE = (files("axe_playwright_python")/"axe.min.js").read_text(encoding="utf-8")  # axe-core itself, for any browser
ASK = "axe.run({resultTypes: ['violations']}).then(arguments[0])"


def look(browser, folder, pages):
    "What is wrong with each of these pages: `{page, light, dark, wide}`, one after the other."
    with served(folder) as address:
        browser.open(f"{address}/{pages[0]}")  # where the theme is remembered
        for page in pages:
            found = {theme: judged(browser, f"{address}/{page}", theme) for theme in THEMES}
            browser.open(f"{address}/{page}", PHONE)
            yield {"page": page, **found, "wide": browser.run("document.documentElement.scrollWidth") - PHONE}


def judged(browser, address, theme):
    "What axe-core says about a page in one theme."
    browser.execute_script("localStorage.setItem('smalldocs-scheme', arguments[0])", THEMES[theme])
    browser.open(address)
    time.sleep(.15)  # smalldocs.js looks at the theme 50 ms after it has set it
    browser.execute_script(AXE)
    answer = browser.execute_async_script(ASK)
    return answer["violations"] + [rule for rule in answer["incomplete"] if rule.get("error")]  # it could not judge


def pages_of(folder):
    "Every page of a site."
    return sorted(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*.html"))


def complaints(answer):
    "One line for each place with a grave fault, and one for a page that is wider than a phone."
    for theme in THEMES:
        for fault in answer[theme]:
            if "error" in fault: yield f"{answer['page']} ({theme}): {fault['id']} was not judged: {fault['error']}"
            elif fault["impact"] in GRAVE:
                yield from (f"{answer['page']} ({theme}): {fault['id']} at {node['target']}" for node in fault["nodes"])
    if answer["wide"] > 0:
        yield f"{answer['page']}: {answer['wide']} pixels wider than a phone of {PHONE}"


if __name__ == "__main__":
    folder = sys.argv[1]
    with Browser() as browser:
        answers = list(look(browser, folder, sys.argv[2:] or pages_of(folder)))
    grave = [line for answer in answers for line in complaints(answer)]
    print(*grave, sep="\n")
    sys.exit(bool(grave))
