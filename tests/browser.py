#!/usr/bin/env python3
"""Drives Chromium through its pipe: one JSON object per step on standard input, one answer per line on standard output.

Steps: {"go": URL}, {"eval": JS}, {"wait": JS, "for": seconds}, {"shot": FILE, "width": 360, "height": 740, "dark": true},
{"key": "Tab"}, {"requests": true}, {"axe": FILE}, {"choose": FILES, "in": SELECTOR}, {"downloads": DIRECTORY}, {"inject": JS},
which runs in every page from then on; {"tab": NUMBER}, which shows a tab and opens it if it is the next one. Anything that a page writes to the console, throws, or opens as a dialog is an answer to
{"noise": true}. Arguments are the program and options for it.
"""
import base64
import collections
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
import zlib


def smaller(png):
    """The same picture with at most 256 colours, for documents."""
    chunks, at = [], 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        chunks.append((kind, png[at + 8:at + 8 + length]))
        at += length + 12
    width, height, depth, kind = struct.unpack(">IIBB", chunks[0][1][:10])
    size = {2: 3, 6: 4}[kind]
    raw = zlib.decompress(b"".join(data for name, data in chunks if name == b"IDAT"))
    before, rows = bytearray(width * size), []
    for row in range(height):
        start = row * (width * size + 1)
        line = bytearray(raw[start + 1:start + 1 + width * size])
        for i in range(len(line)):
            left, up = line[i - size] if i >= size else 0, before[i]
            if raw[start] == 1:
                line[i] = line[i] + left & 255
            elif raw[start] == 2:
                line[i] = line[i] + up & 255
            elif raw[start] == 3:
                line[i] = line[i] + (left + up >> 1) & 255
            elif raw[start] == 4:
                corner = before[i - size] if i >= size else 0
                guess = left + up - corner
                best = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))
                line[i] = line[i] + best[2] & 255
        before = line
        rows.append([bytes(line[i:i + 3]) for i in range(0, len(line), size)])
    counts = collections.Counter(colour for row in rows for colour in row)
    known = [colour for colour, _ in counts.most_common(256)]
    nearest = {colour: min(range(len(known)), key=lambda i: sum((a - b) ** 2 for a, b in zip(known[i], colour)))
               for colour in counts}
    data = zlib.compress(b"".join(b"\0" + bytes(nearest[colour] for colour in row) for row in rows), 9)
    chunk = lambda name, data: (struct.pack(">I", len(data)) + name + data
                                + struct.pack(">I", zlib.crc32(name + data)))
    return (png[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
            + chunk(b"PLTE", b"".join(known)) + chunk(b"IDAT", data) + chunk(b"IEND", b""))


class Browser:
    def __init__(self, program, options):
        to_read, self.write_end = os.pipe()
        self.read_end, to_write = os.pipe()
        self.profile = tempfile.TemporaryDirectory(prefix="hearth-browser-", ignore_cleanup_errors=True)

        def descriptors():
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3)
            os.dup2(b, 4)
            os.closerange(5, 256)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
             "--disable-component-update", "--disable-sync", "--no-proxy-server", "--lang=en-GB",
             "--host-resolver-rules=MAP evil.example 127.0.0.1, MAP hearth.lan 127.0.0.1", *options,
             f"--user-data-dir={self.profile.name}", "about:blank"],
            close_fds=False, preexec_fn=descriptors, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.number, self.noise, self.requests = b"", 0, [], []
        target = self.call("Target.createTarget", url="about:blank", session=None)["targetId"]
        self.tabs = []
        self.show(0, target)

    def show(self, tab, target=None):
        """Shows a tab, and takes it for the next steps. The others are hidden."""
        if tab < len(self.tabs):
            self.session = self.tabs[tab]
            return self.call("Page.bringToFront")
        target = target or self.call("Target.createTarget", url="about:blank", session=None)["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True, session=None)["sessionId"]
        self.tabs.append(self.session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, session="own", **params):
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": params}
        if session == "own" and getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self):
        while b"\0" not in self.buffer:
            read = os.read(self.read_end, 1 << 20)
            if not read:
                raise RuntimeError("the browser has ended")
            self.buffer += read
        line, self.buffer = self.buffer.split(b"\0", 1)
        event = json.loads(line)
        method, params = event.get("method"), event.get("params", {})
        if method == "Page.javascriptDialogOpening":
            self.noise.append("dialog: " + params.get("message", ""))
            self.number += 1
            os.write(self.write_end, json.dumps({"id": self.number, "sessionId": self.session,
                     "method": "Page.handleJavaScriptDialog", "params": {"accept": True}}).encode() + b"\0")
        elif method == "Runtime.exceptionThrown":
            self.noise.append("exception: " + json.dumps(params["exceptionDetails"])[:500])
        elif method == "Log.entryAdded":
            entry = params["entry"]
            self.noise.append(f"{entry['level']}: {entry['text']}")
        elif method == "Runtime.consoleAPICalled":
            self.noise.append("console: " + json.dumps(params["args"])[:500])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        return event

    def evaluate(self, script):
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:800])
        return result["result"].get("value")

    def step(self, step):
        if "go" in step:
            found = self.call("Page.navigate", url=step["go"])
            end = time.time() + 20
            # It has answered with the new page in place. Events of the load of an earlier page may still come.
            while not found.get("errorText") and self.evaluate("document.readyState") != "complete":
                if time.time() > end:
                    raise RuntimeError("the page was not loaded")
                time.sleep(0.01)
            return found.get("errorText")
        if "eval" in step:
            return self.evaluate(step["eval"])
        if "wait" in step:
            end = time.time() + step.get("for", 30)
            while True:
                try:
                    found = self.evaluate(step["wait"])
                except RuntimeError as error:
                    # The page is being replaced.
                    found = None
                    if time.time() > end:
                        raise error
                if found:
                    return found
                if time.time() > end:
                    text = self.evaluate("document.body.innerText")
                    raise RuntimeError(f"waited for {step['wait']}: {text}")
                time.sleep(0.02)
        if "key" in step:
            for kind in ("keyDown", "keyUp"):
                text = {"Enter": "\r"}.get(step["key"])
                extra = {"text": text} if text and kind == "keyDown" else {}
                code = {"Tab": 9, "Enter": 13}.get(step["key"], 0)
                self.call("Input.dispatchKeyEvent", type=kind, key=step["key"], code=step["key"],
                          windowsVirtualKeyCode=code, **extra)
            return True
        if "shot" in step:
            width, height = step.get("width", 1200), step.get("height", 800)
            self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                      mobile=width < 500)
            dark = "dark" if step.get("dark") else "light"
            self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": dark}])
            # Two frames: the first is laid out with the new size, the second is shown.
            self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            wide = self.evaluate("document.documentElement.scrollWidth")
            if step.get("at"):
                self.evaluate(f"document.querySelector({json.dumps(step['at'])}).scrollIntoView()")
            clip = {}
            if step.get("small") and not step.get("at"):
                # To the end of what is on the page.
                bottom = self.evaluate("Math.max(...[...document.querySelectorAll('main > *')].map("
                                       "e => e.getBoundingClientRect().bottom)) + scrollY")
                size = {"x": 0, "y": 0, "width": width, "height": min(int(bottom) + 24, 1200), "scale": 1}
                clip = {"clip": size, "captureBeyondViewport": True}
            data = base64.b64decode(self.call("Page.captureScreenshot", format="png", **clip)["data"])
            with open(step["shot"], "wb") as file:
                file.write(smaller(data) if step.get("small") else data)
            return wide
        if "cookies" in step:
            return self.call("Network.getCookies")["cookies"]
        if "axtree" in step:
            nodes = self.call("Accessibility.getFullAXTree")["nodes"]
            role = lambda node, key: node.get(key, {}).get("value", "")
            return [[role(node, "role"), role(node, "name")] for node in nodes if not node.get("ignored")]
        if "axe" in step:
            # In a world of its own: the page does not see it, and its policy does not forbid it.
            frame = self.call("Page.getFrameTree")["frameTree"]["frame"]["id"]
            world = self.call("Page.createIsolatedWorld", frameId=frame, worldName="axe")["executionContextId"]
            # The world lasts as long as the page.
            known = self.call("Runtime.evaluate", expression="typeof axe", contextId=world, returnByValue=True)
            if known["result"]["value"] == "undefined":
                with open(step["axe"], encoding="utf-8") as file:
                    self.call("Runtime.evaluate", expression=file.read(), contextId=world)
            found = self.call("Runtime.evaluate", contextId=world, awaitPromise=True, returnByValue=True, expression=(
                "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v => v.id + ': ' + "
                "v.nodes.slice(0, 3).map(n => n.html + ' ' + n.failureSummary).join(' | ')))"))
            if "exceptionDetails" in found:
                raise RuntimeError(json.dumps(found["exceptionDetails"])[:800])
            return found["result"]["value"]
        if "choose" in step:
            root = self.call("DOM.getDocument")["root"]["nodeId"]
            node = self.call("DOM.querySelector", nodeId=root, selector=step["in"])["nodeId"]
            self.call("DOM.setFileInputFiles", nodeId=node, files=step["choose"])
            return True
        if "inject" in step:
            self.call("Page.addScriptToEvaluateOnNewDocument", source=step["inject"])
            return True
        if "tab" in step:
            self.show(step["tab"])
            return True
        if "downloads" in step:
            self.call("Browser.setDownloadBehavior", session=None, behavior="allow", downloadPath=step["downloads"])
            return True
        if "noise" in step:
            noise, self.noise = self.noise, []
            return noise
        if "requests" in step:
            requests, self.requests = self.requests, []
            return requests
        raise RuntimeError(f"unknown step {step}")

    def close(self):
        self.process.kill()
        self.process.wait()
        self.profile.cleanup()


def main():
    browser = Browser(sys.argv[1], sys.argv[2:])
    print(json.dumps({"ok": "ready"}), flush=True)
    try:
        for line in sys.stdin:
            try:
                answer = {"ok": browser.step(json.loads(line))}
            except Exception as error:  # the test says what it makes of it
                answer = {"error": str(error)}
            print(json.dumps(answer), flush=True)
    finally:
        browser.close()


main()
