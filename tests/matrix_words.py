"""What people on Synapse do in the cases of `hearth bridge test`, for matrix_people.py, in whose server's process this runs. Faults
between the bridge and the server are made by a proxy, whose port is in the file `proxy`."""
import http.client, http.server, json, os, threading, time, urllib.parse, urllib.request

from matrix_people import at, done, read, write
from people import DEEP, HUGE, content, got, spread

# What the next messages of the bot meet, the bot's requests, how often connections fell silent, and what another server was told.
faults, counted, silences, told = [], [0], [0], []

class Proxy(http.server.BaseHTTPRequestHandler):
    """Stands between the bridge and the server. Each request has a connection of its own."""

    def pass_on(self):
        silent, counted[0] = silences[0], counted[0] + 1
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = faults.pop(0) if self.command == "PUT" and "/send/m." in self.path and faults else {}
        if self.path == "/far":
            # Stands for another server.
            told.append(self.headers.get("Authorization") or "")
            return self.give(404, b"")
        if "/media/download/hearth.test/elsewhere" in self.path:
            return self.give(307, b"", Location="http://localhost:%s/far" % read("proxy"))
        if "body" in fault:
            return self.give(fault.get("status", 200), fault["body"])
        dropped = ("host", "connection", "content-length", "accept-encoding")
        headers = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
        try:
            server = http.client.HTTPConnection("127.0.0.1", int(read("port")), timeout=60)
            server.request(self.command, self.path, body or None, headers)
            answer = server.getresponse()
            status, kind, found = answer.status, answer.headers.get("Content-Type"), answer.read()
        except (OSError, http.client.HTTPException):
            return
        while silent != silences[0]:
            time.sleep(1)
        if "cut" not in fault:
            self.give(status, found, **{"Content-Type": kind or "application/json"})

    do_GET = do_POST = do_PUT = pass_on

    def give(self, status, body, **headers):
        try:
            self.send_response(status)
            for name, value in dict(headers, Connection="close", **{"Content-Length": str(len(body))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass

    def log_message(self, *_):
        pass

def serve():
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    write("proxy", str(proxy.server_address[1]))

def part(text):
    return urllib.parse.quote(text, safe="")

def of_room(room, more=""):
    return "/_matrix/client/v3/rooms/%s/%s" % (part(room), more)

def events(room):
    """All events of a room, as Ann sees them, in their order."""
    found, more = [], ""
    while True:
        page = done("GET", of_room(room, "messages?dir=f&limit=1000") + more, read("token-ann"))
        found += page["chunk"]
        if "end" not in page:
            return [event for event in found if "state_key" not in event]
        more = "&from=" + part(page["end"])

def ours(room):
    """What the bot said there."""
    return [(event["event_id"], event["content"]) for event in events(room) if event["sender"].startswith("@bot:") and "body" in event["content"]]

def texts(said):
    """What people see of it: an edit is shown in the place of what it changes."""
    shown = {}
    for id, content in said:
        relation = content.get("m.relates_to", {})
        if relation.get("rel_type") != "m.replace":
            shown[id] = content["body"]
        elif relation["event_id"] in shown:
            shown[relation["event_id"]] = content["m.new_content"]["body"]
    return "\n".join(shown.values())

# The last message of a person, and the first ones of rooms.
last, first, lock = [None], {}, threading.Lock()

def send(person, room, content, kind="m.room.message"):
    return done("PUT", of_room(room, "send/%s/%d" % (kind, time.time_ns())), read("token-" + person), content)["event_id"]

def plain(text, **more):
    return dict({"msgtype": "m.text", "body": text, "m.mentions": {}}, **more)

def related(text, **relation):
    return plain(text, **{"m.relates_to": relation})

def say(texts):
    for text in texts:
        last[0] = send("ann", read("room"), {"msgtype": "m.text", "body": text})

def made(person, *others, **more):
    """A new room with the bot, who comes after the first message."""
    room = done("POST", "/_matrix/client/v3/createRoom", read("token-" + person), dict({"preset": "private_chat"}, **more))["room_id"]
    first[room] = send(person, room, plain("the first message"))
    for name in (*others, "bot"):
        done("POST", of_room(room, "invite"), read("token-" + person), {"user_id": "@%s:hearth.test" % name})
        done("POST", of_room(room, "join"), read("token-" + name), {})
    return room

def once(name, make):
    with lock:
        if not os.path.exists(at(name)):
            write(name, make())
    return read(name)

def group():
    return once("group", lambda: made("ann", "eve", name="a group"))

def eves():
    """Eve's room with the bot. She has Ann's name."""
    def make():
        done("PUT", "/_matrix/client/v3/profile/@eve:hearth.test/displayname", read("token-eve"), {"displayname": "ann"})
        return made("eve")
    return once("eves", make)

def in_group(text, **more):
    send("ann", group(), plain(text, **more))

def upload(person, name, data, kind="application/octet-stream"):
    path = "/_matrix/media/v3/upload?filename=" + urllib.parse.quote(name)
    return done("POST", path, read("token-" + person), data, kind=kind)["content_uri"]

def bring(name, path, text, address=None):
    about = {"mimetype": "application/octet-stream", "size": os.path.getsize(path)}
    address = address or upload("ann", name, content(path))
    last[0] = send("ann", read("room"), plain(text, msgtype="m.file", filename=name, url=address, info=about))

def file(content):
    path = "/_matrix/client/v1/media/download/" + content["url"][len("mxc://"):]
    asked = urllib.request.Request("http://127.0.0.1:%s%s" % (read("port"), path), headers={"Authorization": "Bearer " + read("token-ann")})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return content["filename"], answer.read().hex()

def replace(text, event):
    return dict(related("* " + text, rel_type="m.replace", event_id=event), **{"m.new_content": plain(text)})

def liked():
    relation = {"rel_type": "m.annotation", "event_id": last[0], "key": "👍"}
    send("ann", read("room"), {"m.relates_to": relation}, "m.reaction")

def delete():
    done("PUT", of_room(read("room"), "redact/%s/%d" % (part(last[0]), time.time_ns())), read("token-ann"), {})

def thread(text):
    root = send("ann", read("room"), plain("the root"))
    send("ann", read("room"), related(text, rel_type="m.thread", event_id=root, is_falling_back=True, **{"m.in_reply_to": {"event_id": root}}))

def reply(text):
    send("ann", group(), related(text, **{"m.in_reply_to": {"event_id": ours(group())[-1][0]}}))

def state(room, kind, content):
    done("PUT", of_room(room, "state/%s/" % kind), read("token-ann"), content)

def ended():
    """A group where nothing can be said any more, as after its replacement by another."""
    room = made("ann", "eve")
    state(room, "m.room.power_levels", {"events_default": 100})
    return room

def thrown():
    room = made("ann", "eve")
    done("POST", of_room(room, "kick"), read("token-ann"), {"user_id": "@bot:hearth.test"})
    return room

def invite(text):
    asked = {"preset": "private_chat", "invite": ["@bot:hearth.test", "@ann:hearth.test"], "name": "of a stranger"}
    send("eve", done("POST", "/_matrix/client/v3/createRoom", read("token-eve"), asked)["room_id"], plain(text))

def limit(seconds=""):
    pause = {"retry_after_ms": int(seconds) * 1000} if seconds else {}
    refusal = dict({"errcode": "M_LIMIT_EXCEEDED", "error": "Too Many Requests"}, **pause)
    return {"status": 429, "body": json.dumps(refusal).encode()}

def fault(*those):
    faults.extend(those)

def asks_for_previews(content):
    both = (content, content.get("m.new_content", content))
    return "://" in content["body"] and any(each.get("com.beeper.linkpreviews") != [] for each in both)

def half():
    silences[0] += 1

def in_thread(content):
    return content.get("m.relates_to", {}).get("rel_type") == "m.thread"

def reactions():
    return [event["content"]["m.relates_to"]["key"] for event in events(read("room")) if event["type"] == "m.reaction" and event["sender"].startswith("@bot:")]

def bodies(pick):
    return "\n".join(content["body"] for _, content in ours(read("room")) if pick(content))

WORDS = {
    "say": lambda *texts: say(texts),
    "many": lambda count: say("many-%d." % number for number in range(int(count))),
    "heard": lambda: texts(ours(read("room"))),
    "burst": lambda *texts: spread(texts, [("ann", read("room")), ("eve", eves()), ("ann", group())], lambda text, place: send(*place, plain(text))),
    "stranger": lambda text: send("eve", eves(), plain(text)) and None,
    "forge": lambda text: send("eve", eves(), plain(text, sender="@ann:hearth.test", senderId="@ann:hearth.test", author={"userId": "@ann:hearth.test"})) and None,
    "bot": lambda text: send("eve", group(), plain(text, msgtype="m.notice")) and None,
    "edit": lambda text: send("ann", read("room"), replace(text, last[0])) and None,
    "react": lambda text: liked(),
    "delete": lambda text: delete(),
    "meddle": lambda text: send("eve", group(), replace(text, first[group()])) and None,
    "mention": lambda text: in_group(text, **{"m.mentions": {"user_ids": ["@bot:hearth.test"]}}),
    "named": lambda text: in_group("bot: " + text),
    "reply": reply,
    "everyone": lambda text: in_group("@room " + text, **{"m.mentions": {"room": True}}),
    "where": group,
    "bring": bring,
    "unwanted": bring,
    "large": bring,
    "vanish": lambda name, path, text: bring(name, path, text, "mxc://hearth.test/gone"),
    "elsewhere": lambda name, path, text: bring(name, path, text, "mxc://hearth.test/elsewhere"),
    "told": lambda: "\n".join(filter(None, told)),
    "files": lambda: got(file(content) for _, content in ours(read("room")) if "url" in content),
    "cut": lambda: fault({"cut": True}),
    "limit": lambda seconds="": fault(limit(seconds)),
    "html": lambda: fault({"status": 502, "body": b"<html>trouble</html>"}),
    "empty": lambda: fault({"body": b""}),
    "huge": lambda: fault({"body": HUGE.encode()}),
    "deep": lambda: fault({"body": DEEP.encode()}),
    "trip": lambda: fault({}, limit("1")),
    "pings": lambda: bodies(lambda content: content.get("m.mentions") != {}),
    "previews": lambda: bodies(asks_for_previews),
    "reactions": lambda: "\n".join(reactions()),
    "thread": thread,
    "threaded": lambda: bodies(in_thread),
    "rename": lambda: state(group(), "m.room.name", {"name": "renamed"}),
    "gone": ended,
    "thrown": thrown,
    "invite": invite,
    "half": half,
    "requests": lambda: str(counted[0]),
}
CANNOT = {"repeat": "the server repeats nothing by itself", "second": "Matrix lets several programs use one account"}
