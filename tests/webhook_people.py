#!/usr/bin/env python3
"""A network behind a webhook, and the people on it, as docs/webhook.md asks for.

`serve DIRECTORY HEARTH` listens on a port of this machine and posts what people say to the port HEARTH, in order and each
again until it is answered; the other words find it by the directory that WEBHOOK_PEOPLE names. `say TEXT`: Ann writes to
the bot. `heard`: everything that the bot sent, as people see it.

It writes down what people say, what Hearth has of it and what the bot sent, so that it can be killed and started again."""
import base64, hashlib, hmac, json, os, queue, socket, sys, threading, time

HERE = sys.argv[2] if sys.argv[1] == "serve" else os.environ["WEBHOOK_PEOPLE"]
SECRET = b"the-secret-of-both"
CHATS = ("ann",)
LOCK = threading.Lock()
FILES, REACTIONS, PREVIEWS, FAULTS, LAST, THREADED = [], [], [], [], {}, []
SHOWN, BY_ID = [], {}  # messages, and the id of each by Hearth's id
SAID = queue.Queue()

def write(name, text):
    with open(os.path.join(HERE, name + ".new"), "w") as file:
        file.write(text)
    os.rename(os.path.join(HERE, name + ".new"), os.path.join(HERE, name))

def note(name, what):
    """One write, so that a kill leaves whole lines."""
    file = os.open(os.path.join(HERE, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, json.dumps(what).encode() + b"\n")
    os.close(file)

def noted(name):
    path = os.path.join(HERE, name)
    return [json.loads(line) for line in open(path)] if os.path.exists(path) else []

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

def sort(port):
    """A queue for each chat: what Hearth puts off of one holds up no other."""
    chats = {}
    while True:
        number, said = SAID.get()
        person = said.get("person", "ann")
        if person not in chats:
            chats[person] = queue.Queue()
            threading.Thread(target=pass_on, args=(port, chats[person]), daemon=True).start()
        chats[person].put((number, said))

def pass_on(port, chat):
    """One message after the other: none overtakes one that Hearth puts off."""
    while True:
        number, said = chat.get()
        person, files, thread = said.get("person", "ann"), said.get("files", []), said.get("thread")
        content = {"text": said["text"], "senderId": person, "senderName": "Ann", "attachments": files}
        message = {"id": "p%d" % number, "isMention": True, "content": content}
        event = {"channelType": "kit", "platformId": person, "threadId": thread, "message": message}
        while True:
            try:
                status, headers, _ = request(port, "/v1/events", event)
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)  # no answer: the same again
                continue
            if status != 503:
                note("passed", number)  # it is stored, or refused for good
                break
            time.sleep(int(headers["Retry-After"]))

def shown(asked):
    """The answer to a request of Hearth."""
    act = asked["act"]
    if act in ("typing", "subscribe"):
        return 200, {}
    if act == "openDirect":
        known = asked["userId"] in CHATS
        return (200, {"platformId": asked["userId"]}) if known else (422, {"error": "there is no such person"})
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
            elif asked["text"] not in REACTIONS:
                REACTIONS.append(asked["text"])
            BY_ID[asked["id"]] = asked["messageId"]
            return 200, {}
        if asked.get("linkPreviews", False):
            PREVIEWS.append(asked["text"])
        card = asked["card"] or {"title": "", "body": "", "options": []}
        lines = [card["title"], card["body"], asked["text"]] + ["[%s]" % option["label"] for option in card["options"]]
        FILES.extend([file["name"], base64.b64decode(file["data"]).hex()] for file in asked["files"] if "data" in file)
        lines += ["<%s>" % file["name"] if "data" in file else "(no %s: %s)" % (file["name"], file["error"]) for file in asked["files"]]
        text = "\n".join(line for line in lines if line)
        note("shown", [asked["id"], text])
        show(asked["id"], text)
        if asked["threadId"]:
            THREADED.append(asked["text"])
        return 200, {"messageId": BY_ID[asked["id"]]}

def show(id, text):
    SHOWN.append(text)
    BY_ID[id] = "b%d" % len(SHOWN)

def people(asked):
    """What a person did, or everything that people see."""
    with LOCK:
        for said in asked.get("say", []):
            LAST.update(number=LAST.get("number", 0) + 1, said=said)
            note("said", said)
            SAID.put((LAST["number"], said))
        if "again" in asked:
            SAID.put((LAST["number"], LAST["said"]))
        FAULTS.extend(asked.get("faults", []))
        return {"shown": SHOWN, "files": FILES, "reactions": REACTIONS, "previews": PREVIEWS, "threaded": THREADED}

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
    from people import DEEP, content, got, play, spread

    def bring(name, path, text):
        data = base64.b64encode(content(path)).decode()
        ask({"say": [{"text": text, "files": [{"name": name, "mimeType": "application/octet-stream", "data": data}]}]})

    def fault(status, body="", **headers):
        ask({"faults": [[status, body, headers]]})

    NO, OWN = "events of webhooks are messages only", "a webhook says itself who wrote"
    play({
        "say": lambda *texts: ask({"say": [{"text": text} for text in texts]}) and None,
        "heard": lambda: "\n".join(ask({})["shown"]),
        "burst": lambda *texts: spread(texts, ["ann", "bob", "eve", "joe", "sue"], lambda text, person: ask({"say": [{"text": text, "person": person}]})),
        "stranger": lambda text: ask({"say": [{"text": text, "person": "eve"}]}) and None,
        "repeat": lambda: ask({"again": True}) and None,
        "bring": bring,
        "files": lambda: got(ask({})["files"]),
        "cut": lambda: fault(0),
        "limit": lambda seconds="": fault(429, **({"Retry-After": seconds} if seconds else {})),
        "html": lambda: fault(502, "<html>Bad Gateway</html>"),
        "empty": lambda: fault(500),
        "deep": lambda: fault(500, DEEP),
        "previews": lambda: "\n".join(ask({})["previews"]),
        "reactions": lambda: "\n".join(ask({})["reactions"]),
        "thread": lambda text: ask({"say": [{"text": text, "thread": "t1"}]}) and None,
        "threaded": lambda: "\n".join(ask({})["threaded"]),
    }, {"rename": OWN, "thrown": OWN, "invite": OWN, "trip": "a text is one request", "forge": OWN, "bot": OWN, "edit": NO, "delete": NO, "react": NO, "meddle": NO, "mention": OWN, "vanish": "a file is in its event", "unwanted": "a file is in its event", "large": "an event is smaller",
        "elsewhere": "a file is in its event", "huge": "answers are short", "half": "events come to Hearth", "second": "the address is taken", "press": "events of buttons have tests of their own",
        "press-late": "events of buttons have tests of their own"})
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
        asked = json.loads(body)
        fault = FAULTS.pop(0) if FAULTS and asked["act"] not in ("typing", "subscribe") else None
        if fault and fault[0]:
            return self.answer(*fault)
        found = shown(asked)
        if fault:
            # It was done, and the answer is lost.
            self.close_connection = True
            return self.connection.shutdown(2)
        self.answer(*found)

    def answer(self, status, value, headers=()):
        body = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in dict(headers).items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A daemon that is killed leaves connections."""

for id, text in noted("shown"):
    show(id, text)
passed = set(noted("passed"))
for number, said in enumerate(noted("said"), 1):
    LAST.update(number=number, said=said)
    if number not in passed:
        SAID.put((number, said))
port = int(read("port")) if os.path.exists(os.path.join(HERE, "port")) else 0
server = Server(("127.0.0.1", port), Network)
threading.Thread(target=server.serve_forever, daemon=True).start()
threading.Thread(target=sort, args=(int(sys.argv[3]),), daemon=True).start()
write("secret", SECRET.decode())
write("port", str(server.server_port))
write("ready", "")
sys.stdin.read()
