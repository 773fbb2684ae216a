#!/usr/bin/env python3
"""A network behind a webhook, and the people on it, as docs/webhook.md asks for.

`serve DIRECTORY HEARTH` listens on a port of this machine and posts what people say to the port HEARTH, in order and each
again until it is answered; the other words find it by the directory that WEBHOOK_PEOPLE names. `say TEXT`: Ann writes to
the bot. `heard`: everything that the bot sent, as people see it."""
import hashlib, hmac, json, os, queue, socket, sys, threading, time

HERE = sys.argv[2] if sys.argv[1] == "serve" else os.environ["WEBHOOK_PEOPLE"]
SECRET = b"the-secret-of-both"
CHATS = ("ann",)
LOCK = threading.Lock()
SHOWN, BY_ID = [], {}  # messages, and the id of each by Hearth's id
SAID = queue.Queue()

def write(name, text):
    with open(os.path.join(HERE, name + ".new"), "w") as file:
        file.write(text)
    os.rename(os.path.join(HERE, name + ".new"), os.path.join(HERE, name))

def read(name):
    with open(os.path.join(HERE, name)) as file:
        return file.read()

def sign(stamp, body):
    return "v1=" + hmac.new(SECRET, stamp.encode() + b"." + body, hashlib.sha256).hexdigest()

def request(port, path, value, headers=()):
    body = json.dumps(value).encode()
    stamp = str(int(time.time()))
    signed = {"X-Hearth-Timestamp": stamp, "X-Hearth-Signature": sign(stamp, body)}
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        line.request("POST", path, body, dict(signed, **dict(headers)))
        answer = line.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        line.close()

def pass_on(port):
    """One message after the other: none overtakes one that Hearth puts off."""
    number = 0
    while True:
        text = SAID.get()
        number += 1
        content = {"text": text, "senderId": "ann", "senderName": "Ann"}
        message = {"id": "p%d" % number, "isMention": True, "content": content}
        event = {"channelType": "kit", "platformId": "ann", "message": message}
        while True:
            try:
                status, headers, _ = request(port, "/v1/events", event)
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)  # no answer: the same again
                continue
            if status != 503:
                break  # it is stored, or refused for good
            time.sleep(int(headers["Retry-After"]))

def shown(asked):
    """The answer to a request of Hearth."""
    act = asked["act"]
    if act in ("typing", "subscribe"):
        return 200, {}
    if act not in ("say", "ask", "edit", "react"):
        return 501, {"error": "that cannot be done here"}
    if asked["platformId"] not in CHATS:
        return 422, {"error": "there is no such chat"}
    with LOCK:
        if asked["id"] in BY_ID:
            return 200, {"messageId": BY_ID[asked["id"]]}
        if act in ("edit", "react"):
            at = int((asked["messageId"] or "b0")[1:])
            if not 0 < at <= len(SHOWN):
                return 422, {"error": "there is no such message"}
            if act == "edit":
                SHOWN[at - 1] = asked["text"]
            BY_ID[asked["id"]] = asked["messageId"]
            return 200, {}
        card = asked["card"] or {"title": "", "body": "", "options": []}
        lines = [card["title"], card["body"], asked["text"]] + ["[%s]" % option["label"] for option in card["options"]]
        lines += ["<%s>" % file["name"] if "data" in file else "(no %s: %s)" % (file["name"], file["error"]) for file in asked["files"]]
        SHOWN.append("\n".join(line for line in lines if line))
        BY_ID[asked["id"]] = "b%d" % len(SHOWN)
        return 200, {"messageId": BY_ID[asked["id"]]}

def people(asked):
    """What a person did, or everything that people see."""
    if "say" in asked:
        SAID.put(asked["say"])
    with LOCK:
        return SHOWN

def ask(asked):
    """The same for another process, which begins quickly without a client for HTTP."""
    body = json.dumps(asked).encode()
    with socket.create_connection(("127.0.0.1", int(read("port")))) as line:
        line.sendall(b"POST /people HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        head, _, answer = b"".join(iter(lambda: line.recv(65536), b"")).partition(b"\r\n\r\n")
    if b" 200 " not in head.splitlines()[0]:
        raise SystemExit(head.decode())
    return json.loads(answer)

if sys.argv[1] != "serve":
    heard = ask({"say": sys.argv[2]} if sys.argv[1] == "say" else {})
    if sys.argv[1] == "heard":
        print("\n".join(heard))
    sys.exit()

import http.client
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Network(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is one packet

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/people":
            return self.answer(200, people(json.loads(body)))
        stamp = self.headers.get("X-Hearth-Timestamp", "0")
        if not hmac.compare_digest(self.headers.get("X-Hearth-Signature", ""), sign(stamp, body)) or abs(time.time() - int(stamp)) > 300:
            return self.answer(401, {"error": "not signed by Hearth"})
        self.answer(*shown(json.loads(body)))

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Network)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
threading.Thread(target=pass_on, args=(int(sys.argv[3]),), daemon=True).start()
write("secret", SECRET.decode())
write("port", str(server.server_port))
write("ready", "")
sys.stdin.read()
