#!/usr/bin/env python3
"""A bridge between this terminal and Hearth: lines typed here are messages, answers are printed."""
import hashlib, hmac, json, os, sys, threading, time, urllib.error, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ["BRIDGE_SECRET"].encode()
HEARTH = os.environ.get("BRIDGE_HEARTH", "http://127.0.0.1:8787")
CHANNEL, PORT = os.environ.get("BRIDGE_CHANNEL", "bridge"), int(os.environ.get("BRIDGE_PORT", "8788"))
shown = {}  # Hearth's id of a message -> ours; a real bridge keeps it on disk

def sign(stamp, body):
    return "v1=" + hmac.new(SECRET, stamp.encode() + b"." + body, hashlib.sha256).hexdigest()

def post(path, value):
    body = json.dumps(value).encode()
    while True:
        stamp = str(int(time.time()))
        headers = {"X-Hearth-Timestamp": stamp, "X-Hearth-Signature": sign(stamp, body)}
        try:
            return json.load(urllib.request.urlopen(urllib.request.Request(HEARTH + path, body, headers)))
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise SystemExit("%d: %s" % (error.code, error.read().decode()))
            time.sleep(int(error.headers["Retry-After"]))  # nothing of it was stored: the same once more

class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        stamp = self.headers.get("X-Hearth-Timestamp", "")
        good = hmac.compare_digest(self.headers.get("X-Hearth-Signature", ""), sign(stamp, body))
        if not good or abs(time.time() - int(stamp)) > 300:
            return self.answer(401, {"error": "not signed by Hearth"})
        asked = json.loads(body)
        if asked["act"] not in ("say", "ask", "edit"):
            return self.answer(501, {"error": "this bridge cannot do that"})
        if asked["id"] not in shown:  # one that comes again is answered again and not shown again
            shown[asked["id"]] = "b%d" % (len(shown) + 1)
            buttons = ["%(label)s = %(button)s" % option for option in (asked["card"] or {"options": []})["options"]]
            print("\n".join([asked["text"] or asked["card"]["body"]] + buttons), flush=True)
        self.answer(200, {"messageId": shown[asked["id"]]})

    def answer(self, code, value):
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

threading.Thread(target=ThreadingHTTPServer(("127.0.0.1", PORT), Receiver).serve_forever, daemon=True).start()
for number, line in enumerate(sys.stdin):
    user = {"platformId": "terminal", "userId": "me"}
    if line.startswith("/press "):
        print(post("/v1/actions", dict(user, button=line.split()[1]))["text"], flush=True)
        continue
    message = {"id": "%d-%d" % (os.getpid(), number), "isMention": True, "content": {"text": line.strip(), "senderId": "me"}}
    print(post("/v1/events", {"channelType": CHANNEL, "platformId": "terminal", "message": message})["outcome"], flush=True)
