#!/usr/bin/env python3
"""A bridge that sends to a server of ntfy. A chat is a topic. It receives nothing."""
import json, os, socket, sys, threading, time, urllib.error, urllib.request

hearth = socket.socket(fileno=int(os.environ["HEARTH_BRIDGE_FD"]))
frames, writing = hearth.makefile(encoding="utf-8"), threading.Lock()
heard = down = None
under_way, delivered = {}, {}  # attempts and messages by the id of a delivery
PART = 4000  # ntfy makes a file of a text of more than 4,096 bytes

def send(frame):
    with writing:
        hearth.sendall(json.dumps(frame).encode() + b"\n")

def publish(topic, title, text):
    global heard, down
    body = json.dumps({"topic": topic, "title": title, "message": text}).encode()
    headers = {"Authorization": "Bearer " + token} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(server, body, headers), timeout=20) as answer:
            found = json.load(answer)["id"]
    except urllib.error.URLError as error:
        if getattr(error, "code", 401) == 401:
            down = "%s: %s" % (server, error)
        raise
    heard, down = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), None
    return found

def parts(text):
    rest = text.encode()
    while len(rest) > PART:
        end = max(at for at in range(PART - 3, PART + 1) if rest[at] & 0xC0 != 0x80)  # between two characters
        yield rest[:end].decode()
        rest = rest[end:]
    yield rest.decode()

def take(this):
    if this["id"] in under_way:
        under_way[this["id"]] = this["attempt"]  # the same one
    elif this["id"] in delivered:
        end(this["id"], {"result": "delivered", "messageId": delivered[this["id"]]}, this["attempt"])
    else:
        under_way[this["id"]] = this["attempt"]
        threading.Thread(target=deliver, args=(this,), daemon=True).start()  # pings are answered meanwhile

def end(id, outcome, attempt=None):
    if "messageId" in outcome and outcome["result"] == "delivered":
        delivered[id] = outcome["messageId"]
    if len(delivered) > 1000:
        delivered.pop(next(iter(delivered)), None)
    send({"outcome": dict(outcome, id=id, attempt=under_way.pop(id, attempt))})

def deliver(this):
    outcome = {"result": "delivered"}
    text = this["text"]
    if this["act"] == "ask":
        card = this["card"]
        options = ["%d. %s" % (number, option["label"]) for number, option in enumerate(card["options"], 1)]
        text = "\n".join([card["title"], card["body"]] + options)
    for file in this["files"]:
        text += "\n(file %s: %s)" % (file["name"], file.get("error") or "%d bytes" % file["size"])
        if file.get("path"):
            os.unlink(os.path.join(files, file["path"]))
    if this["repeated"]:
        text = "(again) " + text
    if this["act"] in ("edit", "react"):
        return end(this["id"], {"result": "rejected", "why": "ntfy cannot do that"})
    send({"begun": {"id": this["id"], "attempt": this["attempt"]}})  # from here on it may have left
    try:
        for part in parts(text):
            found = publish(this["platformId"], this["speaker"] or "Hearth", part)
            outcome.setdefault("messageId", found)
    except urllib.error.HTTPError as error:
        result = "uncertain" if "messageId" in outcome or error.code >= 500 else "rejected"
        if error.code == 429 and "messageId" not in outcome:
            after = error.headers.get("Retry-After", "")
            outcome.update(result="retry", after=int(after) if after.isdigit() else 60)
        else:
            outcome.update(result=result)
        outcome.update(why="ntfy answers %d: %s" % (error.code, error.read(200).decode(errors="replace")))
    except (OSError, ValueError, KeyError) as error:
        refused = isinstance(getattr(error, "reason", None), ConnectionRefusedError) and "messageId" not in outcome
        outcome.update(result="retry" if refused else "uncertain", why="ntfy did not answer: %s" % error)
    end(this["id"], outcome)

hello = json.loads(frames.readline())["hello"]
if 1 not in hello["protocol"]:
    send({"failed": {"why": "this bridge speaks protocol 1 only", "until": "changed"}})
    sys.exit()
server, token, files = hello["settings"].get("server", "https://ntfy.sh"), hello["secrets"].get("token"), hello["files"]
send({"ready": {"protocol": 1, "program": "ntfy_bridge 1", "me": {"id": "hearth"}, "capabilities": {"cardMax": 2000}}})
for line in frames:  # ends with the daemon
    frame = json.loads(line)
    if "shutDown" in frame:
        break
    if "deliver" in frame:
        take(frame["deliver"])
    elif "ping" in frame:
        send({"pong": frame["ping"], "heard": heard, "down": down})
    elif "openDirect" in frame:
        send({"opened": {"seq": frame["seq"], "why": "no one can be asked by ntfy"}})
