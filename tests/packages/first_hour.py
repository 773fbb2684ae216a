#!/usr/bin/env python3
"""The person in `first-hour.sh`: types answers at `hearth setup`, writes to the bot, and gets an answer.

Also what the person talks to: stand-ins for the Bot API and for a model API, on a loopback of their own.
Every answer typed at a terminal counts, an empty one too.
"""

import fcntl
import http.server
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

TOKEN = "4242:AAfakefakefakefakefakefakefakefakef"
ANSWERS_MAX = 12
SECONDS_MAX = 180
ANN = {"id": 7, "is_bot": False, "first_name": "Ann"}
CHAT = {"id": 7, "type": "private", "first_name": "Ann"}
QUESTION = "What is the capital of France?"
ANSWER = "Paris is the capital of France."

root, started = sys.argv[1], int(sys.argv[2]) / 1e9


class Telegram:
    """What people see of the bot, and what they write to it."""

    def __init__(self):
        self.changed = threading.Condition()
        self.updates, self.shown, self.buttons = [], [], []

    def happens(self, **update):
        with self.changed:
            self.updates.append({"update_id": len(self.updates) + 1, **update})
            self.changed.notify_all()

    def types(self, text):
        number = len(self.updates) + 1
        self.happens(message={"message_id": number, "date": int(time.time()), "chat": CHAT, "from": ANN, "text": text})

    def presses(self, button, message):
        """Presses a button once."""
        self.buttons.remove((button, message))
        self.happens(callback_query={"id": f"press-{message['message_id']}", "from": ANN, "message": message,
                                     "chat_instance": "1", "data": button["callback_data"]})

    def call(self, method, sent):
        with self.changed:
            if method == "getMe":
                return {"id": 4242, "is_bot": True, "first_name": "Hearth", "username": "hearth_bot",
                        "can_join_groups": True, "can_read_all_group_messages": False}
            if method == "getUpdates":
                offset = int(sent.get("offset", 0))
                new = lambda: [update for update in self.updates if update["update_id"] >= offset]
                self.changed.wait_for(new, timeout=min(float(sent.get("timeout", 0)), 5))
                return new()
            if method == "sendMessage":
                self.shown.append(sent["text"])
                message = {"message_id": 1000 + len(self.shown), "date": int(time.time()), "chat": CHAT, "text": sent["text"]}
                rows = (sent.get("reply_markup") or {}).get("inline_keyboard", [])
                self.buttons += [(button, message) for row in rows for button in row]
                self.changed.notify_all()
                return message
            return True


telegram = Telegram()


def events():
    """A streamed answer of the model."""
    usage = {"input_tokens": 5, "output_tokens": 5}
    yield "message_start", {"message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
                                        "stop_reason": None, "stop_sequence": None, "usage": usage}}
    yield "content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}
    yield "content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": ANSWER}}
    yield "content_block_stop", {"index": 0}
    yield "message_delta", {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage}
    yield "message_stop", {}


class Server(http.server.BaseHTTPRequestHandler):
    """Both APIs."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answers(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def tells(self, value, status=200):
        self.answers(status, "application/json", json.dumps(value).encode())

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_HEAD(self):
        self.tells({})

    def do_GET(self):
        if self.path.startswith("/bot"):
            return self.do_POST()
        if self.path.startswith("/v1/models"):
            return self.tells({"data": [{"type": "model", "id": "stand-in", "display_name": "Stand-in"}], "has_more": False})
        return self.tells({"type": "error", "error": {"type": "not_found_error", "message": "?"}}, 404)

    def do_POST(self):
        body = self.body()
        path = self.path.split("?")[0]
        if path.startswith("/bot"):
            token, method = path[4:].split("/", 1)
            if token != TOKEN:
                return self.tells({"ok": False, "error_code": 401, "description": "Unauthorized"}, 401)
            return self.tells({"ok": True, "result": telegram.call(method, json.loads(body or b"{}"))})
        if path.endswith("/count_tokens"):
            return self.tells({"input_tokens": 5})
        if path != "/v1/messages":
            return self.tells({"type": "error", "error": {"type": "not_found_error", "message": "?"}}, 404)
        if not json.loads(body).get("stream"):
            return self.tells({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
                               "content": [{"type": "text", "text": ANSWER}], "usage": {"input_tokens": 5, "output_tokens": 5}})
        lines = (f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n" for kind, data in events())
        return self.answers(200, "text/event-stream", "".join(lines).encode())


class Ann:
    """A user of the clean system, and how much she typed."""

    def __init__(self):
        self.typed = 0
        self.screen = ""

    def process(self, arguments, **options):
        command = ["chroot", "--userspec=ann:ann", root, "env", "-i", "HOME=/home/ann", "USER=ann", "TERM=xterm",
                   "PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8", *arguments]
        return subprocess.Popen(command, start_new_session=True, **options)

    def looks(self, *arguments):
        """A command of the test, not of the person."""
        done = self.process(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.communicate(timeout=120)[0]

    def talks(self, arguments, answers):
        """Runs a command at a terminal, and answers its questions: `answers` has a pattern for each, and a text or what
        the person does instead of typing."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, 0x5414, struct.pack("HHHH", 24, 80, 0, 0))  # TIOCSWINSZ
        process = self.process(arguments, stdin=theirs, stdout=theirs, stderr=theirs,
                               preexec_fn=lambda: fcntl.ioctl(0, 0x540E, 0))  # TIOCSCTTY
        os.close(theirs)
        unread, end = "", time.monotonic() + SECONDS_MAX
        while time.monotonic() < end:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    more = os.read(ours, 65536).decode(errors="replace")
                except OSError:
                    more = ""
                if not more:
                    break
                unread += more
                self.screen += more
                continue
            # Lines are broken to fit the terminal.
            shown = re.sub(r"\s+", " ", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", unread))
            for pattern, text in answers:
                if re.search(pattern, shown):
                    unread = ""
                    if callable(text):
                        text()
                    else:
                        os.write(ours, f"{text}\n".encode())
                        self.typed += 1
                    break
        else:
            process.kill()
            raise SystemExit(f"no one answers this:\n{self.screen}")
        return process.wait(10)


def wait(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise SystemExit(f"FAILED: waited for {what}; shown: {telegram.shown}")


def main():
    loopback = socket.socket()
    fcntl.ioctl(loopback, 0x8914, struct.pack("16sh14x", b"lo", 0x49))  # SIOCSIFFLAGS: up
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.handle_error = lambda *_: None  # a client that does not wait for its answer
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    ann = Ann()
    status = ann.talks(["hearth", "setup", "--telegram-base-url", url], [
        (r"What answers.*Your choice \[1\]: $", "claude"),
        (r"own server.*Your choice \[1\]: $", "own server"),
        (r"Containers isolate agents best.*Your choice \[1\]: $", "processes"),
        (r"Address, like [^:]*://[^:]*:\d*: $", url),
        (r"Token, if it wants one.*: $", ""),
        (r"Token of the bot.*: $", TOKEN),
        # The clean root may lack bubblewrap.
        (r"Let it reach everything\?.*: $", "y"),
        # No service manager runs in the clean root; `hearth run` below is the daemon.
        (r"Start Hearth now and whenever you log in\?.*: $", "n"),
        # The link that is shown: the person opens it, and Telegram sends what it carries.
        (r"t\.me/hearth_bot\?start=", lambda: telegram.types("/start " + re.findall(r"start=([\w-]+)", ann.screen)[-1])),
        (r"Make this person an owner, who may decide everything\? \[y/N\]: $", "y"),
        (r"Write to your agent.*: $", ""),
        (r"\[[Yy]/[Nn]\]: $|: $", ""),
    ])
    print(ann.screen)
    if status:
        raise SystemExit("FAILED: hearth setup")
    # Who is asked for a right is told how to do without it.
    shown = " ".join(ann.screen.split())
    if "cannot be limited here" in shown and not re.search(r"[^.]\. To limit it, \w", shown):
        raise SystemExit("FAILED: setup does not say how to limit the network")
    daemon = ann.process(["hearth", "run"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    log = []
    reader = threading.Thread(target=lambda: log.append(daemon.stderr.read()), daemon=True)
    reader.start()
    telegram.types(QUESTION)

    def answered():
        # The owner is asked on the phone which agent listens there.
        for button, message in telegram.buttons[:1]:
            telegram.presses(button, message)
        return [text for text in telegram.shown if ANSWER in text]

    try:
        wait("an answer on Telegram", answered, 90)
    except SystemExit:
        print(ann.looks("hearth", "why", "latest"), ann.looks("hearth", "status"), sep="\n")
        daemon.send_signal(signal.SIGTERM)
        reader.join(10)
        print(*(part.decode(errors="replace") for part in log))
        raise
    seconds = time.time() - started
    daemon.send_signal(signal.SIGTERM)
    if daemon.wait(60):
        raise SystemExit("FAILED: the daemon did not stop well")
    print(f"from the .deb to an answer on Telegram: {seconds:.1f} s of at most {SECONDS_MAX}, "
          f"{ann.typed} answers typed of at most {ANSWERS_MAX}")
    if ann.typed > ANSWERS_MAX or seconds > SECONDS_MAX:
        raise SystemExit("FAILED: that is too much")


main()
