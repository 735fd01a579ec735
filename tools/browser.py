"Chromium without a window, and a server on this machine for the pages that it is to see."
import shutil
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

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
