"""The front page of the site over a slow line: when a reader first sees something, and what had come by then.

    make docs && python benchmarks/first_paint.py            # half a minute

Chromium opens the page anew five times: 1.6 Mbit/s, 150 ms until an answer begins, a processor four times slower than
this one. The server packs nothing. Printed are, for each time, the first paint and the largest one (seconds) and what
was loaded (kB); then the weight of each page of the site with all that it loads, and their median.
"""
import statistics
import sys

from common import ROOT, Experiment

sys.path.insert(0, str(ROOT/'tools'))
from browser import page, served

LINE = dict(offline=False, latency=150, downloadThroughput=1.6e6/8, uploadThroughput=1.6e6/8)
SLOWER, TIMES = 4, 5
PAINTS = """new Promise(done => new PerformanceObserver(list => done([
  performance.getEntriesByName('first-contentful-paint')[0].startTime/1000, list.getEntries().at(-1).startTime/1000,
])).observe({type: 'largest-contentful-paint', buffered: true}))"""
LOADED = """performance.getEntriesByType('navigation').concat(performance.getEntriesByType('resource'))
  .map(({name, transferSize, responseEnd}) => [name, transferSize/1000, responseEnd/1000])"""


def first_paint(address):
    "Open a page in a new browser over the slow line: its first and its largest paint, and kB."
    with page() as seen:
        seen.tell('Network.enable')
        seen.tell('Network.emulateNetworkConditions', **LINE)
        seen.tell('Emulation.setCPUThrottlingRate', rate=SLOWER)
        seen.open(address)
        return *seen.run(PAINTS), sum(size for _, size, _ in seen.run(LOADED))


def weights(folder, address, most):
    "What each page of the site loads before anybody scrolls or clicks, in kB, by its name."
    found = {}
    with page() as seen:
        seen.tell('Network.enable')
        seen.tell('Network.setCacheDisabled', cacheDisabled=True)
        for path in sorted(folder.rglob('*.html'))[:most]:
            name = path.relative_to(folder).as_posix()
            seen.open(f'{address}/{name}')
            found[name] = sum(size for _, size, _ in seen.run(LOADED))
    return found


def main():
    experiment, folder = Experiment(__file__, __doc__, asked=True), ROOT/'_docs'
    times, most = (1, 1) if experiment.begin().tiny else (TIMES, None)
    if not (folder/'index.html').exists(): sys.exit('first_paint: _docs/index.html is not there; make docs builds it')
    with served(folder) as address:
        paints = [first_paint(f'{address}/index.html') for _ in range(times)]
        for first, largest, size in paints: print(f'first paint {first:.2f} s, largest {largest:.2f} s, {size:.0f} kB')
        print(f'slowest of {times}: {max(first for first, _, _ in paints):.2f} s')
        sizes = weights(folder, address, most)
    for name, size in sorted(sizes.items(), key=lambda item: item[1]): print(f'{size:6.0f} kB  {name}')
    print(f'{statistics.median(sizes.values()):6.0f} kB  median of {len(sizes)} pages')
    experiment.save({'first paint, largest, kB': paints, 'kB': sizes})


if __name__ == '__main__': main()
