#!/usr/bin/env python3
"""A stand-in for signal-cli, for Signal and for the people there, for tests of `hearth-networks signal`. It needs nothing but
Python.

`serve DIRECTORY` starts it: a daemon of signal-cli on a port of this machine, with everything behind it. As
`--config DIR -a ACCOUNT jsonRpc --receive-mode=manual --ignore-stories` it is the program, which passes its lines on to that
daemon; it finds it by the directory in which this file is. The others find it by the directory that SIGNAL_PEOPLE names.
`say TEXT`: Ann writes to the bot. `heard`: everything that the bot sent, as people see it. `do JSON`: an operation of
`Control`, and its result.

Where a behaviour comes from: S the source of signal-cli (the class is named), D its manual signal-cli-jsonrpc(5), P reports
of people who use it. This was not compared with the real program."""
import base64, http.server, json, os, random, socket, socketserver, sys, threading, time, urllib.request

WORD = next((word for word in sys.argv[1:] if word in ("serve", "do", "jsonRpc")), "")
HERE = os.path.dirname(os.path.abspath(__file__)) if WORD == "jsonRpc" else sys.argv[2] if WORD == "serve" else os.environ["SIGNAL_PEOPLE"]
NUMBER, BOT = "+15550001111", "b0000000-0000-4000-8000-000000000000"
ANN, EVE, BOB = ("%s0000000-0000-4000-8000-00000000000%d" % pair for pair in (("a", 1), ("e", 2), ("c", 3)))
PEOPLE = {ANN: ("+15550000001", "Ann <3"), EVE: ("+15550000002", "Ann"), BOB: (None, "")}
ALL, FEW = base64.b64encode(b"the group of everybody, 32 bytes").decode(), base64.b64encode(b"the group of a few, with 32 byte").decode()
GROUPS = {ALL: [ANN, EVE, BOB], FEW: [ANN, EVE]}
STYLES = ("BOLD", "ITALIC", "SPOILER", "STRIKETHROUGH", "MONOSPACE")  # S TextStyle
lock = threading.RLock()

class Failed(Exception):
    """An error of JSON-RPC, with a code of S SignalJsonRpcCommandHandler: -1 user, -3 I/O, -4 untrusted key, -5 rate limit,
    -6 captcha, and JSON-RPC's own."""
    def __init__(self, code, text, data=None):
        super().__init__(text)
        self.error = {"code": code, "message": text, "data": data}

class State:
    def __init__(self):
        # What Signal's server keeps until signal-cli has written it (S: it is on disk until its handler returned).
        self.queue, self.sent, self.faults, self.log, self.links, self.trusted = [], [], {}, [], [], {}
        self.linked, self.registered, self.noise, self.shuffle, self.told, self.last = False, True, False, False, True, 0
        self.deaf = self.mute = False  # reads nothing any more, or answers nothing at all
        self.files, self.typing, self.config, self.starts, self.again = {}, [], {}, [], False

    def timestamp(self):
        """The time at which something was sent, which is its id together with its author."""
        self.last = max(self.last + 1, int(time.time() * 1000))
        return self.last

state = State()

class Link(socketserver.StreamRequestHandler):
    """A connection: of the program, whose lines are in a frame of their own, or directly to the daemon."""
    def handle(self):
        self.is_program, self.subscription, self.writing, self.held, self.did = False, None, threading.Lock(), [], 0
        first = self.rfile.readline()
        if first.startswith(b'{"program"'):
            self.is_program = True
            asked = json.loads(first)["program"]
            with lock:
                state.starts.append(asked)
            account = asked[asked.index("-a") + 1] if "-a" in asked else None
            if account != NUMBER or not state.registered:
                # S App: the program ends with this text and the code 1.
                return self.frame(["exit", 1, "User %s is not registered." % account])
            first = b""
        with lock:
            state.links.append(self)
        try:
            while True:
                line = first or self.rfile.readline()
                first = b""
                if not line:
                    break
                if self.is_program and line.startswith(b"["):
                    with lock:
                        self.did = json.loads(line)[0]
                    continue
                while state.deaf:
                    time.sleep(0.05)
                request = json.loads(line)
                # S JsonRpcReader: requests are carried out at the same time, so answers come in any order.
                threading.Thread(target=self.answer, args=(request,), daemon=True).start()
        except (OSError, ValueError):
            pass
        with lock:
            if self in state.links:
                state.links.remove(self)

    def frame(self, value):
        with self.writing:
            self.wfile.write(json.dumps(value).encode() + b"\n")
            self.wfile.flush()

    def raw(self, text, number=0):
        """Bytes of the program's output."""
        try:
            if self.is_program:
                self.frame(["out", text, number])
            else:
                with self.writing:
                    self.wfile.write(text.encode())
                    self.wfile.flush()
            return True
        except OSError:
            return False

    def send(self, value):
        return self.raw(json.dumps(value) + "\n")

    def end(self, code=1, text=""):
        try:
            if self.is_program:
                self.frame(["exit", code, text])
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def answer(self, request):
        asked = dict(request.get("params") or {})
        method = request["method"]
        with lock:
            if state.mute:
                return
            state.log.append({"method": method, "params": asked})
            faults = state.faults.get(method)
            fault = faults.pop(0) if faults else {}
            if state.noise:
                # D: notifications come between answers.
                self.send(notification({"receiptMessage": {"when": 1, "isDelivery": True, "isRead": False, "timestamps": [1]}}, BOB))
                self.send(notification({"typingMessage": {"action": "STARTED", "timestamp": 1}}, ANN))
            try:
                if "error" in fault:
                    raise Failed(fault["error"], fault.get("text", "Failed"), fault.get("data"))
                if not state.registered or (not self.is_program and asked.get("account") not in (None, NUMBER)):
                    # S SignalJsonRpcCommandHandler
                    raise Failed(-32602, "Specified account does not exist")
                if not hasattr(Methods, method):
                    raise Failed(-32601, "Method not implemented")
                if fault.get("lost"):
                    return
                found = {"result": getattr(Methods, method)(self, asked, fault)}
            except Failed as failed:
                found = {"error": failed.error}
            reply = dict({"jsonrpc": "2.0", "id": request["id"]}, **found)
        if fault.get("torn"):
            # The process ends in the middle of a line.
            self.raw(json.dumps(reply)[:20])
            return self.end()
        if fault.get("hang"):
            # P nanoclaw#3671: it is sent, and the answer never comes.
            return
        if fault.get("end"):
            return self.end(fault.get("code", 1), fault.get("text", ""))
        time.sleep(fault.get("late", random.uniform(0, 0.1) if state.shuffle else 0))
        self.send(reply)
        flush()

def notification(content, author, timestamp=None, name=None):
    """S JsonMessageEnvelope, SignalJsonRpcDispatcherHandler."""
    number, own = PEOPLE.get(author, (NUMBER, "Owner"))
    stamp = timestamp or state.timestamp()
    envelope = {"source": number or author, "sourceNumber": number, "sourceUuid": author, "sourceName": own if name is None else name, "sourceDevice": 1, "timestamp": stamp, "serverReceivedTimestamp": stamp, "serverDeliveredTimestamp": stamp}
    result = {"envelope": dict(envelope, **content), "account": NUMBER}
    return {"jsonrpc": "2.0", "method": "receive", "params": {"subscription": 0, "result": result}}

def flush():
    """Gives what waits to a connection that subscribed. It is forgotten when the line is written (S)."""
    with lock:
        while state.queue and state.told:
            links = [link for link in state.links if link.subscription is not None]
            if not links:
                return
            link, item = links[-1], state.queue[0]
            item["params"]["subscription"] = link.subscription
            for file in attachments(item):
                if link.is_program and file["id"]:
                    link.frame(["file", file["id"], base64.b64encode(state.files[file["id"]]).decode()])
            if not link.send(item):
                state.links.remove(link)
                continue
            state.queue.pop(0)

def attachments(item):
    envelope = item["params"]["result"]["envelope"]
    data = envelope.get("dataMessage") or (envelope.get("syncMessage") or {}).get("sentMessage") or {}
    return data.get("attachments") or []

def recipients(asked):
    if asked.get("groupId"):
        if asked["groupId"] not in GROUPS:
            raise Failed(-1, "Group not found: " + asked["groupId"])  # S GroupNotFoundException
        return GROUPS[asked["groupId"]], asked["groupId"]
    to = asked.get("recipient") or []
    to = to if isinstance(to, list) else [to]
    if len(to) != 1:
        raise Failed(-1, "No recipients given")
    return to, None

def results(people, group, fault):
    """S JsonSendMessageResult: one for each recipient."""
    found = []
    for person in people:
        kind = fault.get("types", {}).get(person) or fault.get("type")
        kind = kind or ("IDENTITY_FAILURE" if state.trusted.get(person) is False else "SUCCESS")
        if person not in PEOPLE and person != BOT:
            kind = "UNREGISTERED_FAILURE"
        one = {"recipientAddress": {"uuid": person, "number": PEOPLE.get(person, (None,))[0], "username": None}, "type": kind}
        one.update({"groupId": group} if group else {})
        one.update({"retryAfterSeconds": fault.get("after", 2), "token": fault.get("token")} if kind == "RATE_LIMIT_FAILURE" else {})
        found.append(one)
    return found

class Methods:
    """The methods of D that the bridge uses."""
    def version(link, asked, fault):
        return {"version": "0.13.20"}

    def subscribeReceive(link, asked, fault):
        link.subscription = 0
        if state.again and state.sent_in:
            # After a restart the last message can come again: it had been written, but not forgotten.
            state.queue.insert(0, state.sent_in[-1])
        return link.subscription

    def updateConfiguration(link, asked, fault):
        if state.linked:
            raise Failed(-1, "This command doesn't work on linked devices.")  # S UpdateConfigurationCommand
        state.config.update(asked)
        return {}

    def getUserStatus(link, asked, fault):
        return [{"recipient": to, "number": to, "uuid": BOT if to == NUMBER else None, "isRegistered": to == NUMBER} for to in asked["recipient"]]

    def send(link, asked, fault):
        people, group = recipients(asked)
        text = asked.get("message") or ""
        if not text and not asked.get("attachment"):
            raise Failed(-1, "Sending empty message is not allowed, either a message, attachment or sticker must be given.")  # S SendCommand
        files = []
        for path in asked.get("attachment") or []:
            if not os.path.isfile(path):
                raise Failed(-32603, "Failed to send message: %s (AttachmentInvalidException)" % path)
            with open(path, "rb") as file:
                data = file.read()
                files.append({"name": os.path.basename(path), "size": len(data), "hex": data.hex()})
        units = len(text.encode("utf-16-le")) // 2
        for style in asked.get("textStyle") or []:
            start, length, kind = style.split(":")
            if kind not in STYLES or int(start) + int(length) > units:
                raise Failed(-1, "Invalid style: " + style)
        if any(name.startswith("preview") for name in asked):
            raise Failed(-1, "no previews here")
        found = results(people, group, fault)
        stamp = state.timestamp()
        got = [one["recipientAddress"]["uuid"] for one in found if one["type"] == "SUCCESS"]
        message = {"chat": group or people[0], "text": text, "styles": asked.get("textStyle") or [], "files": files, "timestamp": stamp, "got": got, "reactions": []}
        if got and asked.get("editTimestamp"):
            old = own(asked["editTimestamp"])
            old.update(text=text, styles=message["styles"], edited=old.get("edited", 0) + 1)
        elif got:
            state.sent.append(message)
        if not got and fault.get("as_error"):
            # Newer versions: an error with the results in it.
            raise Failed(fault["as_error"], "Failed to send message", {"response": {"timestamp": stamp, "results": found}})
        return {"timestamp": stamp, "results": found}

    def remoteDelete(link, asked, fault):
        people, group = recipients(asked)
        own(asked["targetTimestamp"])["deleted"] = True
        return {"timestamp": state.timestamp(), "results": results(people, group, fault)}

    def sendReaction(link, asked, fault):
        people, group = recipients(asked)
        if not asked.get("emoji") or asked.get("targetAuthor") not in list(PEOPLE) + [BOT]:
            raise Failed(-1, "Invalid reaction")
        state.sent.append({"chat": group or people[0], "reaction": asked["emoji"], "author": asked["targetAuthor"], "target": asked["targetTimestamp"], "timestamp": state.timestamp()})
        return {"timestamp": state.timestamp(), "results": results(people, group, fault)}

    def sendTyping(link, asked, fault):
        people, group = recipients(asked)
        state.typing.append(group or people[0])
        return {"timestamp": state.timestamp(), "results": results(people, group, fault)}

    def getAttachment(link, asked, fault):
        if asked.get("id") not in state.files:
            raise Failed(-1, "Could not find attachment with ID: %s" % asked.get("id"))
        return {"data": base64.b64encode(state.files[asked["id"]]).decode()}  # S JsonAttachmentData

def own(timestamp):
    found = [message for message in state.sent if message["timestamp"] == timestamp]
    if not found:
        raise Failed(-1, "Message not found")
    return found[0]

class Control:
    """What tests do."""
    def say(text="", person=ANN, group=None, files=(), mentions=(), quote=None, to=None, **more):
        """A person writes; with `to`, the owner of the account does it on their telephone."""
        shown = []
        for file in files:
            name = file.get("id", "%d.bin" % state.timestamp())
            state.files[name] = base64.b64decode(file["data"]) if "data" in file else file.get("text", "").encode()
            shown.append({"contentType": file.get("mime", "text/plain"), "filename": file.get("name"), "id": name if file.get("fetched", True) else None, "size": file.get("size", len(state.files[name])), "width": None, "height": None, "caption": None, "uploadTimestamp": 1})
        if len(text) > 2000:
            # G: the message has the beginning, and a file the whole text.
            name = "%d.txt" % state.timestamp()
            state.files[name], text = text.encode(), text[:2000]
            shown.append({"contentType": "text/x-signal-plain", "filename": None, "id": name, "size": len(state.files[name])})
        stamp = state.timestamp()
        data = dict({"timestamp": stamp, "message": text, "expiresInSeconds": 0, "isExpirationUpdate": False, "viewOnce": False}, **more)
        data.update({"attachments": shown} if shown else {})
        data.update({"mentions": [{"name": who, "number": None, "uuid": who, "start": start, "length": 1} for start, who in mentions]} if mentions else {})
        data.update({"quote": {"id": quote[0], "author": quote[1], "authorUuid": quote[1], "text": quote[2], "attachments": []}} if quote else {})
        data.update({"groupInfo": {"groupId": group, "groupName": "A group", "revision": 1, "type": "DELIVER"}} if group else {})
        if to or person == BOT:
            sent = dict(data, destination=to, destinationNumber=None, destinationUuid=to)
            return put(notification({"syncMessage": {"sentMessage": sent}}, BOT, stamp))
        return put(notification({"dataMessage": data}, person, stamp))

    def envelope(person=ANN, **content):
        return put(notification(content, person))

    def repeat():
        """The last message once more."""
        return put(json.loads(json.dumps(state.sent_in[-1])))

    def garbage(lines=1):
        for link in state.links:
            link.raw("INFO  DaemonCommand - this is no JSON\n" * lines)

    def end(text="", code=1):
        for link in list(state.links):
            link.end(code, text)

    def torn():
        """The process ends in the middle of a message, which Signal's server keeps."""
        for link in list(state.links):
            link.raw(json.dumps(state.queue[0] if state.queue else {"jsonrpc": "2.0"})[:40])
            link.end()

    def fault(method, faults):
        state.faults.setdefault(method, []).extend(faults)

    def set(**values):
        for name, value in values.items():
            setattr(state, name, value)
        flush()

    def trust(person, trusted):
        state.trusted[person] = trusted

    def log(method=""):
        return [asked for asked in state.log if asked["method"].startswith(method)]

    def sent(chat=None):
        return [message for message in state.sent if chat in (None, message["chat"])]

    def heard():
        return [seen(message) for message in state.sent if not message.get("deleted")]

    def known():
        return {"queue": len(state.queue), "links": len(state.links), "subscribed": len([link for link in state.links if link.subscription is not None]), "typing": state.typing, "config": state.config, "starts": state.starts, "last": state.last}

state.sent_in = []

def put(item):
    state.sent_in.append(item)
    state.queue.append(item)
    flush()
    return {"timestamp": item["params"]["result"]["envelope"]["timestamp"]}

def seen(message):
    if "reaction" in message:
        return "(reaction %s)" % message["reaction"]
    return "\n".join([message["text"]] + ["(file %s of %d bytes)" % (file["name"], file["size"]) for file in message["files"]])

class Operations(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with lock:
            found = getattr(Control, asked.pop("do"))(**asked)
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

class Server(socketserver.ThreadingTCPServer):
    daemon_threads, allow_reuse_address, request_queue_size = True, True, 64

def read(name):
    with open(os.path.join(HERE, name)) as file:
        return file.read()

def write(name, text):
    with open(os.path.join(HERE, name + ".new"), "w") as file:
        file.write(text)
    os.rename(os.path.join(HERE, name + ".new"), os.path.join(HERE, name))

def do(**asked):
    with urllib.request.urlopen("http://127.0.0.1:%s/control" % read("control"), json.dumps(asked).encode(), 30) as answer:
        return json.load(answer)

def program():
    """The program: its lines are those of the daemon. It ends with its standard input (S JsonRpcReader)."""
    directory = sys.argv[sys.argv.index("--config") + 1]
    connection = socket.create_connection(("127.0.0.1", int(read("port"))), 30)
    connection.settimeout(None)
    connection.sendall(json.dumps({"program": sys.argv[1:]}).encode() + b"\n")
    def requests():
        for line in sys.stdin.buffer:
            connection.sendall(line)
        os._exit(0)
    threading.Thread(target=requests, daemon=True).start()
    for line in connection.makefile("rb"):
        what, *about = json.loads(line)
        if what == "file":
            os.makedirs(os.path.join(directory, "attachments"), exist_ok=True)
            with open(os.path.join(directory, "attachments", about[0]), "wb") as file:
                file.write(base64.b64decode(about[1]))
        elif what == "exit":
            sys.stderr.write(about[1] + "\n")
            sys.stderr.flush()
            os._exit(about[0])
        else:
            os.write(1, about[0].encode())
    os._exit(1)

if WORD == "serve":
    servers = [Server(("127.0.0.1", 0), handler) for handler in (Link, Operations)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    write("port", str(servers[0].server_address[1]))
    write("control", str(servers[1].server_address[1]))
    write("ready", "")
    sys.stdin.read()
elif WORD == "jsonRpc":
    program()
elif WORD == "do":
    print(json.dumps(do(**json.loads(sys.argv[2]))))
else:
    from people import content, got, play, spread

    def write_to(text, chat=ALL, **more):
        if chat == ANN or chat == EVE:
            return do(do="say", text=text, person=chat)
        do(do="say", text="\ufffc " + text, group=chat, mentions=[[0, BOT]], **more)

    def rename():
        changed(dataMessage=data(groupInfo={"groupId": ALL, "groupName": "Renamed", "revision": 2, "type": "UPDATE"}))

    def thrown():
        """S NotAGroupMemberException."""
        fault(error=-1, text="User is not a member in group: " + FEW)
        return FEW

    def last():
        return do(do="known")["last"]

    def reply(text):
        said = [one for one in do(do="sent", chat=ALL) if "text" in one][-1]
        do(do="say", text=text, group=ALL, quote=[said["timestamp"], BOT, said["text"]])

    def bring(name, path, text, **more):
        data = base64.b64encode(content(path)).decode()
        do(do="say", text=text, files=[dict({"name": name, "data": data, "mime": "application/octet-stream"}, **more)])

    def fault(**what):
        do(do="fault", method="send", faults=[what])

    def changed(**content):
        do(do="envelope", **content)

    def reactions():
        """One of each message: another one replaces it."""
        sent = do(do="sent")
        known = {message["timestamp"] for message in sent if "text" in message}
        return {message["target"]: message["reaction"] for message in sent if message.get("target") in known}

    data = lambda **more: dict({"timestamp": 1, "message": None, "expiresInSeconds": 0, "viewOnce": False}, **more)
    play({
        "say": lambda *texts: [do(do="say", text=text) for text in texts] and None,
        "heard": lambda: "\n".join(do(do="heard")),
        "burst": lambda *texts: spread(texts, [ANN, EVE, ALL, FEW], write_to),
        "stranger": lambda text: write_to(text, EVE) and None,
        "forge": lambda text: do(do="say", text=text, person=EVE, senderId=ANN) and None,
        "repeat": lambda: do(do="repeat") and None,
        "edit": lambda text: changed(editMessage={"targetSentTimestamp": last(), "dataMessage": data(message=text)}),
        "meddle": lambda text: changed(person=EVE, editMessage={"targetSentTimestamp": last(), "dataMessage": data(message=text)}),
        "delete": lambda text: changed(dataMessage=data(remoteDelete={"timestamp": last()})),
        "react": lambda text: changed(dataMessage=data(reaction={"emoji": "👍", "targetAuthor": ANN, "targetSentTimestamp": last(), "isRemove": False})),
        "mention": write_to,
        "rename": rename,
        "thrown": thrown,
        "gone": lambda: "bm8gc3VjaCBncm91cCwgYnV0IDMyIGJ5dGVzIGxvbmc=",
        "invite": lambda text: do(do="say", text="\ufffc " + text, person=EVE, group="RXZlJ3MgZ3JvdXAsIHdpdGggMzIgYnl0ZXMgaW4gaXQ=", mentions=[[0, BOT]]) and None,
        "trip": lambda: do(do="fault", method="send", faults=[{}, {"type": "RATE_LIMIT_FAILURE", "after": 1}]),
        "named": lambda text: do(do="say", text="hearth, " + text, group=ALL) and None,
        "reply": reply,
        "where": lambda: ALL,
        "bring": bring,
        "unwanted": bring,
        "large": bring,
        "vanish": lambda name, path, text: bring(name, path, text, fetched=False),
        "files": lambda: got([file["name"], file["hex"]] for message in do(do="sent") for file in message.get("files", [])),
        "cut": lambda: fault(end=True),
        "limit": lambda seconds="": fault(type="RATE_LIMIT_FAILURE", after=int(seconds) if seconds else None),
        "html": lambda: fault(torn=True),
        "reactions": lambda: "\n".join(reactions().values()),
        "requests": lambda: str(len(do(do="known")["starts"])),
    }, {"everyone": "Signal has no such mention", "bot": "Signal has no bots", "elsewhere": "signal-cli fetches files",
        "empty": "signal-cli writes lines", "huge": "signal-cli writes lines", "deep": "signal-cli writes lines",
        "previews": "signal-cli makes none unless it is asked", "second": "signal-cli keeps others away from its directory", "half": "signal-cli connects again"})
