"""Chromium without a window, driven by Selenium as a reader would use it, and a server on this machine for the pages
that it is to see."""
import shutil
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService, Keys
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.actions.interaction import POINTER_TOUCH
from selenium.webdriver.common.actions.pointer_input import PointerInput
from selenium.webdriver.support.wait import WebDriverWait

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
DRIVER = shutil.which("chromedriver")  # which comes with Chromium or as Debian's chromium-driver; none is fetched


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        "Say nothing of each request."


@contextmanager
def served(folder):
    "The address at which a folder can be seen."
    server = ThreadingHTTPServer(("localhost", 0), partial(Quiet, directory=folder))
    Thread(target=server.serve_forever, args=[.02], daemon=True).start()  # so often it looks whether it is to end
    try:
        yield f"http://localhost:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Browser(Chrome):
    "A browser of its own; scripts are JavaScript, and the value of a promise is waited for."

    def __init__(self):
        options = ChromeOptions()
        options.binary_location = CHROMIUM
        for switch in ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
            options.add_argument(switch)
        super().__init__(options, ChromeService(DRIVER))
        self.set_script_timeout(300)

    def open(self, address, width=1300, height=900):
        "Go to an address, in a window of so many pixels, and wait until the page has loaded."
        self.get("about:blank")  # what was open neither sees the new size nor goes on
        size = dict(width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.get(address)

    def html(self, path):
        "A file as it is after its scripts have run; a busy driver may have nothing to show at first."
        self.open(path.as_uri())
        return self.until("document.documentElement.outerHTML")

    def run(self, expression):
        "The value of an expression."
        return self.execute_script(f"return {expression}")

    def play(self, script, *arguments):
        "What a script returns that may wait; it knows its `arguments`."
        return self.execute_script(f"return (async () => {{{script}}})()", *arguments)

    def until(self, expression, seconds=30):
        "Wait until an expression is true; return its value."
        return WebDriverWait(self, seconds, .02).until(lambda _: self.run(expression), expression)

    def press(self, *keys):
        "Press keys one after the other, by their names (`Tab`, `ArrowDown`) or signs."
        signs = [getattr(Keys, key.replace("Arrow", "Arrow_").upper(), key) for key in keys]
        ActionChains(self).send_keys(*signs).perform()

    def place(self, expression, share):
        "An element, as soon as it is there and the page was scrolled to it, and where that share of its width is."
        element = self.until(expression)
        self.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        return element, round((share - .5)*element.rect["width"])

    def click(self, expression, share=.5):
        "Click on an element with a mouse."
        ActionChains(self, 0).move_to_element_with_offset(*self.place(expression, share), 0).click().perform()

    def touch(self, expression, share=.5):
        "Touch the middle of an element with a finger, and draw it to that share of its width, as on a slider."
        element, to = self.place(expression, share)
        hand = ActionBuilder(self, mouse=PointerInput(POINTER_TOUCH, "finger"), duration=0)
        hand.pointer_action.move_to(element).pointer_down().move_to(element, to).pointer_up()
        hand.perform()
