#!/usr/bin/env python3
"""A stand-in for Discord, for tests of `hearth-networks discord`: its gateway and as much of its REST API as the bridge
needs. What it does is what Discord's documentation says (version 10, 2026); comments name the page. It is strict: what the
documentation forbids is refused and noted in `violations`.

`serve DIRECTORY` starts it on two ports of this machine; the others find it by the directory that DISCORD_PEOPLE names.
`say TEXT`: Ann writes to the bot in their direct chat. `heard`: everything that the bot has sent, as people see it.
`do JSON`: asks or changes something, see `Control`."""
import base64, collections, hashlib, json, os, re, socket, socketserver, struct, sys, threading, time, urllib.parse, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERE = sys.argv[2] if sys.argv[1:2] == ["serve"] else os.environ["DISCORD_PEOPLE"]
TOKEN = "bot-token.MTk4NjIyNDgzNDcxOTI1MjQ4.secret"
BOT, ANN, EVE, OTHER_BOT = "900000000000000042", "900000000000000005", "900000000000000006", "900000000000000043"
GUILD, GENERAL, SIDE, THREAD, DIRECT = ("900000000000000%03d" % number for number in (100, 101, 102, 103, 104))
USERS = {BOT: {"id": BOT, "username": "hearth", "bot": True}, ANN: {"id": ANN, "username": "ann", "global_name": "Ann"},
         EVE: {"id": EVE, "username": "eve", "global_name": "Ann"}, OTHER_BOT: {"id": OTHER_BOT, "username": "robot", "bot": True}}
LOCK = threading.RLock()

def now():
    return time.time()

class World:
    def __init__(self):
        self.messages = collections.OrderedDict()  # by id, in the order in which they were made
        self.channels = {GENERAL: {"id": GENERAL, "type": 0, "guild_id": GUILD}, SIDE: {"id": SIDE, "type": 0, "guild_id": GUILD},
                         THREAD: {"id": THREAD, "type": 11, "guild_id": GUILD, "parent_id": GENERAL},
                         DIRECT: {"id": DIRECT, "type": 1, "recipients": [USERS[ANN]]}}
        self.sessions, self.sockets, self.counter = {}, [], 0
        self.nonces, self.interactions, self.told, self.typed = {}, {}, [], []
        self.asked, self.violations, self.identified, self.resumed = [], [], [], []
        self.rules, self.recent, self.windows, self.leaked = [], collections.deque(), {}, []
        # What a test can change.
        self.set = {"welcomes": True, "interval": 1_000, "acks": True, "nonce_seconds": 120, "window": [1000, 1.0], "twice": False, "starts": 1000,
                    "resume": True, "echo": True, "expired": False, "interaction_seconds": 3.0, "content": True, "joined": "2015-01-01T00:00:00.000000+00:00"}

    def snowflake(self):
        """A number with the time (reference: Snowflakes)."""
        self.counter += 1
        return str((int(now() * 1000) - 1420070400000) << 22 | self.counter % 4096)

    def last(self, channel):
        return next((id for id, message in reversed(self.messages.items()) if message["channel_id"] == channel), None)

WORLD = World()

def violation(text):
    with LOCK:
        WORLD.violations.append(text)

def visible(message, intents=None):
    """Without the intent MESSAGE_CONTENT only direct messages, mentions and own messages have content (Gateway: Message
    content intent)."""
    reads = WORLD.set["content"] if intents is None else intents & 1 << 15
    mine = message["author"]["id"] == BOT or any(user["id"] == BOT for user in message["mentions"])
    if reads or "guild_id" not in message or mine:
        return message
    return dict(message, content="", attachments=[], components=[])

def channel_object(id):
    return dict(WORLD.channels[id], last_message_id=WORLD.last(id))

def guild():
    """GUILD_CREATE has channels and active threads, with their last messages (Gateway events: Guild create)."""
    mine = [channel_object(id) for id, channel in WORLD.channels.items() if channel.get("guild_id") == GUILD]
    return {"id": GUILD, "name": "guild", "joined_at": WORLD.set["joined"], "members": [{"user": user} for user in USERS.values()],
            "channels": [c for c in mine if c["type"] == 0], "threads": [c for c in mine if c["type"] == 11]}

# ---- the gateway

class Session:
    def __init__(self, intents):
        self.id, self.intents, self.log, self.socket = os.urandom(16).hex(), intents, [], None

    def dispatch(self, kind, data, **more):
        """Every dispatch has the next number, connected or not (Gateway: Resuming)."""
        frame = dict({"op": 0, "s": len(self.log) + 1, "t": kind, "d": data}, **more)
        self.log.append(frame)
        if self.socket:
            self.socket.send(frame)

def tell(kind, data, message=None):
    with LOCK:
        for session in WORLD.sessions.values():
            session.dispatch(kind, visible(message, session.intents) if message else data)

class Closed(Exception):
    pass

class Socket:
    """The server's side of a WebSocket (RFC 6455)."""
    def __init__(self, handler, port):
        self.handler, self.port, self.session, self.writing, self.is_open = handler, port, None, threading.Lock(), True
        self.is_closing = self.is_mute = False
        self.file = handler.rfile

    def raw(self, opcode, data):
        size = len(data)
        head = struct.pack(">BB", 0x80 | opcode, size) if size < 126 else struct.pack(">BBH", 0x80 | opcode, 126, size) if size < 65536 else struct.pack(">BBQ", 0x80 | opcode, 127, size)
        try:
            with self.writing:
                if not self.is_mute:
                    self.handler.connection.sendall(head + data)
        except OSError:
            pass

    def send(self, frame):
        self.raw(1, frame.encode() if isinstance(frame, str) else json.dumps(frame).encode())

    def close(self, code):
        self.is_closing = True
        self.raw(8, struct.pack(">H", code) + b"a test")
        raise Closed

    def abort(self):
        try:
            self.handler.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def exactly(self, count):
        data = self.file.read(count)
        if len(data) < count:
            raise Closed
        return data

    def read(self):
        text = b""
        while True:
            first, second = self.exactly(2)
            size = second & 127
            size = struct.unpack(">H", self.exactly(2))[0] if size == 126 else struct.unpack(">Q", self.exactly(8))[0] if size == 127 else size
            if not second & 128:
                violation("a frame is not masked")
            if size > 4096:
                violation("a frame of %d bytes, and Discord takes 4096" % size)  # Gateway: Sending events
            mask = self.exactly(4)
            data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.exactly(size)))
            if first & 15 == 8:
                code = struct.unpack(">H", data[:2])[0] if len(data) >= 2 else None
                # 1000 and 1001 end the session (Gateway: Initiating a disconnect).
                if code in (1000, 1001) and self.session and not self.is_closing:
                    violation("it ended its session with %d" % code)
                    WORLD.sessions.pop(self.session.id, None)
                raise Closed
            if first & 15 == 9:
                self.raw(10, data)
                continue
            if first & 15 == 10:
                continue
            text += data
            if first & 128:
                return json.loads(text)

    def serve(self):
        with LOCK:
            WORLD.sockets.append(self)
        try:
            self.send({"op": 10, "d": {"heartbeat_interval": WORLD.set["interval"]}, "s": None, "t": None})
            times = collections.deque()
            while True:
                frame = self.read()
                times.append(now())
                while times[0] < now() - 60:
                    times.popleft()
                limit = 120 + 60_000 // max(WORLD.set["interval"], 1)  # 120 a minute, besides the heartbeats of a test's short interval
                if len(times) > limit:
                    violation("more than %d frames in a minute" % limit)
                    self.close(4008)
                self.frame(frame["op"], frame.get("d"))
        except (Closed, OSError, ValueError):
            pass
        finally:
            with LOCK:
                self.is_open = False
                WORLD.sockets.remove(self)
                if self.session and self.session.socket is self:
                    self.session.socket = None
            self.abort()

    def frame(self, op, d):
        if op == 1:
            with LOCK:
                sent = len(self.session.log) if self.session else None
            if self.session and (d is None or d > sent):
                violation("a heartbeat with %r after %r" % (d, sent))
                self.close(4007)
            if WORLD.set["acks"]:
                self.send({"op": 11})
        elif op == 2:
            self.identify(d)
        elif op == 6:
            self.resume(d)
        else:
            violation("opcode %r" % op)
            self.close(4001)

    def identify(self, d):
        if d.get("token") != TOKEN:
            self.close(4004)
        with LOCK:
            # One within five seconds (Gateway: Rate limiting, max_concurrency).
            if WORLD.identified and now() - WORLD.identified[-1] < 4.5:
                violation("two sessions within 5 s")
            WORLD.identified.append(now())
        # A privileged intent that is not switched on (Opcodes and status codes: 4014).
        if d["intents"] & 1 << 15 and not WORLD.set["content"]:
            self.close(4014)
        if not WORLD.set["welcomes"]:
            return
        with LOCK:
            self.session = Session(d["intents"])
            self.session.socket = self
            WORLD.sessions[self.session.id] = self.session
            url = "ws://127.0.0.1:%d/gateway" % PORTS[1]
            self.session.dispatch("READY", {"v": 10, "user": USERS[BOT], "guilds": [{"id": GUILD, "unavailable": True}], "session_id": self.session.id,
                                            "resume_gateway_url": url, "application": {"id": BOT, "flags": 0}})
            self.session.dispatch("GUILD_CREATE", guild())

    def resume(self, d):
        if d.get("token") != TOKEN:
            self.close(4004)
        with LOCK:
            session = WORLD.sessions.get(d["session_id"])
            # Sessions go on where READY said (Gateway: Resuming).
            if self.port != PORTS[1]:
                violation("it resumes at the first address")
                session = None
            if not session or not WORLD.set["resume"]:
                self.send({"op": 9, "d": False})
                return
            if d["seq"] > len(session.log):
                violation("it resumes from %r of %r" % (d["seq"], len(session.log)))
                self.close(4007)
            WORLD.resumed.append(d["seq"])
            missed = list(session.log[d["seq"]:])
            for frame in missed * (2 if WORLD.set["twice"] else 1):
                self.send(frame)
            self.session, session.socket = session, self
            session.dispatch("RESUMED", {})

# ---- REST

class Refused(Exception):
    def __init__(self, status, code=0, message="", headers=(), body=None):
        self.status, self.headers = status, dict(headers)
        self.body = json.dumps({"code": code, "message": message}).encode() if body is None else body

def check_text(body):
    """Limits of a message (Message: Create message; Components: Button)."""
    content = body.get("content") or ""
    if len(content.encode("utf-16-le")) // 2 > 2000:
        raise Refused(400, 50035, "content is longer than 2000")
    if body.get("allowed_mentions", {}).get("parse") != []:
        violation("a message may notify: %r" % body.get("allowed_mentions"))
    rows = body.get("components") or []
    for row in rows:
        if len(rows) > 5 or not 1 <= len(row["components"]) <= 5:
            raise Refused(400, 50035, "too many buttons")
        for button in row["components"]:
            if len(button["custom_id"]) > 100 or not 1 <= len(button["label"]) <= 80:
                raise Refused(400, 50035, "a button is too long")

def attachment(name, data, kind="application/octet-stream"):
    id = WORLD.snowflake()
    FILES[id] = data
    return {"id": id, "filename": name, "size": len(data), "content_type": kind, "url": address(id, name)}

def address(id, name):
    return "http://127.0.0.1:%d/cdn/%s/%s?ex=%x" % (PORTS[0], id, urllib.parse.quote(name), time.time_ns())

FILES = {}

def make(channel, author, content, **more):
    with LOCK:
        message = {"id": WORLD.snowflake(), "channel_id": channel, "author": USERS[author], "content": content, "type": 0, "mentions": [],
                   "timestamp": "2026-01-01T00:00:00.000000+00:00", "attachments": [], "components": [], "flags": 0}
        message["mentions"] = [USERS[id] for id in re.findall(r"<@!?(\d+)>", content) if id in USERS]
        if "guild_id" in WORLD.channels[channel]:
            message["guild_id"] = GUILD
        message.update(more)
        if not more.get("hidden"):
            WORLD.messages[message["id"]] = message
        return message

def parts_of(kind, data):
    """A form (Reference: Uploading files)."""
    boundary = kind.split("boundary=")[1].encode()
    fields, files = {}, {}
    for part in data.split(b"--" + boundary)[1:-1]:
        head, _, content = part[2:-2].partition(b"\r\n\r\n")
        name = re.search(rb'name="([^"]*)"', head).group(1).decode()
        (files if b"filename=" in head else fields)[name] = content
    return json.loads(fields["payload_json"]), files

def create(channel, kind, data):
    body, files = parts_of(kind, data) if kind.startswith("multipart/") else (json.loads(data), {})
    check_text(body)
    nonce = body.get("nonce")
    if nonce is not None and len(str(nonce)) > 25:
        raise Refused(400, 50035, "the nonce is longer than 25")
    if not body.get("content") and not files:
        raise Refused(400, 50006, "Cannot send an empty message")
    if sum(map(len, files.values())) > 25 << 20 or any(len(data) > 10 << 20 for data in files.values()):
        raise Refused(413, 40005, "Request entity too large")
    with LOCK:
        # "checked for uniqueness in the past few minutes … that message will be returned" (Message: Create message).
        known = WORLD.nonces.get(nonce) if body.get("enforce_nonce") else None
        if known and now() - known[1] < WORLD.set["nonce_seconds"]:
            return WORLD.messages[known[0]]
        described = {str(file["id"]): file["filename"] for file in body.get("attachments", [])}
        attached = [attachment(described[re.search(r"\d+", name).group()], data) for name, data in files.items()]
        message = make(channel, BOT, body.get("content") or "", attachments=attached, components=body.get("components") or [], flags=body.get("flags", 0))
        if nonce is not None:
            WORLD.nonces[nonce] = (message["id"], now())
    if WORLD.set["echo"]:
        tell("MESSAGE_CREATE", None, dict(message, nonce=nonce))
    return message

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.headers.get("Upgrade", "").lower() == "websocket":
            return self.upgrade()
        self.any()

    do_POST = do_PUT = do_PATCH = do_DELETE = lambda self: self.any()

    def upgrade(self):
        if "v=10" not in self.path or "encoding=json" not in self.path:
            violation("the gateway is asked for with " + self.path)
        accept = base64.b64encode(hashlib.sha1((self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        self.wfile.write(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n" % accept).encode())
        self.close_connection = True
        Socket(self, self.server.server_address[1]).serve()

    def any(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.split("?")[0]
        if path == "/control":
            return self.answer(200, json.dumps(control(json.loads(self.body))).encode())
        if path.startswith("/cdn/"):
            return self.file(path)
        if path.startswith("/told/"):
            if self.headers.get("Authorization"):
                WORLD.leaked.append(self.headers["Authorization"])
            return self.answer(200, FILES[path.split("/")[2]])
        line = "%s %s" % (self.command, path.removeprefix("/api/v10"))
        with LOCK:
            WORLD.asked.append([line, now()])
        headers, cut, status = {}, False, 200
        try:
            rule = self.rule(line)
            if rule and not rule.get("after"):
                raise Refused(rule["status"], headers=rule.get("headers", {}), body=rule.get("body", "{}").encode() * rule.get("repeat", 1))
            self.check(line)
            headers = self.limits(line)
            found = self.route(line)
            cut = bool(rule)
            data = b"" if found is None else json.dumps(found).encode()
            status = 204 if found is None else 200
        except Refused as refused:
            status, data, headers = refused.status, refused.body, dict(headers, **refused.headers)
        if cut:
            # It was done, and the answer is lost.
            self.close_connection = True
            return self.connection.shutdown(socket.SHUT_RDWR)
        self.answer(status, data, headers)

    def answer(self, status, data, headers=()):
        self.send_response(status)
        headers = dict({"Content-Type": "application/json"}, **dict(headers))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def file(self, path):
        if self.headers.get("Authorization"):
            violation("the token was sent to the place of files")
        id, name = path.split("/")[2:4]
        if name.startswith("far"):
            return self.answer(302, b"", {"Location": "http://localhost:%d/told/%s" % (PORTS[0], id)})
        ex = int(re.search(r"ex=([0-9a-f]+)", self.path).group(1), 16)
        if WORLD.set["expired"] and ex < WORLD.set["expired"]:
            return self.answer(403, b"expired")
        self.answer(200, FILES[id], {"Content-Type": "application/octet-stream"})

    def rule(self, line):
        with LOCK:
            for rule in WORLD.rules:
                if re.fullmatch(rule["match"], line) and rule.get("times", 1) > 0:
                    if rule.get("skip", 0) > 0:
                        rule["skip"] -= 1
                        return None
                    rule["times"] = rule.get("times", 1) - 1
                    return rule

    def check(self, line):
        if "/interactions/" in line or "/webhooks/" in line:
            return
        if self.headers.get("Authorization") != "Bot " + TOKEN:
            raise Refused(401, 0, "401: Unauthorized")
        if not self.headers.get("User-Agent", "").startswith("DiscordBot ("):
            violation("the user agent is %r" % self.headers.get("User-Agent"))  # Reference: User agent

    def limits(self, line):
        """A window for each route and channel, and 50 a second for all (Rate limits)."""
        with LOCK:
            WORLD.recent.append(now())
            while WORLD.recent[0] < now() - 1:
                WORLD.recent.popleft()
            if len(WORLD.recent) > 50:
                violation("more than 50 requests in a second")
                raise Refused(429, headers={"X-RateLimit-Global": "true", "Retry-After": "1"}, body=b'{"retry_after": 1.0, "global": true}')
            major = re.match(r"(\w+) /channels/(\d+)/messages$", line)
            if not major or major.group(1) != "POST":
                return {}
            limit, per = WORLD.set["window"]
            used, until = WORLD.windows.get(major.group(2), (0, 0))
            used, until = (used, until) if until > now() else (0, now() + per)
            left = until - now()
            if used >= limit:
                violation("a window of a channel was exceeded")
                raise Refused(429, headers={"Retry-After": str(left)}, body=json.dumps({"retry_after": left, "global": False}).encode())
            WORLD.windows[major.group(2)] = (used + 1, until)
            return {"X-RateLimit-Bucket": "messages", "X-RateLimit-Limit": str(limit), "X-RateLimit-Remaining": str(limit - used - 1), "X-RateLimit-Reset-After": "%.3f" % left}

    def route(self, line):
        method, path = line.split(" ")
        words = path.strip("/").split("/")
        if path == "/users/@me":
            return USERS[BOT]
        if path == "/gateway/bot":
            left = max(WORLD.set["starts"] - len(WORLD.identified), 0)
            return {"url": "ws://127.0.0.1:%d/gateway" % PORTS[0], "shards": 1, "session_start_limit": {"total": 1000, "remaining": left, "reset_after": 60000, "max_concurrency": 1}}
        if path == "/users/@me/channels":
            person = json.loads(self.body)["recipient_id"]
            if person not in USERS:
                raise Refused(400, 50033, "Invalid Recipient(s)")
            with LOCK:
                id = next((id for id, channel in WORLD.channels.items() if channel.get("recipients") == [USERS[person]]), None)
                if not id:
                    id = WORLD.snowflake()
                    WORLD.channels[id] = {"id": id, "type": 1, "recipients": [USERS[person]]}
            return WORLD.channels[id]
        if words[0] == "interactions":
            return self.callback(words[1], words[2])
        if words[0] == "webhooks":
            known = next((known for known in WORLD.interactions.values() if known["token"] == words[2]), None)
            if not known or not known["answered"]:
                raise Refused(404, 10015, "Unknown Webhook")
            WORLD.told.append(json.loads(self.body))
            return {"id": WORLD.snowflake()}
        channel = words[1] if words[0] == "channels" else None
        if channel not in WORLD.channels:
            raise Refused(404, 10003, "Unknown Channel")
        if len(words) == 2:
            return channel_object(channel)
        if words[2] == "typing":
            WORLD.typed.append([channel, now()])
            return None
        if len(words) == 3:
            return create(channel, self.headers.get("Content-Type", ""), self.body) if method == "POST" else self.history(channel)
        message = WORLD.messages.get(words[3])
        if not message or message["channel_id"] != channel:
            raise Refused(404, 10008, "Unknown Message")
        return self.message(method, words, message)

    def message(self, method, words, message):
        if len(words) > 4:
            emoji = urllib.parse.unquote(words[5])
            if emoji.isascii():
                raise Refused(400, 10014, "Unknown Emoji")
            message.setdefault("reactions", set()).add(emoji)
            return None
        if method == "GET":
            for file in message["attachments"]:
                file["url"] = address(file["id"], file["filename"])
            return plain(visible(message))
        if message["author"]["id"] != BOT:
            raise Refused(403, 50005, "Cannot edit a message authored by another user")
        if method == "DELETE":
            del WORLD.messages[message["id"]]
            return None
        body = json.loads(self.body)
        check_text(body)
        message.update(content=body["content"], components=body.get("components", []), flags=body.get("flags", 0))
        tell("MESSAGE_UPDATE", None, message)
        return plain(message)

    def history(self, channel):
        """The newest first, also with `after` (Message: Get channel messages)."""
        query = urllib.parse.parse_qs(self.path.split("?")[1])
        after, limit = int(query["after"][0]), int(query["limit"][0])
        if not 1 <= limit <= 100:
            raise Refused(400, 50035, "limit")
        with LOCK:
            mine = [plain(visible(m)) for m in WORLD.messages.values() if m["channel_id"] == channel and int(m["id"]) > after]
        return mine[:limit][::-1]

    def callback(self, id, token):
        known = WORLD.interactions.get(id)
        # Three seconds, once (Receiving and responding: Followup messages).
        if not known or known["token"] != token or now() - known["at"] > WORLD.set["interaction_seconds"]:
            raise Refused(404, 10062, "Unknown interaction")
        if known["answered"]:
            raise Refused(400, 40060, "Interaction has already been acknowledged.")
        known["answered"] = now()
        known["type"] = json.loads(self.body)["type"]
        return None

def plain(message):
    return {key: value for key, value in message.items() if key != "reactions"}

# ---- what tests ask for

def shown(message):
    """What people see of a message."""
    text = re.sub(r"\\([^0-9A-Za-z\s])", r"\1", message["content"])
    for row in message["components"]:
        text += "".join("\n[%s]" % button["label"] for button in row["components"])
    return text + "".join("\n<%s>" % file["filename"] for file in message["attachments"])

def control(asked):
    """`set`: changes behaviour. `rule`: what the next matching requests are answered with, or `after`: cut after they were done.
    `say`: somebody writes. `event`: an event of the gateway, as it is. `press`: a button. `frame`, `close`, `abort`: to all
    connections. `forget`: sessions end. `all`: several of these. `heard`, `facts`: what there is."""
    with LOCK:
        if "set" in asked:
            WORLD.set.update(asked["set"])
        if "rule" in asked:
            WORLD.rules.append(asked["rule"])
        if "forget" in asked:
            WORLD.sessions.clear()
    if "add" in asked:
        WORLD.channels[asked["add"]["id"]] = asked["add"]
    if "remove" in asked:
        tell("CHANNEL_DELETE", WORLD.channels.pop(asked["remove"]))
    if "say" in asked:
        return say(**asked["say"])
    if "all" in asked:
        return [control(each) for each in asked["all"]]
    if "event" in asked:
        tell(asked["event"]["t"], asked["event"]["d"])
    if "press" in asked:
        return press(**asked["press"])
    for socket in list(WORLD.sockets):
        if "frame" in asked:
            socket.send(asked["frame"])
        if "close" in asked:
            try:
                socket.close(asked["close"])
            except Closed:
                pass
        if "abort" in asked:
            socket.abort()
    if "heard" in asked:
        with LOCK:
            return [dict(plain(m), shown=shown(m), reactions=sorted(m.get("reactions", ()))) for m in WORLD.messages.values() if m["author"]["id"] == BOT]
    if "again" in asked:
        last = next(message for message in reversed(WORLD.messages.values()) if message["author"]["id"] == ANN)
        changed = dict(plain(last), **asked["again"].get("more", {}))
        return tell(asked["again"]["t"], None, changed)
    if "half" in asked:
        for socket in WORLD.sockets:
            socket.is_mute = True
    if "attached" in asked:
        return [[file["filename"], FILES[file["id"]].hex()] for m in WORLD.messages.values() if m["author"]["id"] == BOT for file in m["attachments"]]
    if "told" in asked:
        return WORLD.leaked
    if "files" in asked:
        return FILES[asked["files"]].decode("latin-1")
    with LOCK:
        return {"violations": WORLD.violations, "identified": len(WORLD.identified), "resumed": WORLD.resumed, "asked": WORLD.asked, "told": WORLD.told, "typed": WORLD.typed,
                "interactions": list(WORLD.interactions.values()), "connected": sum(bool(s.session) for s in WORLD.sockets), "sessions": len(WORLD.sessions), "time": time.time_ns()}

def say(text, by=ANN, channel=DIRECT, files=(), silent=False, paths=False, **more):
    attached = [attachment(name, open(data, "rb").read() if paths else data.encode()) for name, data in files]
    message = make(channel, by, text, attachments=attached, **more)
    # An event can be late, or lost with its session.
    if not silent:
        tell("MESSAGE_CREATE", None, plain(message))
    return message["id"]

def press(message, custom_id, by=ANN):
    shown = WORLD.messages[message]
    channel, id, token = shown["channel_id"], WORLD.snowflake(), "aW50ZXJhY3Rpb24." + os.urandom(8).hex()
    with LOCK:
        WORLD.interactions[id] = {"token": token, "at": now(), "answered": None}
    who = {"member": {"user": USERS[by]}, "guild_id": GUILD} if "guild_id" in shown else {"user": USERS[by]}
    tell("INTERACTION_CREATE", dict({"id": id, "application_id": BOT, "type": 3, "token": token, "version": 1, "channel_id": channel, "channel": WORLD.channels[channel],
                                     "message": {"id": message}, "data": {"custom_id": custom_id, "component_type": 2}}, **who))
    return id

class Server(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 64

    def handle_error(self, *_):
        pass

def write(name, text):
    path = os.path.join(HERE, name)
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)

def ask(what):
    with open(os.path.join(HERE, "port")) as file:
        port = file.read()
    with urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:%s/control" % port, json.dumps(what).encode()), timeout=30) as answer:
        return json.load(answer)

if sys.argv[1] == "serve":
    servers = [Server(("127.0.0.1", 0), Handler) for _ in range(2)]
    PORTS = [server.server_address[1] for server in servers]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    write("token", TOKEN)
    write("control", str(PORTS[0]))
    write("port", str(PORTS[0]))
    write("ready", "")
    sys.stdin.read()
elif sys.argv[1] == "do":
    print(json.dumps(ask(json.loads(sys.argv[2]))))
else:
    from people import DEEP, got, play, spread
    GONE, FAR, FAR_GUILD = "900000000000000801", "900000000000000901", "900000000000000900"
    LINE = r"POST /channels/\d+/messages"

    def write_to(text, channel=GENERAL, **more):
        at = "" if channel == DIRECT else "<@%s> " % BOT
        ask({"say": dict({"text": at + text, "channel": channel}, **more)})

    def answered(status, body, headers=(), **more):
        ask({"rule": dict({"match": LINE, "status": status, "body": body, "headers": dict(headers)}, **more)})

    def gone():
        ask({"add": {"id": GONE, "type": 0, "guild_id": GUILD}, "remove": GONE})
        return GONE

    def thrown():
        answered(403, '{"message": "Missing Access", "code": 50001}', match="POST /channels/%s/messages" % SIDE)
        return SIDE

    def invite(text):
        channel = {"id": FAR, "type": 0, "guild_id": FAR_GUILD}
        ask({"add": channel, "event": {"t": "GUILD_CREATE", "d": {"id": FAR_GUILD, "name": "far", "joined_at": "2026-01-01T00:00:00.000000+00:00", "channels": [channel], "threads": []}}})
        write_to(text, FAR, by=EVE)

    def limit(seconds="", **more):
        body = {"message": "You are being rate limited.", "global": False}
        answered(429, json.dumps(dict(body, **({"retry_after": float(seconds)} if seconds else {}))), {"Retry-After": seconds} if seconds else {}, **more)

    def bring(name, path, text):
        ask({"say": {"text": text, "files": [[name, path]], "paths": True}})

    def reply(text):
        last = [m for m in ask({"heard": True}) if m["channel_id"] == GENERAL][-1]
        ask({"say": {"text": text, "channel": GENERAL, "type": 19, "mentions": [USERS[BOT]], "message_reference": {"message_id": last["id"]}, "referenced_message": last}})

    def press(label, seconds=3.0, **more):
        ask({"set": {"interaction_seconds": seconds}})
        found = [(m["id"], button) for m in ask({"heard": True}) for row in m["components"] for button in row["components"] if button["label"] == label][-1]
        ask({"press": dict({"message": found[0], "custom_id": found[1]["custom_id"]}, **more)})

    play({
        "say": lambda *texts: [ask({"say": {"text": text}}) for text in texts] and None,
        "heard": lambda: "\n".join(message["shown"] for message in ask({"heard": True})),
        "burst": lambda *texts: spread(texts, [DIRECT, GENERAL, SIDE, THREAD], write_to),
        "stranger": lambda text: write_to(text, by=EVE),
        "forge": lambda text: write_to(text, by=EVE, senderId=ANN),
        "bot": lambda text: write_to(text, by=OTHER_BOT),
        "repeat": lambda: ask({"again": {"t": "MESSAGE_CREATE"}}),
        "edit": lambda text: ask({"again": {"t": "MESSAGE_UPDATE", "more": {"content": text, "edited_timestamp": "2026-01-01T00:00:01.000000+00:00"}}}),
        "meddle": lambda text: ask({"again": {"t": "MESSAGE_UPDATE", "more": {"content": text, "author": USERS[EVE]}}}),
        "delete": lambda text: ask({"again": {"t": "MESSAGE_DELETE"}}),
        "react": lambda text: ask({"again": {"t": "MESSAGE_REACTION_ADD", "more": {"user_id": ANN, "emoji": {"name": "👍"}}}}),
        "mention": write_to,
        "named": lambda text: ask({"say": {"text": "hearth, " + text, "channel": GENERAL}}),
        "everyone": lambda text: ask({"say": {"text": "@everyone " + text, "channel": GENERAL, "mention_everyone": True}}),
        "reply": reply,
        "where": lambda: GENERAL,
        "bring": bring,
        "unwanted": bring,
        "large": bring,
        "vanish": lambda name, path, text: [ask({"set": {"expired": int(1e18) * 9}}), bring(name, path, text)] and None,
        "files": lambda: got(ask({"attached": True})),
        "elsewhere": lambda name, path, text: [ask({"set": {"expired": False}}), bring(name, path, text)] and None,
        "told": lambda: "\n".join(ask({"told": True})),
        "cut": lambda: ask({"rule": {"match": LINE, "after": True}}),
        "limit": limit,
        "html": lambda: answered(502, "<html>Bad Gateway</html>"),
        "empty": lambda: answered(200, ""),
        "huge": lambda: ask({"rule": {"match": LINE, "status": 200, "body": "x" * 1000, "repeat": 10_000}}),
        "deep": lambda: answered(200, DEEP),
        "pings": lambda: "\n".join(text for text in ask({})["violations"] if "notify" in text),
        "previews": lambda: "\n".join(m["content"] for m in ask({"heard": True}) if not m["flags"] & 4 and "://" in m["content"]),
        "press": press,
        "press-other": lambda label: press(label, by=EVE),
        "press-late": lambda label: press(label, seconds=-1.0),
        "thread": lambda text: write_to(text, THREAD),
        "threaded": lambda: "\n".join(m["content"] for m in ask({"heard": True}) if m["channel_id"] == THREAD),
        "rename": lambda: ask({"event": {"t": "CHANNEL_UPDATE", "d": {"id": GENERAL, "type": 0, "guild_id": GUILD, "name": "renamed"}}}),
        "gone": gone,
        "thrown": thrown,
        "invite": invite,
        "trip": lambda: limit("1", skip=1),
        "reactions": lambda: "\n".join(emoji for m in ask({"heard": True}) for emoji in m["reactions"]),
        "requests": lambda: str(len(ask({})["asked"])),
        "half": lambda: ask({"half": True}),
    }, {"second": "Discord lets several programs use one account"})
