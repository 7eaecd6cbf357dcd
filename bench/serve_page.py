#!/usr/bin/env python3
"""Opens a page in headless Chrome and prints what it reports, for machines that have Python and a Chrome but no node.

    serve_page.py [--time SECONDS] [--file NAME=PATH]... FOLDER PAGE CHROME [FLAG]...

Serves FOLDER on a free port of 127.0.0.1 (cross-origin isolated, so that the page's clock is fine), with further files and folders under
their names, and starts CHROME on PAGE, which may carry a query ("bench.html?n=128"). Bodies that the page POSTs to /log go to the standard
output, a line each; its POST to /done ends the run. Exit status: 0 done, 1 the time ran out or Chrome ended, 2 the arguments are wrong.
suite.py uses the function open_page.
"""

import argparse
import http.server
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.parse

FLAGS = [
    "--headless=new",
    "--no-sandbox",  # such machines are containers, and their user is root
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",  # /dev/shm of a container is too small for a model's bytes
    "--enable-unsafe-webgpu",
    "--ignore-gpu-blocklist",
    "--enable-logging=stderr",
]
TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm", ".json": "application/json"}


def parse():
    parser = argparse.ArgumentParser(usage="serve_page.py [--time SECONDS] [--file NAME=PATH]... FOLDER PAGE CHROME [FLAG]...")
    parser.add_argument("--time", type=int, default=300)
    parser.add_argument("--file", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("folder")
    parser.add_argument("page")
    parser.add_argument("chrome")
    parser.add_argument("flags", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    args.paths = {}
    for item in args.file:
        name, _, path = item.partition("=")
        if not path or not os.path.exists(path):
            parser.error(f"--file {item}: give NAME=PATH of a file or folder that exists")
        args.paths[name.strip("/")] = path
    if not os.path.isfile(os.path.join(args.folder, args.page.partition("?")[0])):
        parser.error(f"{args.folder} has no {args.page.partition('?')[0]}")
    if not shutil.which(args.chrome):
        parser.error(f"{args.chrome} can't be run: give the program of a Chrome")
    return args


def handler(folder, paths, on_log, done):
    class Handler(http.server.SimpleHTTPRequestHandler):
        extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, **TYPES}

        def __init__(self, *args, **kwargs):
            super().__init__(*args, directory=folder, **kwargs)

        def translate_path(self, path):
            wanted = urllib.parse.unquote(urllib.parse.urlsplit(path).path).strip("/")
            if ".." in wanted.split("/"):
                return os.path.join(folder, "nothing")
            for name, where in paths.items():
                if wanted == name:
                    return where
                if wanted.startswith(name + "/"):
                    return os.path.join(where, wanted[len(name) + 1 :])
            return super().translate_path(path)

        def end_headers(self):
            self.send_header("Cross-Origin-Opener-Policy", "same-origin")
            self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
            self.send_header("Cache-Control", "no-store")
            super().end_headers()

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path == "/log":
                on_log(body.decode("utf-8", "replace"))
            elif self.path == "/done":
                done.set()
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args):
            pass

    return Handler


def open_page(folder, paths, page, command, seconds, on_log, on_start=lambda pid: None):
    """Runs Chrome (`command`: program and flags) on a page of `folder` until it is done. `paths`: further files and folders by name. `on_log`
    gets the bodies POSTed to /log, in order; the page's POST returns when it does. Returns None, or why the run was cut short."""
    done = threading.Event()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(folder, paths, on_log, done))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/{page}"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        log_path = os.path.join(scratch, "chrome.log")
        with open(log_path, "wb") as log:
            whole = [command[0], *FLAGS, f"--user-data-dir={scratch}/profile", *command[1:], url]
            chrome = subprocess.Popen(whole, stdout=log, stderr=log, start_new_session=True)
            on_start(chrome.pid)
            threading.Thread(target=lambda: (chrome.wait(), done.set()), daemon=True).start()
            in_time = done.wait(seconds)
            died = chrome.poll() is not None
            if not died:
                os.killpg(chrome.pid, signal.SIGKILL)  # the whole family: Chrome's children outlive it otherwise
                chrome.wait()
        server.shutdown()
        server.server_close()
        if in_time and not died:
            return None
        why = "Chrome ended by itself" if died else f"no POST to /done within {seconds} s"
        with open(log_path, "rb") as log:
            tail = log.read()[-3000:].decode("utf-8", "replace")
        return f"{why}; the end of its log:\n{tail}"


def main():
    args = parse()
    why = open_page(args.folder, args.paths, args.page, [args.chrome, *args.flags], args.time, lambda text: print(text, flush=True))
    if why:
        print(f"serve_page.py: {why}", file=sys.stderr)
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main())
