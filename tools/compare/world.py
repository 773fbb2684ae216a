"""The world around a program under test: Telegram's Bot API and a model with OpenAI's interface, on one loopback port."""

import json
import re
import threading
import time
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

TOKEN = "42:compare-test-token"
PERSON = 1001
MARKER = re.compile(r"probe\d+")
BOT = {"id": 42, "is_bot": True, "first_name": "Bot", "username": "compare_bot", "can_join_groups": True,
       "can_read_all_group_messages": False, "supports_inline_queries": False}
ANN = {"id": PERSON, "is_bot": False, "first_name": "Ann", "language_code": "en"}
CHAT = {"id": PERSON, "type": "private", "first_name": "Ann"}
# Methods that change nothing here.
QUIET = {"setwebhook", "setmycommands", "deletemycommands", "sendchataction", "setmessagereaction", "setmyname",
         "setmydescription", "setmyshortdescription", "setchatmenubutton", "answercallbackquery", "close", "logout",
         "pinchatmessage", "unpinchatmessage"}


class Telegram:
    """One bot and one person who writes to it. Updates stay until they are confirmed by a higher offset."""

    def __init__(self):
        self.changed = threading.Condition()
        self.updates = []
        self.next_update, self.next_message = 1, 1
        self.shown = {}  # message id -> text, of what the bot sent
        self.polls = 0
        self.refused = set()  # names of methods that are not known here
        self.delay = 0.0  # seconds until a sent message is confirmed

    def writes(self, text):
        """The person writes to the bot."""
        with self.changed:
            message = {"message_id": self.next_message, "date": int(time.time()), "text": text, "from": ANN, "chat": CHAT}
            self.updates.append({"update_id": self.next_update, "message": message})
            self.next_message, self.next_update = self.next_message + 1, self.next_update + 1
            self.changed.notify_all()

    def get_updates(self, offset, timeout, limit):
        deadline = time.monotonic() + timeout
        with self.changed:
            if offset < 0:
                self.updates = self.updates[offset:]
            self.updates = [update for update in self.updates if update["update_id"] >= offset]
            self.polls += 1
            self.changed.notify_all()
            poll = self.polls
            # As at Telegram, a newer poll ends an older one: the older one's program may be dead.
            while not self.updates and poll == self.polls and (rest := deadline - time.monotonic()) > 0:
                self.changed.wait(rest)
            return self.updates[:limit] if poll == self.polls else []

    def show(self, number, text):
        with self.changed:
            if number is None:
                number, self.next_message = self.next_message, self.next_message + 1
            self.shown[number] = text
            self.changed.notify_all()
        time.sleep(self.delay)
        return {"message_id": number, "date": int(time.time()), "text": text, "from": BOT, "chat": CHAT}

    def wait(self, true, timeout):
        """Waits until `true()`, and returns whether it is."""
        with self.changed:
            return self.changed.wait_for(true, timeout)

    def answers(self):
        """How many messages that the bot sent name each marker."""
        with self.changed:
            counts = {}
            for text in self.shown.values():
                for marker in set(MARKER.findall(text)):
                    counts[marker] = counts.get(marker, 0) + 1
            return counts

    def repeats(self):
        """What the bot sent that answers only what an earlier message of it had answered."""
        with self.changed:
            answered, found = set(), []
            for _, text in sorted(self.shown.items()):
                markers = set(MARKER.findall(text))
                if markers and markers <= answered:
                    found.append(text)
                answered |= markers
            return found

    def notices(self):
        """What the bot sent that answers nothing."""
        with self.changed:
            return [text for text in self.shown.values() if not MARKER.search(text)]

    def call(self, method, given):
        """The result of a method, or nothing if it is not known."""
        name = method.lower()
        if name == "getme":
            return BOT
        if name == "getupdates":
            return self.get_updates(int(given.get("offset") or 0), float(given.get("timeout") or 0),
                                    int(given.get("limit") or 100))
        if name in ("sendmessage", "editmessagetext"):
            number = given.get("message_id")
            return self.show(None if number is None else int(number), str(given.get("text", "")))
        if name == "deletemessage":
            with self.changed:
                return self.shown.pop(int(given["message_id"]), None) is not None
        if name == "deletewebhook":
            if str(given.get("drop_pending_updates", "")).lower() == "true":
                with self.changed:
                    self.updates = []
            return True
        if name == "getchat":
            return dict(CHAT, accent_color_id=0, max_reaction_count=1)
        if name == "getwebhookinfo":
            return {"url": "", "has_custom_certificate": False, "pending_update_count": len(self.updates)}
        if name in ("getmycommands", "getupdatesinfo"):
            return []
        if name in QUIET:
            return True
        self.refused.add(method)
        return None


def asked(messages):
    """The markers in what the person said in a conversation that the model has not answered in it."""
    said = {"user": [], "assistant": []}
    for message in messages:
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"text": content}]
        for part in parts:
            said.get(message.get("role"), []).extend(MARKER.findall(str(part.get("text") or "")))
    return [marker for marker in dict.fromkeys(said["user"]) if marker not in said["assistant"]]


class World(ThreadingHTTPServer):
    """The server of both; `url` is what programs are configured with."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.telegram = Telegram()
        self.thinking = 0.0  # seconds until the model answers
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """Programs that are killed close their connections: nothing to report."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def reply(self, status, body, kind="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.do_POST()

    def do_POST(self):
        address = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if address.path.startswith("/bot"):
            self.bot(address, body)
        elif address.path.endswith("/chat/completions"):
            self.complete(json.loads(body))
        elif address.path.endswith("/models"):
            self.reply(200, {"object": "list", "data": [{"id": "probe", "object": "model", "context_length": 200000}]})
        else:
            self.reply(404, {"error": {"message": "not found"}})

    def bot(self, address, body):
        given = dict(parse_qsl(address.query))
        kind = self.headers.get("Content-Type") or ""
        if "json" in kind and body:
            given.update(json.loads(body))
        elif "urlencoded" in kind:
            given.update(parse_qsl(body.decode()))
        elif "multipart" in kind:
            parsed = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
            given.update({part.get_param("name", header="content-disposition"): part.get_payload(decode=True).decode()
                          for part in parsed.get_payload()})
        result = self.server.telegram.call(address.path.rsplit("/", 1)[1], given)
        if result is None:
            self.reply(404, {"ok": False, "error_code": 404, "description": "Not Found"})
        else:
            self.reply(200, {"ok": True, "result": result})

    def complete(self, given):
        time.sleep(self.server.thinking)
        text = "answer to " + ", ".join(asked(given.get("messages", [])) or ["nothing"])
        base = {"id": "chatcmpl-1", "created": int(time.time()), "model": given.get("model", "probe")}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        if not given.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            return self.reply(200, dict(base, object="chat.completion", choices=[choice], usage=usage))
        events = [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}]},
                  {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
                  {"choices": [], "usage": usage}]
        lines = [json.dumps(dict(base, object="chat.completion.chunk", **event)) for event in events] + ["[DONE]"]
        self.reply(200, "".join(f"data: {line}\n\n" for line in lines).encode(), "text/event-stream")
