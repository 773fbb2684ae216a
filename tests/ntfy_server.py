#!/usr/bin/env python3
"""A stand-in for a server of ntfy, for tests of tests/ntfy_bridge.py: `ntfy_server.py DIRECTORY`.

It does what https://docs.ntfy.sh/publish/ says of publishing as JSON: an answer with an id, 401 and 403 for tokens and
topics that are not allowed, 429 for a visitor who sends too much, 413 for a text that is too long to be shown."""
import http.server, json, os, sys

if sys.argv[1] in ("heard", "can"):
    NO = "ntfy has only notices, with a text"
    words = ["heard", "cut: the server always answers", "html: the server always answers", "half: there is no connection", "say: nothing is read from ntfy"]
    words += ["%s: %s" % (word, NO) for word in ("bring", "large", "unwanted", "files", "elsewhere", "edit", "mention", "stranger", "forge", "repeat", "meddle", "limit", "previews", "reactions", "second")]
    with open(os.path.join(os.environ["NTFY_PEOPLE"], "heard"), "a+") as log:
        log.seek(0)
        shown = [json.loads(line)["message"] for line in log]
    print("\n".join(shown if sys.argv[1] == "heard" else words))
    sys.exit()
here, count = sys.argv[1], 0

class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        global count
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        count += 1
        if self.headers.get("Authorization") != "Bearer tk_secret":
            return self.answer(401, {"code": 40101, "http": 401, "error": "unauthorized"})
        if asked["topic"] == "forbidden":
            return self.answer(403, {"code": 40301, "http": 403, "error": "forbidden"})
        if asked["topic"] == "busy" and count % 2:
            return self.answer(429, {"code": 42901, "http": 429, "error": "limit reached: too many requests"})
        if len(asked["message"].encode()) > 4096:
            return self.answer(413, {"code": 41301, "http": 413, "error": "attachment too large"})
        with open(os.path.join(here, "heard"), "a") as log:
            log.write(json.dumps(asked) + "\n")
        self.answer(200, {"id": "n%d" % count, "event": "message", "topic": asked["topic"], "message": asked["message"]})

    def answer(self, code, body):
        body = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

# Killed and started again, it is where it was.
port = int(open(os.path.join(here, "port")).read()) if os.path.exists(os.path.join(here, "port")) else 0
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Server)
with open(os.path.join(here, "port.new"), "w") as file:
    file.write(str(server.server_address[1]))
os.rename(os.path.join(here, "port.new"), os.path.join(here, "port"))
server.serve_forever()
