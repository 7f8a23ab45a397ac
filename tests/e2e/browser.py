# SPDX-License-Identifier: Apache-2.0
"""A browser for tests: Debian's Chromium without a window, told what to do over its DevTools protocol through two pipes
(messages are JSON, each ended by a zero byte), so that nothing but the standard library is needed."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

KEYS = {  # name: (code, virtual key, text)
    "Enter": ("Enter", 13, "\r"), "Tab": ("Tab", 9, ""), "Escape": ("Escape", 27, ""), "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""), " ": ("Space", 32, " "), "Home": ("Home", 36, ""),
}


def chromium():
    """The program, or None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="firstlight-browser-")
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()
        command = [chromium(), "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run",
                   "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--disable-sync",
                   "--disable-extensions", "--hide-scrollbars", "--force-color-profile=srgb", "--user-data-dir=" + self.folder,
                   "about:blank"]
        # The browser reads its orders from descriptor 3 and answers on 4.
        shell = ["sh", "-c", f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}']
        self.process = subprocess.Popen(shell + command, pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.received = b""
        self.number = 0
        self.events = []
        target = self.call("Target.createTarget", url="about:blank", session=None)["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True, session=None)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self, deadline):
        """The next message; None after the deadline."""
        while b"\0" not in self.received:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.from_browser], [], [], left)[0]:
                return None
            piece = os.read(self.from_browser, 1 << 20)
            if not piece:
                raise RuntimeError(f"the browser ended with {self.process.wait()}")
            self.received += piece
        message, self.received = self.received.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session="", **params):
        self.number += 1
        order = {"id": self.number, "method": method, "params": params}
        if session is not None:
            order["sessionId"] = session or self.session
        os.write(self.to_browser, json.dumps(order).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            message = self._read(deadline)
            if message is None:
                raise RuntimeError(f"{method}: no answer")
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def evaluate(self, expression):
        """The value of an expression (a promise's once it is there), as JSON."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails'].get('exception', {}).get('description')}")
        return answer["result"].get("value")

    def wait_for(self, expression, seconds=30):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.evaluate(f"Boolean({expression})"):
                return
            time.sleep(0.03)
        raise AssertionError(f"not in {seconds} s: {expression}")

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def size(self, width, height, phone=False, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone)

    def prefer(self, **features):
        """prefer(color_scheme="dark")"""
        named = [{"name": "prefers-" + name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", features=named)

    def press(self, key, shift=False):
        code, number, text = KEYS[key]
        common = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **common, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        """As from a keyboard, into what has the focus."""
        for character in text:
            self.call("Input.dispatchKeyEvent", type="keyDown", key=character, text=character)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=character)

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def problems(self):
        """What the page's scripts and the browser complained about so far."""
        found = []
        for event in self.events:
            if event["method"] == "Runtime.exceptionThrown":
                details = event["params"]["exceptionDetails"]
                found.append(details.get("exception", {}).get("description") or details["text"])
            elif event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                entry = event["params"]["entry"]
                found.append(entry["text"] + " " + entry.get("url", ""))
        return found

    def addresses(self):
        """Everything that was asked of the network so far."""
        return [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
