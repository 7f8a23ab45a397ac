#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pictures of the page in docs/images, of a real chat: run it again when the page changes.

    page_pictures.py PORT_OF_A_SERVED_MODEL [FOLDER]
"""

import json
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import browser as browsers  # noqa: E402

QUESTIONS = ["Write a Python function that returns the n-th Fibonacci number.", "Give me a list of three things to see in Rome."]


def load(port, stop):
    """Requests of several users, so that the live view has something to show."""
    def one(i):
        while not stop.is_set():
            body = {"messages": [{"role": "user", "content": f"Tell me story number {i}."}], "max_tokens": 40 + 20 * (i % 5)}
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(),
                                             {"Content-Type": "application/json"})
            urllib.request.urlopen(request, timeout=120).read()
            stop.wait(0.3 * i)

    threads = [threading.Thread(target=one, args=(i,), daemon=True) for i in range(6)]
    for thread in threads:
        thread.start()
    return threads


def main():
    port = sys.argv[1]
    folder = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "docs" / "images")
    folder.mkdir(parents=True, exist_ok=True)
    b = browsers.Browser()

    def picture(name):
        time.sleep(0.3)
        b.picture(folder / f"page_{name}.png")

    try:
        b.size(1100, 760)
        b.open(f"http://127.0.0.1:{port}/openapi.json")
        b.evaluate("localStorage.setItem('firstlight.settings', JSON.stringify({temperature: '0', max_tokens: '200'}))")
        b.open(f"http://127.0.0.1:{port}/")
        b.wait_for("document.getElementById('ready-dot').className === 'good'")
        for i, question in enumerate(QUESTIONS):
            b.type(question)
            b.press("Enter")
            b.wait_for(f"document.querySelectorAll('#log .stats').length === {i + 1}", 120)
        b.evaluate("document.getElementById('log').scrollTop = 0")
        picture("chat")
        b.size(390, 760, phone=True)
        b.prefer(color_scheme="dark")
        b.evaluate("document.getElementById('log').scrollTop = document.getElementById('log').scrollHeight")
        picture("phone")
        b.prefer()
        b.size(1100, 760)
        b.evaluate("document.getElementById('tab-live').click()")
        stop = threading.Event()
        threads = load(port, stop)
        time.sleep(75)
        picture("live")
        stop.set()
        for thread in threads:
            thread.join()
    finally:
        b.close()
    for path in folder.glob("page_*.png"):  # they have few colours
        if shutil.which("pngquant"):
            subprocess.run(["pngquant", "--force", "--skip-if-larger", "--output", path, "64", path], check=False)
        print(path, path.stat().st_size)


if __name__ == "__main__":
    sys.exit(main())
