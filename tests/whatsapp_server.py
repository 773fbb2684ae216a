#!/usr/bin/env python3
"""A stand-in for WhatsApp's Cloud API and the people there, for tests of the bridge `hearth-networks whatsapp`. It needs
nothing but Python.

`serve DIRECTORY PORT` starts it on a port of this machine, with the bridge's own port; the others find it by the directory
that WHATSAPP_PEOPLE names. `say TEXT`: Ann writes to the bot. `heard`: everything that the bot sent, as people see it.
`do JSON`: an operation of `Control`, and its result.

Where a behaviour comes from: D Meta's documentation of the WhatsApp Business Platform (the page is named), P reports of people
who use it, G a guess. Times that are hours there are parts of seconds here. This was not compared with the real service."""
import base64, hashlib, hmac, http.client, http.server, json, os, re, sys, threading, time, urllib.parse, urllib.request

HERE = sys.argv[2] if sys.argv[1] == "serve" else os.environ["WHATSAPP_PEOPLE"]
TOKEN, APP_SECRET, VERIFY = "EAAtokenOfTests", "0a1b2c3d4e5f60718293a4b5c6d7e8f9", "words-of-the-operator"
NUMBER, OTHER, PATH = "106540352242922", "106540352242923", "/whatsapp"
ANN, EVE, BOB = "15550000001", "15550000002", "US.13491208655302741918"
PEOPLE = {ANN: "Ann <3", EVE: "Ann", BOB: ""}
# D supported media types: what an upload may say of itself.
MEDIA = {"audio/aac", "audio/amr", "audio/mpeg", "audio/mp4", "audio/ogg", "image/jpeg", "image/png", "image/webp", "video/mp4", "video/3gpp",
         "text/plain", "application/pdf", "application/msword", "application/vnd.ms-excel", "application/vnd.ms-powerpoint"}
OFFICE = "application/vnd.openxmlformats-officedocument."
lock = threading.RLock()

class Failed(Exception):
    """An error as the API says it (D error codes)."""
    def __init__(self, code, text, status=400, details=None, headers=()):
        super().__init__(text)
        self.status, self.headers = status, dict(headers)
        self.error = {"message": "(#%d) %s" % (code, text), "type": "OAuthException", "code": code, "fbtrace_id": "A1"}
        if details:
            self.error["error_data"] = {"messaging_product": "whatsapp", "details": details}

class State:
    def __init__(self):
        self.sent, self.log, self.faults, self.files, self.read = [], [], {}, {}, []
        self.reports, self.statuses, self.answers, self.count, self.leaked = [], [], [], 0, []
        self.token, self.told, self.open = TOKEN, True, True  # `open`: within 24 hours of the last message

    def number(self):
        self.count += 1
        return self.count

    def wamid(self):
        """D messages webhook reference: the id of a message."""
        return "wamid." + base64.b64encode(b"message %06d of tests" % self.number()).decode()

state = State()

def encoded(value):
    """P: bodies have characters beyond ASCII and slashes escaped, and the signature is that of these bytes."""
    return json.dumps(value).replace("/", "\\/").encode()

def signed(body, secret=APP_SECRET):
    """D webhooks, validate payloads."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()

def report(value, number=NUMBER):
    metadata = {"display_phone_number": "15550001111", "phone_number_id": number}
    value = dict({"messaging_product": "whatsapp", "metadata": metadata}, **value)
    return {"object": "whatsapp_business_account", "entry": [{"id": "100", "changes": [{"value": value, "field": "messages"}]}]}

def message(said="", person=ANN, **more):
    """D messages webhook reference. Someone who shows no number has an id only (D business-scoped user IDs)."""
    with lock:
        found = {"id": state.wamid(), "timestamp": str(int(time.time())), "type": "text", "text": {"body": said}}
    found.update({"from_user_id": person} if "." in person else {"from": person, "from_user_id": "US." + person})
    return {key: value for key, value in dict(found, **more).items() if value is not None}

def contacts(people):
    found = [{"profile": {"name": PEOPLE.get(person, "")}, "user_id": person if "." in person else "US." + person} for person in people]
    return [dict(one, **({} if "." in person else {"wa_id": person})) for one, person in zip(found, people)]

def post(body, signature, path=PATH):
    """Asks the bridge; the status, or 0 if it is not there."""
    connection = http.client.HTTPConnection("127.0.0.1", int(read("hook")), timeout=20)
    try:
        headers = {"content-type": "application/json", "user-agent": "facebookexternalua"}
        connection.request("POST", path, body, dict(headers, **({"x-hub-signature-256": signature} if signature else {})))
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()

def push(queue):
    """D webhooks: what is not answered with 200 is sent again, for up to 7 days."""
    while True:
        with lock:
            body = queue[0] if queue and (queue is not state.statuses or state.told) else None
        if body is None:
            time.sleep(0.01)
            continue
        status = post(body, signed(body))
        with lock:
            state.answers.append(status)
            if status == 200:
                queue.pop(0)
        time.sleep(0 if status == 200 else 0.1)

def tell(found, kind, failure=None):
    """D status messages webhook reference. The key that went with the message comes back."""
    status = {"id": found["id"], "status": kind, "timestamp": str(int(time.time())), "recipient_id": found["to"]}
    status.update({"biz_opaque_callback_data": found["key"]} if found["key"] else {})
    status.update({"errors": [failure]} if failure else {})
    with lock:
        state.statuses.append(encoded(report({"statuses": [status]})))

def failure(code):
    texts = {131047: ("Re-engagement message", "Message failed to send because more than 24 hours have passed since the customer last replied to this number."),
             131026: ("Message undeliverable", "Message Undeliverable."), 131000: ("Something went wrong", "Message failed to send due to an unknown error.")}
    title, details = texts.get(code, ("Failed", "It failed."))
    return {"code": code, "title": title, "message": title, "error_data": {"details": details}}

def known(asked):
    """D messages API: a number in `to`, another id in `recipient`."""
    if asked.get("messaging_product") != "whatsapp":
        raise Failed(100, "The parameter messaging_product is required.")
    if asked.get("to") and not re.fullmatch(r"\d+", asked["to"]) or not (asked.get("to") or asked.get("recipient")):
        raise Failed(100, "Invalid parameter", details="Parameter value is not valid")
    return asked.get("to") or asked["recipient"]

def checked(asked):
    """D text, interactive reply buttons, interactive list, reaction and media messages: their limits."""
    kind, wrong = asked.get("type", "text"), lambda why: Failed(131009, "Parameter value is not valid", details=why)
    content = asked.get(kind) or {}
    if kind == "text" and not 1 <= len(content.get("body") or "") <= 4096:
        raise wrong("text.body must have 1 to 4096 characters")
    if kind == "interactive":
        action, is_list = content["action"], content["type"] == "list"
        if not 1 <= len(content["body"]["text"]) <= (4096 if is_list else 1024):
            raise wrong("interactive.body.text is too long")
        shown = [row for section in action["sections"] for row in section["rows"]] if is_list else [button["reply"] for button in action["buttons"]]
        titles = [one["title"] for one in shown]
        if not 1 <= len(shown) <= (10 if is_list else 3) or len(set(titles)) < len(titles):
            raise wrong("too many options, or the same twice")
        if any(not 1 <= len(title) <= (24 if is_list else 20) for title in titles) or any(len(one["id"]) > (200 if is_list else 256) for one in shown):
            raise wrong("a title or an id is too long")
    if kind in ("image", "video", "audio", "document") and content.get("id") not in state.files:
        raise Failed(131053, "Media upload error", details="The media is not known")
    if kind == "audio" and "caption" in content:
        raise wrong("audio has no caption")
    return kind, content

def send(asked, fault):
    if asked.get("status") == "read":
        # D typing indicators: with the id of a message that came.
        state.read.append(asked)
        return {"success": True}
    person = known(asked)
    kind, content = checked(asked)
    found = {"id": state.wamid(), "to": person, "kind": kind, "content": content, "key": asked.get("biz_opaque_callback_data"), "preview": content.get("preview_url")}
    code = fault.get("fails") or (131026 if person not in PEOPLE else None if state.open else 131047)
    if code:
        tell(found, "failed", failure(code))
    else:
        state.sent.append(found)
        # P: statuses come in any order, and before the answer.
        for word in fault.get("statuses", ["delivered", "sent", "read"]):
            tell(found, word)
    return {"messaging_product": "whatsapp", "contacts": [{"input": person, "wa_id": person}], "messages": [{"id": found["id"]}]}

def upload(body, kind):
    """D media: the form has the product, the type and the file."""
    boundary = re.search("boundary=(.+)$", kind).group(1).encode()
    form = {}
    for part in body.split(b"--" + boundary)[1:-1]:
        head, _, value = part[2:].partition(b"\r\n\r\n")
        form[re.search(rb'name="([^"]+)"', head).group(1).decode()] = value[:-2]
    mime = form["type"].decode()
    if form["messaging_product"] != b"whatsapp" or not (mime in MEDIA or mime.startswith(OFFICE)):
        raise Failed(100, "Param file must be a file with one of the following types: ...")  # P
    with lock:
        name = str(900000000 + state.number())
        state.files[name] = {"bytes": form["file"], "mime": mime}
    return {"id": name}

class Api(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, value, headers=()):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in dict({"content-type": "application/json", "content-length": len(body)}, **dict(headers)).items():
            self.send_header(name, str(text))
        self.end_headers()
        self.wfile.write(body)

    def cut(self):
        self.close_connection = True
        self.connection.shutdown(2)

    def attend(self, body=b""):
        # The version can be any; the rest is the way.
        way = urllib.parse.urlsplit(self.path).path.split("/")[1:]
        if way[0] == "told":
            state.leaked.extend([self.headers["authorization"]] if "authorization" in self.headers else [])
            return self.reply(200, state.files[way[1]]["bytes"])
        if way[0] == "files" and way[1].startswith("away-"):
            return self.reply(302, b"", {"location": "http://localhost:%s/told/%s" % (read("port"), way[1][5:])})
        name = "files" if way[0] == "files" else way[2] if len(way) > 2 else "number" if way[1] in (NUMBER, OTHER) else "file"
        with lock:
            asked = json.loads(body) if name == "messages" else None
            state.log.append({"name": name, "asked": asked})
            faults = state.faults.get(name)
            is_sign = bool(asked) and asked.get("status") == "read"
            fault = faults.pop(0) if faults and not is_sign else {}
        try:
            if self.headers.get("authorization") != "Bearer " + state.token:
                if name == "files":
                    return self.reply(404, b"<!DOCTYPE html><html><title>Error</title></html>", {"content-type": "text/html"})  # P
                raise Failed(190, "Error validating access token", 401)
            if fault.get("lost"):
                return self.cut()
            if fault.get("html"):
                return self.reply(fault["html"], b"<html>Bad Gateway</html>", {"content-type": "text/html"})
            if fault.get("code"):
                raise Failed(fault["code"], fault.get("text", "refused"), fault.get("status", 400), fault.get("details"), fault.get("headers", {}))
            with lock:
                found = self.found(name, way, body, asked, fault)
        except Failed as failed:
            return self.reply(failed.status, {"error": failed.error}, failed.headers)
        time.sleep(fault.get("late", 0))
        if fault.get("cut"):
            return self.cut()
        self.reply(200, found)

    def found(self, name, way, body, asked, fault):
        if name == "number":
            return {"display_phone_number": "+1 555-000-1111", "id": way[1]}
        if name == "messages":
            return send(asked, fault)
        if name == "media":
            return upload(body, self.headers["content-type"])
        file = state.files.get(urllib.parse.unquote(way[1]))
        if not file or file.get("gone"):
            raise Failed(100, "Unsupported get request.", details="The file expired")  # D media: after 7 days
        if name == "files":
            return file["bytes"]
        # D media: the address works for 5 minutes, and wants the token.
        url = "http://127.0.0.1:%s/files/away-%s" % (read("port"), way[1]) if file.get("url") == "away" else file.get("url") or "http://127.0.0.1:%s/files/%s" % (read("port"), way[1])
        return {"messaging_product": "whatsapp", "url": url, "mime_type": file["mime"], "file_size": file.get("size", len(file["bytes"])), "id": way[1]}

    def do_GET(self):
        self.attend()

    def do_POST(self):
        self.attend(self.rfile.read(int(self.headers["content-length"])))

def seen(found):
    kind, content = found["kind"], found["content"]
    if kind == "text":
        return content["body"]
    if kind == "reaction":
        return "(reaction %s)" % content["emoji"]
    if kind == "interactive":
        action = content["action"]
        rows = [row for section in action.get("sections", []) for row in section["rows"]] + [button["reply"] for button in action.get("buttons", [])]
        return "\n".join([content["body"]["text"]] + ["[%s]" % row["title"] for row in rows])
    file = state.files[content["id"]]
    return "%s(%s %s of %d bytes)" % (content.get("caption", ""), "file", content.get("filename", kind), len(file["bytes"]))

class Control:
    """What tests do."""
    def say(text="", person=ANN, times=1, number=NUMBER, file=None, press=None, quote=None, secret=None, **more):
        """A person writes, perhaps with a file, or by a button; the report comes so many times."""
        if file is not None:
            name = str(800000000 + state.number())
            state.files[name] = {"bytes": open(file["path"], "rb").read() if "path" in file else file.get("text", "").encode(), "mime": file.get("mime", "text/plain"), **{key: file[key] for key in ("gone", "url", "size") if key in file}}
            kind = file.get("kind", "document")
            shown = {"id": name, "mime_type": state.files[name]["mime"], "sha256": "x", **({"filename": file["name"]} if "name" in file else {}), **({"caption": text} if text else {})}
            more = dict({"type": kind, kind: shown, "text": None}, **more)
        if press is not None:
            kind, name, title = press
            more = dict({"type": "interactive", "interactive": {"type": kind, kind: {"id": name, "title": title}}, "text": None}, **more)
        if quote is not None:
            more["context"] = {"from": "15550001111", "id": quote}
        written = message(text, person, **more)
        body = encoded(report({"contacts": contacts([person]), "messages": [written]}, number))
        if secret is not None:
            return {"id": written["id"], "status": post(body, signed(body, secret) if secret else None)}
        state.reports.extend([body] * times)
        state.last = body
        return {"id": written["id"]}

    def again():
        """The last report once more."""
        state.reports.append(state.last)

    def files():
        return [[found["content"].get("filename", ""), state.files[found["content"]["id"]]["bytes"].hex()] for found in state.sent if "id" in found["content"]]

    def batch(texts, person=ANN):
        """Several messages in one report, the newest first (P)."""
        written = [message(text, person, timestamp=str(int(time.time()) - len(texts) + at)) for at, text in enumerate(texts)]
        state.reports.append(encoded(report({"contacts": contacts([person]), "messages": written[::-1]})))

    def post(text, signature=None, path=PATH):
        body = text.encode()
        return post(body, signed(body) if signature is None else signature, path)

    def reencoded(text):
        """The signature of the same JSON in other bytes."""
        value = report({"messages": [message(text)]})
        return post(json.dumps(value, ensure_ascii=False).encode(), signed(encoded(value)))

    def huge(size):
        """A signed report of so many bytes."""
        value = report({"contacts": contacts([ANN]), "messages": [message("huge " + "x" * size)]})
        body = encoded(value)
        return post(body, signed(body))

    def verify(token=VERIFY, challenge="1158201444", mode="subscribe"):
        """D webhooks, verification requests."""
        query = urllib.parse.urlencode({"hub.mode": mode, "hub.challenge": challenge, "hub.verify_token": token})
        connection = http.client.HTTPConnection("127.0.0.1", int(read("hook")), timeout=20)
        connection.request("GET", PATH + "?" + query)
        answer = connection.getresponse()
        return [answer.status, answer.read().decode()]

    def fault(name, faults):
        state.faults.setdefault(name, []).extend(faults)

    def set(**values):
        for name, value in values.items():
            setattr(state, name, value)

    def log(name=""):
        return [asked for asked in state.log if asked["name"].startswith(name)]

    def sent(chat=None):
        return [dict(found, text=seen(found)) for found in state.sent if chat in (None, found["to"])]

    def heard():
        return [seen(found) for found in state.sent]

    def known():
        return {"reports": len(state.reports), "statuses": len(state.statuses), "answers": state.answers[-20:], "read": state.read, "leaked": state.leaked}

class Operations(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        operation = getattr(Control, asked.pop("do"))
        if operation in (Control.post, Control.reencoded, Control.huge, Control.verify) or "secret" in asked:
            found = operation(**asked)  # They wait for the bridge.
        else:
            with lock:
                found = operation(**asked)
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

class Server(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 64

    def handle_error(self, request, address):
        # A bridge that was killed is no error here.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, address)

def read(name):
    with open(os.path.join(HERE, name)) as file:
        return file.read()

def write(name, text):
    with open(os.path.join(HERE, name + ".new"), "w") as file:
        file.write(text)
    os.rename(os.path.join(HERE, name + ".new"), os.path.join(HERE, name))

def do(**asked):
    request = urllib.request.Request("http://127.0.0.1:%s/" % read("control"), json.dumps(asked).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)

if sys.argv[1] == "serve":
    servers = [Server(("127.0.0.1", 0), handler) for handler in (Api, Operations)]
    write("port", str(servers[0].server_address[1]))
    write("control", str(servers[1].server_address[1]))
    write("hook", sys.argv[3])
    write("token", TOKEN)
    write("secret", APP_SECRET + ":" + VERIFY)
    for work in [server.serve_forever for server in servers] + [lambda queue=queue: push(queue) for queue in (state.reports, state.statuses)]:
        threading.Thread(target=work, daemon=True).start()
    write("ready", "")
    sys.stdin.read()
elif sys.argv[1] == "do":
    print(json.dumps(do(**json.loads(sys.argv[2]))))
else:
    from people import got, play, spread

    def fault(**what):
        do(do="fault", name="messages", faults=[what])

    def bring(name, path, text, **more):
        do(do="say", text=text, file=dict({"name": name, "path": path, "mime": "application/octet-stream"}, **more))

    def press(label, **more):
        found = [found["content"]["action"] for found in do(do="sent") if found["kind"] == "interactive"][-1]
        rows = [("list_reply", row) for section in found.get("sections", []) for row in section["rows"]]
        rows += [("button_reply", button["reply"]) for button in found.get("buttons", [])]
        kind, row = [one for one in rows if one[1]["title"] == label][0]
        do(do="say", press=[kind, row["id"], row["title"]], **more)

    def reactions():
        """One of each message: another one replaces it."""
        sent = do(do="sent")
        known = {found["id"] for found in sent}
        return {found["content"]["message_id"]: found["text"] for found in sent if found["kind"] == "reaction" and found["content"]["message_id"] in known}

    play({
        "say": lambda *texts: [do(do="say", text=text) for text in texts] and None,
        "heard": lambda: "\n".join(do(do="heard")),
        "burst": lambda *texts: spread(texts, [ANN, EVE, BOB], lambda text, person: do(do="say", text=text, person=person)),
        "stranger": lambda text: do(do="say", text=text, person=EVE) and None,
        "forge": lambda text: do(do="say", text=text, person=EVE, senderId=ANN) and None,
        "repeat": lambda: do(do="again"),
        "react": lambda text: do(do="say", type="reaction", reaction={"message_id": "wamid.x", "emoji": "👍"}) and None,
        "bring": bring,
        "unwanted": bring,
        "large": bring,
        "vanish": lambda name, path, text: bring(name, path, text, gone=True),
        "files": lambda: got(do(do="files")),
        "elsewhere": lambda name, path, text: bring(name, path, text, url="away"),
        "told": lambda: "\n".join(do(do="known")["leaked"]),
        "cut": lambda: fault(cut=True),
        "limit": lambda seconds="": fault(code=130429, status=429, headers={"Retry-After": seconds} if seconds else {}),
        "html": lambda: fault(html=502),
        "previews": lambda: "\n".join(found["text"] for found in do(do="sent") if found["preview"]),
        "press": press,
        "press-other": lambda label: press(label, person=EVE),
        "trip": lambda: do(do="fault", name="messages", faults=[{}, {"code": 130429, "status": 429, "headers": {"Retry-After": "1"}}]),
        "reactions": lambda: "\n".join(reactions().values()),
        "requests": lambda: str(len(do(do="log"))),
    }, {"press-late": "an answer to a press is a message", "edit": "the Cloud API tells of no edits", "delete": "the Cloud API tells of no deletions", "meddle": "the Cloud API tells of no edits",
        "mention": "the Cloud API has no groups", "rename": "the Cloud API has no groups", "thrown": "the Cloud API has no groups", "invite": "the Cloud API has no groups", "bot": "the Cloud API has no bots", "half": "WhatsApp connects to the bridge",
        "second": "WhatsApp connects to one address"})
