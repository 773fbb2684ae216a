#!/usr/bin/python3
"""Kills the bridge `hearth-matrix`, the server, or both, at each point of the way of a key, and says what was lost or came twice.

`matrix_kills.py PROGRAM`, where MATRIX_PEOPLE names the directory of a server of matrix_people.py. This plays the daemon's side of
the bridge's protocol, and is a proxy between the bridge and the server. For each point, Ann writes a message of an encrypted room
whose key follows it, and the message has to come once."""
import http.client, http.server, json, os, socket, subprocess, sys, threading, time, urllib.parse

sys.dont_write_bytecode = True
import matrix_people
from matrix_people import at, read

# Right before the bridge gets the key, with half of the answer, some milliseconds afterwards, and before and after the server
# knows that it has it.
POINTS = ("before", "half", "after 0", "after 3", "after 10", "after 30", "asks on", "asked on")
KINDS = ("bridge", "server", "server and bridge")
PATIENCE = 60

class Kills:
    """What is killed where, once."""
    point, kind, struck = None, None, 0

    def strike(self, point):
        if self.point != point:
            return False
        self.point, self.struck = None, self.struck + 1
        if "server" in self.kind:
            control("stop")
        if "bridge" in self.kind:
            daemon.bridge.kill()
        if "server" in self.kind:
            control("start")
        return True

def control(*words):
    asked = http.client.HTTPConnection("127.0.0.1", int(read("control")), timeout=120)
    asked.request("POST", "/control", json.dumps({"words": words}))
    if asked.getresponse().status != 200:
        sys.exit("%s failed" % (words,))

kills, told = Kills(), [None]

class Proxy(http.server.BaseHTTPRequestHandler):
    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_sync = "/sync?" in self.path
        confirms = is_sync and told[0] and told[0] in urllib.parse.unquote(self.path)
        if confirms and kills.strike("asks on"):
            return
        if confirms and kills.point == "asked on":
            # The server does not answer before it has news.
            threading.Timer(0.3, kills.strike, ["asked on"]).start()
        dropped = ("host", "connection", "content-length", "accept-encoding")
        try:
            server = http.client.HTTPConnection("127.0.0.1", int(read("port")), timeout=60)
            server.request(self.command, self.path, body or None, {name: value for name, value in self.headers.items() if name.lower() not in dropped})
            answer = server.getresponse()
            status, found = answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return
        has_keys = is_sync and status == 200 and bool(json.loads(found).get("to_device", {}).get("events"))
        if has_keys:
            told[0] = json.loads(found)["next_batch"]
        if has_keys and kills.strike("before"):
            return
        is_half = has_keys and kills.point == "half"
        try:
            self.send_response(status)
            for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(found))), ("Connection", "close")):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(found[:len(found) // 2] if is_half else found)
        except OSError:
            return
        if is_half:
            kills.strike("half")
        elif has_keys and (kills.point or "").startswith("after"):
            time.sleep(int(kills.point.split(" ")[1]) / 1000)
            kills.strike(kills.point)

    do_GET = do_POST = do_PUT = pass_on

    def log_message(self, *_):
        pass

class Daemon:
    """Starts the bridge whenever it has ended, and stores its cursors with its messages."""

    def __init__(self, program, server):
        self.program, self.server, self.home = program, server, at("bridge")
        # A message that comes again has the id that it had.
        self.bridge, self.cursors, self.texts = None, {}, {}
        self.is_ready, self.is_over = threading.Event(), False
        os.makedirs(os.path.join(self.home, "files"))
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        while not self.is_over:
            ours, theirs = socket.socketpair()
            with open(at("said"), "ab") as said:
                self.bridge = subprocess.Popen([self.program], stdin=theirs, stdout=subprocess.DEVNULL, stderr=said, cwd=self.home)
            theirs.close()
            try:
                self.talk(ours)
            except (OSError, ValueError):
                pass
            self.bridge.kill()
            self.bridge.wait()
            ours.close()
            time.sleep(0.2)

    def talk(self, link):
        def send(frame):
            link.sendall(json.dumps(frame).encode() + b"\n")

        send({"hello": {
            "protocol": [1], "channel": "kills", "settings": {"server": self.server, "invites": "server"}, "secrets": {"token": read("token-bot")},
            "cursors": self.cursors, "files": os.path.join(self.home, "files"), "limits": {"frame": 1 << 20, "file": 1 << 20, "unacked": 64},
        }})
        for line in link.makefile("rb"):
            frame = json.loads(line)
            if "event" in frame:
                message = frame["event"]["message"]
                self.texts[message["id"]] = message["content"]["text"]
                self.cursors.update(frame.get("cursors") or {})
            elif "cursor" in frame:
                self.cursors.update(frame["cursor"])
                self.is_ready.set()
            else:
                continue
            send({"taken": frame["seq"]})

class Ann:
    def __init__(self):
        command = ["/usr/bin/python3", os.path.join(os.path.dirname(os.path.abspath(__file__)), "matrix_sealed.py"), "serve", os.environ["MATRIX_PEOPLE"]]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def does(self, *words):
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["said"].strip() if answer["done"] else sys.exit("%s: %s" % (words, answer["said"]))

def soon(look):
    begin = time.monotonic()
    while not look() and time.monotonic() - begin < PATIENCE:
        time.sleep(0.1)
    return look()

def main():
    global daemon
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    daemon, wrong = Daemon(sys.argv[1], "http://127.0.0.1:%d" % proxy.server_address[1]), []
    try:
        daemon.is_ready.wait(PATIENCE)
        ann = Ann()
        room = ann.does("open", "ann")
        members = "/_matrix/client/v3/rooms/%s/joined_members" % urllib.parse.quote(room, safe="")
        soon(lambda: len(matrix_people.done("GET", members, read("token-ann"))["joined"]) == 2)
        for number, (point, kind) in enumerate((point, kind) for point in POINTS for kind in KINDS):
            text = "message %d: %s, %s" % (number, kind, point)
            ann.does("keyless", "ann", room, text)
            kills.kind, kills.point = kind, point
            ann.does("key", "ann", room)
            if not soon(lambda: kills.point is None):
                wrong.append("not reached: " + text)
            soon(lambda: text in daemon.texts.values())
        if len(daemon.texts) != len(POINTS) * len(KINDS):
            wrong.append("these came: %s" % sorted(daemon.texts.values()))
        ann.process.stdin.close()
        ann.process.wait()
    finally:
        daemon.is_over = True
        daemon.bridge.kill()
        daemon.thread.join()
    if wrong:
        with open(at("said"), errors="replace") as said:
            sys.exit(print("\n".join(wrong), said.read(), sep="\n") or 1)

main()
