"""Chromium without a window, a server on this machine for the pages that it is to see, and a hand for them: real keys
and fingers, sent by the protocol of Chromium's developer tools."""
import base64
import json
import shutil
import subprocess
import time
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from urllib.request import urlopen

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
HEADLESS = "--headless", "--no-sandbox", "--disable-gpu"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        "Say nothing of each request."


@contextmanager
def served(folder, handler=Quiet):
    "The address at which a folder can be seen."
    server = ThreadingHTTPServer(("localhost", 0), partial(handler, directory=folder))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


# ---- A hand

KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36,
        "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
WRITES = {"Enter": "\r", " ": " "}  # keys that stand in KEYS and put a sign into a text


class Page:
    "One page in a browser; what it is told to do is done as if by a reader."

    def __init__(self, socket):
        self.socket, self.count = socket, 0

    def tell(self, method, **params):
        "Send a command of the protocol; return its result."
        self.count += 1
        self.socket.send(json.dumps({"id": self.count, "method": method, "params": params}))
        while (answer := json.loads(self.socket.recv())).get("id") != self.count:
            pass  # news of the page, which nobody has asked for
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def run(self, script):
        "The value of an expression in JavaScript; a promise is waited for."
        result = self.tell("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"].get("description", script))
        return result["result"].get("value")

    def until(self, script, seconds=30):
        "Wait until an expression is true; return its value."
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            if time.monotonic() > end:
                raise TimeoutError(f"{seconds} s, and still not: {script}")
            time.sleep(.02)
        return value

    def open(self, address):
        "Go to an address, and wait until the page has loaded."
        self.tell("Page.navigate", url=address)
        self.until(f"location.href === {json.dumps(address)} && document.readyState === 'complete'")

    def press(self, *keys, shift=False):
        "Press keys one after the other, by their names (`Tab`, `ArrowDown`) or signs; `shift` is held for all of them."
        for key in keys:
            about = dict(key=key, code=key, windowsVirtualKeyCode=KEYS.get(key, 0), modifiers=8*shift)
            text = WRITES.get(key, "" if key in KEYS else key)
            self.tell("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **about)
            self.tell("Input.dispatchKeyEvent", type="keyUp", **about)

    def place(self, element, share=.5):
        "A point of an element, given as an expression, after the page was scrolled to it; `share` is of its width."
        box = f"(e => {{ e.scrollIntoView({{block: 'center'}}); return e.getBoundingClientRect() }})({element})"
        return self.run(f"(({{x, y, width, height}}) => ({{x: x + {share}*width, y: y + height/2}}))({box})")

    def click(self, element, share=.5):
        "Click on an element with a mouse."
        point = self.place(element, share)
        for kind in ("mousePressed", "mouseReleased"):
            self.tell("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **point)

    def touch(self, element, share=.5):
        "Touch the middle of an element with a finger, and draw it to that share of its width, as on a slider."
        self.tell("Emulation.setTouchEmulationEnabled", enabled=True)
        start, end = self.place(element), self.place(element, share)
        self.tell("Input.dispatchTouchEvent", type="touchStart", touchPoints=[start])
        if end != start:
            self.tell("Input.dispatchTouchEvent", type="touchMove", touchPoints=[end])
        self.tell("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def size(self, width, height, phone=False):
        "The size of the window, in pixels."
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def photo(self, path, **params):
        "Write what one sees as a PNG."
        Path(path).write_bytes(base64.b64decode(self.tell("Page.captureScreenshot", **params)["data"]))


@contextmanager
def page(address="about:blank", width=1300, height=900):
    "A page in a browser of its own, at an address."
    from websocket import create_connection  # which Jupyter brings

    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [CHROMIUM, *HEADLESS, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            socket = create_connection(talks_at(Path(profile)), suppress_origin=True, timeout=120)
            seen = Page(socket)
            seen.size(width, height)
            seen.open(address)
            yield seen
            socket.close()
        finally:
            browser.kill()
            browser.wait()


def talks_at(profile):
    "The address at which the first page of a browser takes commands; the browser writes its port into its profile."
    file, end = profile / "DevToolsActivePort", time.monotonic() + 60
    while not (file.exists() and file.read_text().count("\n")):
        if time.monotonic() > end:
            raise TimeoutError("Chromium has not started within a minute")
        time.sleep(.02)
    with urlopen(f"http://localhost:{file.read_text().split()[0]}/json/list") as answer:
        return next(target["webSocketDebuggerUrl"] for target in json.load(answer) if target["type"] == "page")
