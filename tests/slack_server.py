#!/usr/bin/env python3
"""A stand-in for Slack and the people there, for tests of the bridge `hearth-networks slack`. It needs nothing but Python.

`serve DIRECTORY` starts it on a port of this machine; the others find it by the directory that SLACK_PEOPLE names.
`say TEXT`: Ann writes to the bot. `heard`: everything that the bot sent, as people see it. `do JSON`: an operation of
`Control`, and its result.

Where a behaviour comes from: D the documentation at docs.slack.dev (the page is named), S the source of Slack's own
clients (node-slack-sdk, socket-mode), P reports of people who use it. Times that are minutes there are seconds here."""
import base64, hashlib, http.server, json, os, re, struct, sys, threading, time, urllib.parse, urllib.request

HERE = sys.argv[2] if sys.argv[1] == "serve" else os.environ["SLACK_PEOPLE"]
BOT_TOKEN, APP_TOKEN = "xoxb-bot-token-of-tests", "xapp-app-token-of-tests"
BOT, BOT_ID, APP, TEAM = "U0BOT", "B0BOT", "A0APP", "T0TEAM"
PEOPLE = {BOT: ("hearth", "Hearth"), "U0ANN": ("ann", "Ann <3"), "U0EVE": ("eve", "Ann"), "U0BOB": ("bob", "")}
LOGIN = b"<!DOCTYPE html><html><title>Sign in | Slack</title></html>"
lock = threading.RLock()

class Refused(Exception):
    """An answer with `ok: false`, whose status is 200 (D web-api: evaluating responses)."""

class Cut(Exception):
    """The connection is closed without an answer."""

def now():
    return time.time()

def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

def plain(text):
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")

class State:
    def __init__(self):
        self.channels = {"D0ANN": {"people": ["U0ANN", BOT], "kind": "im"}, "C0ALL": {"people": ["U0ANN", "U0EVE", "U0BOB", BOT], "kind": "channel"},
                         "G0FEW": {"people": ["U0ANN", "U0EVE", BOT], "kind": "mpim"}, "C0NOT": {"people": ["U0ANN"], "kind": "channel"}}
        self.messages = {name: [] for name in self.channels}
        self.links, self.tickets, self.waiting, self.files, self.uploads, self.hooks = [], set(), {}, {}, {}, {}
        self.keys, self.faults, self.log, self.ephemeral, self.revoked = {}, {}, [], [], set()
        self.count, self.last, self.turn = 0, 0, 0
        # D apis/events-api: three seconds to acknowledge, then up to three repetitions.
        self.ack, self.repeats, self.page, self.ping, self.both = 3.0, 3, 100, 0.5, True
        self.told = True

    def number(self):
        self.count += 1
        return self.count

    def ts(self):
        """The id of a message: its time, unique in its channel (D messaging)."""
        self.last = max(self.last + 1, int(now() * 1_000_000))
        return "%d.%06d" % (self.last // 1_000_000, self.last % 1_000_000)

state = State()

class Link:
    """An open connection of Socket Mode."""
    def __init__(self, stream):
        self.stream, self.sending, self.kind, self.number = stream, threading.Lock(), "open", state.number()

    def frame(self, code, data):
        head = bytes([0x80 | code]) + (bytes([len(data)]) if len(data) < 126 else struct.pack(">BH", 126, len(data)) if len(data) < 65536 else struct.pack(">BQ", 127, len(data)))
        try:
            with self.sending:
                self.stream.wfile.write(head + data)
                self.stream.wfile.flush()
        except OSError:
            self.close()

    def send(self, value):
        if self.kind != "half":
            self.frame(1, json.dumps(value).encode())

    def close(self):
        with lock:
            if self in state.links:
                state.links.remove(self)
        try:
            self.stream.connection.shutdown(2)
        except OSError:
            pass

    def bytes(self, count):
        data = self.stream.rfile.read(count)
        if len(data) < count:
            raise ConnectionError
        return data

    def listen(self):
        while True:
            first, second = self.bytes(2)
            length = second & 127
            length = struct.unpack(">H", self.bytes(2))[0] if length == 126 else struct.unpack(">Q", self.bytes(8))[0] if length == 127 else length
            mask = self.bytes(4)
            data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.bytes(length)))
            if first & 15 == 8:
                return
            if first & 15 == 9 and self.kind != "half":
                self.frame(10, data)
            if first & 15 == 1:
                with lock:
                    state.waiting.pop(json.loads(data).get("envelope_id"), None)

def offer(kind, payload, accepts=False):
    """Sends an envelope to one of the connections (D apis/events-api/using-socket-mode: any of them may get it)."""
    with lock:
        name = "envelope-%d" % state.number()
        waiting = {"envelope": {"envelope_id": name, "type": kind, "payload": payload, "accepts_response_payload": accepts}, "tried": 0, "due": 0}
        if kind == "interactive":
            waiting["tried"] = state.repeats  # P: a press is not repeated
        state.waiting[name] = waiting
        attempt(waiting)

def attempt(waiting):
    link = state.links[state.turn % len(state.links)] if state.links else None
    state.turn += 1
    waiting["due"] = now() + state.ack
    envelope = dict(waiting["envelope"], retry_attempt=waiting["tried"], retry_reason="timeout" if waiting["tried"] else "")
    waiting["tried"] += 1
    if link:
        link.send(envelope)

def keep():
    """Pings, and repeats what was not acknowledged. What was repeated often enough is lost (P)."""
    pinged = 0
    while True:
        time.sleep(0.05)
        with lock:
            if now() - pinged > state.ping:
                pinged = now()
                for link in [link for link in state.links if link.kind != "half"]:
                    link.frame(9, b"Ping from applink")
            for name, waiting in list(state.waiting.items()):
                if now() > waiting["due"]:
                    if waiting["tried"] > state.repeats:
                        del state.waiting[name]
                    else:
                        attempt(waiting)

def event(of):
    if state.told:
        offer("events_api", {"token": "x", "team_id": TEAM, "api_app_id": APP, "type": "event_callback", "event_id": "Ev%d" % state.number(), "event_time": int(now()), "event": of})

def announce(channel, message):
    kind = state.channels[channel]["kind"]
    shown = dict({key: value for key, value in message.items() if key not in ("metadata", "unfurl", "reactions")}, channel=channel, event_ts=message["ts"], type="message", channel_type=kind)
    event(shown)
    # One mention is two events (D reference/events/app_mention), and not in direct messages.
    if state.both and "<@%s>" % BOT in message.get("text", "") and kind != "im" and "bot_id" not in message and "subtype" not in message:
        event(dict({key: value for key, value in shown.items() if key != "channel_type"}, type="app_mention"))

def put(channel, message):
    with lock:
        message = dict(message, ts=state.ts())
        if message.get("thread_ts"):
            root = find(channel, message["thread_ts"])
            root["thread_ts"], root["reply_count"], root["latest_reply"] = root["ts"], root.get("reply_count", 0) + 1, message["ts"]
            message["parent_user_id"] = root.get("user")
        state.messages[channel].append(message)
        announce(channel, message)
        return message

def find(channel, ts):
    found = [message for message in state.messages.get(channel, []) if message["ts"] == ts]
    if not found:
        raise Refused("message_not_found")
    return found[0]

def member(channel):
    if channel in PEOPLE and channel != BOT:
        channel = opened(channel)
    if channel not in state.channels:
        raise Refused("channel_not_found")
    if BOT not in state.channels[channel]["people"]:
        raise Refused("not_in_channel")
    return channel

def opened(user):
    name = "D" + user[1:]
    if name not in state.channels:
        state.channels[name], state.messages[name] = {"people": [user, BOT], "kind": "im"}, []
    return name

def fault_of(method):
    faults = state.faults.get(method)
    return faults.pop(0) if faults else {}

def paged(items, asked, key):
    """A page (D apis/web-api/pagination): fewer than asked may come, and a cursor says that there are more."""
    start = int(base64.b64decode(asked["cursor"]).decode()) if asked.get("cursor") else 0
    size = min(int(asked.get("limit") or 100), state.page)
    more = len(items) > start + size
    cursor = base64.b64encode(str(start + size).encode()).decode() if more else ""
    return {key: items[start:start + size], "has_more": more, "response_metadata": {"next_cursor": cursor}}

def stripped(message, asked):
    # D reference/methods/conversations.history: metadata only with `include_all_metadata`.
    hidden = () if str(asked.get("include_all_metadata")).lower() in ("true", "1") else ("metadata",)
    return dict({key: value for key, value in message.items() if key not in hidden + ("unfurl",)}, type="message")

def between(messages, asked):
    return [stripped(message, asked) for message in messages if float(asked.get("oldest") or 0) < float(message["ts"]) < float(asked.get("latest") or "inf")]

class Methods:
    """The Web API (D reference/methods); an underscore stands for the dot."""
    def auth_test(asked):
        return {"url": "https://tests.slack.com/", "team": "Tests", "user": "hearth", "team_id": TEAM, "user_id": BOT, "bot_id": BOT_ID}

    def apps_connections_open(asked):
        if "link" in state.revoked:
            raise Refused("socket_mode_not_enabled")
        ticket = "ticket-%d-%s" % (state.number(), os.urandom(4).hex())
        state.tickets.add(ticket)
        return {"url": "ws://127.0.0.1:%s/link/?ticket=%s&app_id=%s" % (read("port"), ticket, APP)}

    def users_info(asked):
        if asked.get("user") not in PEOPLE:
            raise Refused("user_not_found")
        name, real = PEOPLE[asked["user"]]
        return {"user": {"id": asked["user"], "name": name, "real_name": real, "is_bot": asked["user"] == BOT, "profile": {"display_name": real, "real_name": real}}}

    def users_conversations(asked):
        kinds = {"im": "im", "mpim": "mpim", "channel": "public_channel"}
        wanted = asked.get("types", "public_channel").split(",")
        found = [{"id": name, "is_im": about["kind"] == "im"} for name, about in state.channels.items() if BOT in about["people"] and kinds[about["kind"]] in wanted]
        return paged(found, asked, "channels")

    def conversations_history(asked):
        channel = member(asked.get("channel"))
        roots = [message for message in state.messages[channel] if message.get("thread_ts", message["ts"]) == message["ts"] or message.get("subtype") == "thread_broadcast"]
        return paged(between(roots, asked)[::-1], asked, "messages")

    def conversations_replies(asked):
        channel = member(asked.get("channel"))
        if not any(message["ts"] == asked.get("ts") for message in state.messages[channel]):
            raise Refused("thread_not_found")
        thread = [message for message in state.messages[channel] if message.get("thread_ts", message["ts"]) == asked["ts"]]
        # P: the root comes with every page.
        page = paged(between(thread[1:], asked), asked, "messages")
        return dict(page, messages=[stripped(thread[0], asked)] + page["messages"])

    def conversations_open(asked):
        if asked.get("users") not in PEOPLE or asked["users"] == BOT:
            raise Refused("user_not_found")
        return {"channel": {"id": opened(asked["users"])}}

    def chat_postMessage(asked):
        channel = member(asked.get("channel"))
        if not asked.get("text") and not asked.get("blocks"):
            raise Refused("no_text")
        if len(asked.get("text") or "") > 40_000:
            raise Refused("msg_too_long")
        check(asked.get("blocks") or [])
        # P botkit#142: a known `client_msg_id` is answered with `ok`, and not posted. For a minute.
        key = (channel, asked.get("client_msg_id"))
        if key[1] and now() - state.keys.get(key, (0, None))[0] < 60:
            return state.keys[key][1]
        if asked.get("thread_ts"):
            find(channel, asked["thread_ts"])
        message = {"user": BOT, "bot_id": BOT_ID, "app_id": APP, "text": asked.get("text") or ""}
        message.update({name: asked[name] for name in ("blocks", "thread_ts", "metadata", "mrkdwn") if asked.get(name) is not None})
        message["unfurl"] = [asked.get("unfurl_links"), asked.get("unfurl_media")]
        # The event of one's own message can come before the answer (P).
        posted = put(channel, message)
        answer = {"channel": channel, "ts": posted["ts"], "message": stripped(posted, {})}
        state.keys[key] = (now(), answer)
        return answer

    def chat_update(asked):
        message = find(member(asked.get("channel")), asked.get("ts"))
        if message.get("bot_id") != BOT_ID:
            raise Refused("cant_update_message")
        check(asked.get("blocks") or [])
        before = stripped(message, {})
        message.update(text=asked.get("text") or "", blocks=asked.get("blocks") or [], edited={"user": BOT, "ts": state.ts()})
        event({"type": "message", "subtype": "message_changed", "hidden": True, "channel": asked["channel"], "ts": state.ts(), "message": stripped(message, {}), "previous_message": before})
        return {"channel": asked["channel"], "ts": message["ts"], "text": message["text"]}

    def chat_delete(asked):
        channel = member(asked.get("channel"))
        message = find(channel, asked.get("ts"))
        state.messages[channel].remove(message)
        event({"type": "message", "subtype": "message_deleted", "hidden": True, "channel": channel, "ts": state.ts(), "deleted_ts": message["ts"], "previous_message": stripped(message, {})})
        return {"channel": channel, "ts": message["ts"]}

    def chat_postEphemeral(asked):
        channel = member(asked.get("channel"))
        if asked.get("user") not in state.channels[channel]["people"]:
            raise Refused("user_not_in_channel")
        state.ephemeral.append({"channel": channel, "user": asked["user"], "text": plain(asked["text"]), "thread_ts": asked.get("thread_ts")})
        return {"message_ts": state.ts()}

    def reactions_add(asked):
        message = find(member(asked.get("channel")), asked.get("timestamp"))
        if not re.fullmatch(r"[a-z0-9_+'-]+", asked.get("name") or ""):
            raise Refused("invalid_name")
        reactions = message.setdefault("reactions", [])
        if asked["name"] in reactions:
            raise Refused("already_reacted")
        reactions.append(asked["name"])
        event({"type": "reaction_added", "user": BOT, "reaction": asked["name"], "item": {"type": "message", "channel": asked["channel"], "ts": message["ts"]}, "event_ts": state.ts()})
        return {}

    def files_getUploadURLExternal(asked):
        name = "F%d" % state.number()
        state.uploads[name] = {"name": asked["filename"], "length": int(asked["length"])}
        return {"upload_url": "http://127.0.0.1:%s/upload/%s" % (read("port"), name), "file_id": name}

    def files_completeUploadExternal(asked):
        files = asked["files"] if isinstance(asked["files"], list) else json.loads(asked["files"])
        for file in files:
            if file["id"] not in state.files:
                raise Refused("file_not_found")
        channel = member(asked.get("channel_id"))
        shown = [about(file["id"]) for file in files]
        message = {"user": BOT, "bot_id": BOT_ID, "subtype": "file_share", "text": asked.get("initial_comment") or "", "files": shown}
        posted = put(channel, dict(message, **({"thread_ts": asked["thread_ts"]} if asked.get("thread_ts") else {})))
        for file in files:
            state.files[file["id"]].setdefault("shares", []).append((channel, posted["ts"]))
        return {"files": [{"id": file["id"]} for file in files]}

    def files_info(asked):
        if asked.get("file") not in state.files:
            raise Refused("file_not_found")
        return {"file": about(asked["file"])}

def check(blocks):
    """Limits of blocks (D reference/block-kit)."""
    if len(blocks) > 50:
        raise Refused("invalid_blocks")
    for block in blocks:
        texts = [block["text"]] if "text" in block else []
        if any(len(text["text"]) > 3000 or not text["text"] for text in texts):
            raise Refused("invalid_blocks")
        buttons = block.get("elements", [])
        names = [button["action_id"] for button in buttons]
        if len(buttons) > 25 or len(set(names)) < len(names) or any(not 0 < len(button["text"]["text"]) <= 75 or len(button["value"]) > 2000 for button in buttons):
            raise Refused("invalid_blocks")

def about(name):
    file = state.files[name]
    shares = {}
    for channel, ts in file.get("shares", []):
        shares.setdefault(channel, []).append({"ts": ts})
    address = "http://127.0.0.1:%s/away/%s" % (read("port"), name) if file.get("address") == "away" else file.get("address") or "http://127.0.0.1:%s/files-pri/%s-%s/%s" % (read("port"), TEAM, name, urllib.parse.quote(file["name"]))
    return {"id": name, "name": file["name"], "mimetype": file["mime"], "size": file.get("size", len(file["data"])), "mode": "hosted", "url_private": address, "shares": {"private": shares}}

def seen(message):
    """A message as people see it: blocks instead of the text, if there are any."""
    texts = []
    for block in message.get("blocks") or []:
        texts += [block["text"]["text"]] if "text" in block else []
        texts += [button["text"]["text"] for button in block.get("elements", [])]
    files = ["(file %s of %d bytes)" % (file["name"], file["size"]) for file in message.get("files", [])]
    return "\n".join((texts or [plain(message["text"])]) + files)

def last():
    """Ann's last message, and where it is."""
    found = [(channel, message) for channel, messages in state.messages.items() for message in messages if message.get("user") == "U0ANN"]
    return max(found, key=lambda one: one[1]["ts"])

class Control:
    """What tests do with Slack."""
    def say(text="", person="U0ANN", channel="D0ANN", thread=None, files=(), **more):
        shared = []
        for file in files:
            name = "F%d" % state.number()
            state.files[name] = {"name": file["name"], "mime": file.get("mime", "text/plain"), "data": open(file["path"], "rb").read() if "path" in file else file.get("text", "").encode(), "address": file.get("address")}
            if "size" in file:
                state.files[name]["size"] = file["size"]
            shared.append(dict(about(name), **file.get("more", {})))
        message = dict({"user": person, "text": text, "client_msg_id": "m%d" % state.number(), "team": TEAM}, **more)
        message.update(dict({"thread_ts": thread} if thread else {}, **({"files": shared, "subtype": "file_share"} if shared else {})))
        return {"ts": put(channel, message)["ts"]}

    def change(channel, ts, text):
        message = find(channel, ts)
        before = stripped(message, {})
        message.update(text=text, edited={"user": message["user"], "ts": state.ts()})
        event({"type": "message", "subtype": "message_changed", "channel": channel, "ts": state.ts(), "message": stripped(message, {}), "previous_message": before})

    def delete(channel, ts):
        event({"type": "message", "subtype": "message_deleted", "hidden": True, "channel": channel, "ts": state.ts(), "deleted_ts": ts, "previous_message": stripped(find(channel, ts), {})})

    def event(**of):
        event(of)

    def press(channel, ts, label, person="U0ANN", late=False):
        message = find(channel, ts)
        button = [button for block in message.get("blocks", []) for button in block.get("elements", []) if button["text"]["text"] == label][0]
        hook = "hook-%d" % state.number()
        state.hooks[hook] = {"until": 0 if late else now() + 1800, "left": 5}
        offer("interactive", {"type": "block_actions", "user": {"id": person, "username": PEOPLE[person][0], "team_id": TEAM}, "api_app_id": APP, "trigger_id": "t.%s" % hook,
              "container": {"type": "message", "message_ts": ts, "channel_id": channel}, "channel": {"id": channel}, "message": stripped(message, {}),
              "response_url": "http://127.0.0.1:%s/actions/%s" % (read("port"), hook), "actions": [dict(button, action_ts=state.ts(), block_id="b")]}, True)

    def channel(name, people, kind="channel"):
        state.channels[name] = {"people": people, "kind": kind}
        state.messages.setdefault(name, [])

    def leave(name, whole=False):
        """The bot is thrown out of a channel, or the whole channel is deleted (D reference/events)."""
        if whole:
            del state.channels[name]
            return event({"type": "channel_deleted", "channel": name})
        state.channels[name]["people"].remove(BOT)
        event({"type": "channel_left", "channel": name, "actor_id": "U0EVE"})

    def again():
        """Slack tells of the last message once more."""
        announce(*last())

    def last():
        return [last()[0], last()[1]["ts"]]

    def files():
        return [[file["name"], file["data"].hex()] for file in state.files.values() if "shares" in file]

    def ours():
        return [dict(message, channel=channel) for channel, messages in state.messages.items() for message in messages if message.get("bot_id") == BOT_ID]

    def messages(channel):
        return state.messages[channel]

    def heard():
        ours = [message for messages in state.messages.values() for message in messages if message.get("bot_id") == BOT_ID]
        return [seen(message) for message in sorted(ours, key=lambda message: message["ts"])]

    def fault(method, faults):
        state.faults.setdefault(method, []).extend(faults)

    def set(**values):
        for name, value in values.items():
            setattr(state, name, value)

    def revoke(which):
        state.revoked.add(which)

    def allow():
        state.revoked.clear()

    def log(method=""):
        return [asked for asked in state.log if asked["method"].startswith(method)]

    def known():
        return {"links": [[link.number, link.kind] for link in state.links], "waiting": len(state.waiting), "ephemeral": state.ephemeral, "hooks": state.hooks}

    def disconnect(reason="warning", after=10.0):
        """D using-socket-mode: a warning, and about ten seconds later the end; both are routine."""
        for link in list(state.links):
            link.send({"type": "disconnect", "reason": reason, "debug_info": {"host": "applink-1"}})
            threading.Timer(after, link.close).start()

    def half():
        """The connections are still there, and nothing comes any more (P openclaw, openab#1120)."""
        for link in state.links:
            link.kind = "half"

    def drop():
        for link in list(state.links):
            link.close()

class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.serve()

    def do_POST(self):
        self.serve()

    def serve(self):
        self.close_connection = False
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            if path == "/link/":
                return self.link(query)
            if path == "/control":
                with lock:
                    asked = json.loads(body)
                    return self.answer(200, getattr(Control, asked.pop("do"))(**asked))
            if path.startswith("/api/"):
                return self.call(path[5:], query, body)
            if path.startswith("/upload/"):
                return self.upload(path[8:], body)
            if path.startswith("/files-pri/"):
                return self.file(path)
            if path.startswith("/actions/"):
                return self.hook(path[9:], json.loads(body))
            if path.startswith("/away/"):
                return self.away(path[6:])
            if path.startswith("/far/"):
                with lock:
                    state.log.append({"method": "far", "token": self.headers.get("Authorization") or "", "at": now()})
                return self.send(200, state.files.get(path[5:], {}).get("data", b""), "text/plain")
            self.send(200 if path == "/login" else 404, LOGIN, "text/html")
        except Cut:
            self.close_connection = True
            self.connection.close()
        except Refused as refused:
            self.answer(400, {"error": str(refused)})

    def link(self, query):
        ticket = urllib.parse.parse_qs(query).get("ticket", [""])[0]
        with lock:
            # D apps.connections.open: an address works once.
            if ticket not in state.tickets or len(state.links) >= 10:
                return self.send(403 if ticket not in state.tickets else 408, b"", "text/plain")
            state.tickets.remove(ticket)
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())):
            self.send_header(name, value)
        self.end_headers()
        link = Link(self)
        with lock:
            hello = {"type": "hello", "num_connections": len(state.links) + 1, "debug_info": {"host": "applink-1", "approximate_connection_time": 18060}, "connection_info": {"app_id": APP}}
            link.send(hello)
            state.links.append(link)
        try:
            link.listen()
        except (OSError, struct.error):
            pass
        link.close()
        raise Cut

    def call(self, method, query, body):
        kind = self.headers.get("Content-Type", "")
        asked = {name: values[-1] for name, values in urllib.parse.parse_qs(query, keep_blank_values=True).items()}
        asked.update(json.loads(body) if "json" in kind else {name: values[-1] for name, values in urllib.parse.parse_qs(body.decode(), keep_blank_values=True).items()})
        which = "app" if method == "apps.connections.open" else "bot"
        token = {"app": APP_TOKEN, "bot": BOT_TOKEN}[which]
        with lock:
            state.log.append(dict(asked, method=method, at=now()))
            fault = fault_of(method)
            try:
                if self.headers.get("Authorization") != "Bearer " + token or which in state.revoked:
                    raise Refused("invalid_auth")
                if "status" not in fault and "error" not in fault and fault.get("cut") != "before":
                    found = getattr(Methods, method.replace(".", "_"), None)
                    if not found:
                        raise Refused("unknown_method")
                    answer = dict(found(asked), ok=True)
                else:
                    answer = {"ok": False, "error": fault.get("error", "")}
            except Refused as refused:
                answer = {"ok": False, "error": str(refused)}
        time.sleep(fault.get("slow", 0))
        if "cut" in fault:
            raise Cut
        if fault.get("status") == 429:
            # D apis/web-api/rate-limits
            return self.send(429, json.dumps({"ok": False, "error": "ratelimited"}).encode(), "application/json", fault.get("after"))
        if "status" in fault or "html" in fault:
            return self.send(fault.get("status", 200), fault.get("html", "<html>Slack is having trouble</html>").encode(), "text/html")
        self.answer(200, answer)

    def upload(self, name, body):
        fault = fault_of("upload")
        if "status" in fault or name not in state.uploads:
            return self.send(fault.get("status", 404), b"no", "text/plain")
        if len(body) != state.uploads[name]["length"]:
            return self.send(400, b"the length is another one", "text/plain")
        state.files[name] = {"name": state.uploads[name]["name"], "mime": "application/octet-stream", "data": body}
        self.send(200, b"OK - %d" % len(body), "text/plain")

    def file(self, path):
        with lock:
            state.log.append({"method": "file", "path": path, "token": self.headers.get("Authorization"), "at": now()})
        file = state.files.get(path.split("/")[2].split("-")[1])
        if self.headers.get("Authorization") != "Bearer " + BOT_TOKEN or not file:
            # P: without a token that may read it, the way leads to a page with status 200.
            self.send_response(302)
            self.send_header("Location", "/login")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        self.send(200, file["data"], file["mime"])

    def away(self, name):
        self.send_response(302)
        self.send_header("Location", "http://localhost:%s/far/%s" % (read("port"), name))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def hook(self, name, asked):
        with lock:
            hook = state.hooks.get(name)
            # D interactivity/handling-user-interaction: five times within thirty minutes.
            if not hook or hook["left"] == 0 or now() > hook["until"]:
                return self.send(404, b"expired_url", "text/plain")
            hook["left"] -= 1
            state.ephemeral.append({"hook": name, "text": plain(asked["text"]), "type": asked.get("response_type")})
        self.send(200, b"ok", "text/plain")

    def answer(self, status, value):
        self.send(status, json.dumps(value).encode(), "application/json; charset=utf-8")

    def send(self, status, body, kind, after=None):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if after is not None:
            self.send_header("Retry-After", str(after))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

def read(name):
    with open(os.path.join(HERE, name)) as file:
        return file.read()

def write(name, text):
    with open(os.path.join(HERE, name + ".new"), "w") as file:
        file.write(text)
    os.rename(os.path.join(HERE, name + ".new"), os.path.join(HERE, name))

def do(**asked):
    with urllib.request.urlopen("http://127.0.0.1:%s/control" % read("port"), json.dumps(asked).encode(), 30) as answer:
        return json.load(answer)

if sys.argv[1] == "serve":
    http.server.ThreadingHTTPServer.daemon_threads = True
    http.server.ThreadingHTTPServer.request_queue_size = 64
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    write("token-bot", BOT_TOKEN)
    write("token-app", APP_TOKEN)
    write("control", str(server.server_address[1]))
    write("port", str(server.server_address[1]))
    threading.Thread(target=keep, daemon=True).start()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    write("ready", "")
    sys.stdin.read()
elif sys.argv[1] == "do":
    print(json.dumps(do(**json.loads(sys.argv[2]))))
else:
    from people import DEEP, HUGE, got, play, spread

    def write_to(text, channel="C0ALL", **more):
        at = "" if channel[0] == "D" else "<@%s> " % BOT
        do(do="say", text=at + escaped(text), channel=channel, **more)

    def fault(**what):
        do(do="fault", method="chat.postMessage", faults=[what])

    def changed(what, **more):
        channel, ts = do(do="last")
        do(do=what, channel=channel, ts=ts, **more)

    def reacted(text):
        channel, ts = do(do="last")
        do(do="event", type="reaction_added", user="U0ANN", reaction="thumbsup", item={"type": "message", "channel": channel, "ts": ts})

    def bring(name, path, text, **more):
        do(do="say", text=escaped(text), files=[dict({"name": name, "path": path}, **more)])

    def thread(text):
        write_to("the root")
        channel, ts = do(do="last")
        write_to(text, channel, thread=ts)

    def channel(name, *people):
        do(do="channel", name=name, people=[*people, BOT])

    def left(name, **more):
        channel(name, "U0ANN", "U0EVE")
        do(do="leave", name=name, **more)
        return name

    def invite(text):
        channel("C0EVE", "U0EVE")
        do(do="event", type="member_joined_channel", user=BOT, channel="C0EVE", channel_type="C", team=TEAM, inviter="U0EVE")
        write_to(text, "C0EVE", person="U0EVE")

    def press(label, **more):
        found = [m for m in do(do="ours") for block in m.get("blocks", []) for button in block.get("elements", []) if button["text"]["text"] == label][-1]
        do(do="press", channel=found["channel"], ts=found["ts"], label=label, **more)

    play({
        "say": lambda *texts: [write_to(text, "D0ANN") for text in texts] and None,
        "heard": lambda: "\n".join(do(do="heard")),
        "burst": lambda *texts: spread(texts, ["D0ANN", "C0ALL", "G0FEW"], write_to),
        "stranger": lambda text: write_to(text, person="U0EVE"),
        "forge": lambda text: write_to(text, person="U0EVE", senderId="U0ANN", metadata={"event_type": "x", "event_payload": {"senderId": "U0ANN"}}),
        "bot": lambda text: write_to(text, person="U0BOB", bot_id="B0OTHER", subtype="bot_message"),
        "repeat": lambda: do(do="again"),
        "edit": lambda text: changed("change", text=escaped(text)),
        "delete": lambda text: changed("delete"),
        "react": reacted,
        "mention": write_to,
        "named": lambda text: do(do="say", text="hearth, " + text, channel="C0ALL"),
        "everyone": lambda text: do(do="say", text="<!everyone> " + text, channel="C0ALL"),
        "where": lambda: "C0ALL",
        "bring": bring,
        "unwanted": bring,
        "large": bring,
        "vanish": lambda name, path, text: bring(name, path, text, address="http://127.0.0.1:1/gone"),
        "files": lambda: got(do(do="files")),
        "elsewhere": lambda name, path, text: bring(name, path, text, address="away"),
        "told": lambda: "\n".join(asked["token"] for asked in do(do="log", method="far") if asked["token"]),
        "cut": lambda: fault(cut="after"),
        "limit": lambda seconds="": fault(status=429, after=seconds or None),
        "html": lambda: fault(status=502),
        "empty": lambda: fault(html=""),
        "huge": lambda: fault(html=HUGE),
        "deep": lambda: fault(html=DEEP),
        "pings": lambda: "\n".join(m["text"] for m in do(do="ours") if "<!" in json.dumps(m)),
        "previews": lambda: "\n".join(m["text"] for m in do(do="ours") if "://" in m["text"] and m.get("unfurl") != [False, False]),
        "press": press,
        "press-other": lambda label: press(label, person="U0EVE"),
        "press-late": lambda label: [do(do="fault", method="chat.postEphemeral", faults=[{"error": "user_not_in_channel"}]), press(label, late=True)] and None,
        "thread": thread,
        "threaded": lambda: "\n".join(m["text"] for m in do(do="ours") if m.get("thread_ts")),
        "rename": lambda: do(do="event", type="channel_rename", channel={"id": "C0ALL", "name": "renamed", "created": 1}),
        "gone": lambda: left("C0GONE", whole=True),
        "thrown": lambda: left("C0LEFT"),
        "invite": invite,
        "trip": lambda: do(do="fault", method="chat.postMessage", faults=[{}, {"status": 429, "after": "1"}]),
        "reactions": lambda: "\n".join(name for m in do(do="ours") for name in m.get("reactions", [])),
        "requests": lambda: str(len(do(do="log"))),
        "half": lambda: do(do="half"),
    }, {"meddle": "only its author can edit a message", "reply": "a reply is a message in a thread", "marked": "its history tells whether a message is there", "second": "Slack lets several programs use one account"})
