#!/usr/bin/env python3
"""A bridge between Hearth and the chat server of tests/chat_server.py."""
import json, os, queue, socket, sys, threading, time

hearth = socket.socket(fileno=int(os.environ["HEARTH_BRIDGE_FD"]))
frames = queue.Queue()

def send(frame):
    hearth.sendall(json.dumps(frame).encode() + b"\n")

def listen():
    try:
        for line in hearth.makefile(encoding="utf-8"):
            frames.put(json.loads(line))
    finally:
        frames.put({"shutDown": {}})  # the daemon is gone, or something else writes here

threading.Thread(target=listen, daemon=True).start()
hello = frames.get()["hello"]
if 1 not in hello["protocol"]:
    send({"failed": {"why": "this bridge speaks protocol 1 only", "until": "changed"}})
    sys.exit()
server, token, heard = hello["settings"]["server"].rsplit(":", 1), hello["secrets"].get("token"), None

def ask(request):
    global heard
    with socket.create_connection(server, 5) as line:
        line.sendall(json.dumps(dict(request, token=token)).encode() + b"\n")
        answer = json.loads(line.makefile(encoding="utf-8").readline())
    heard = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return answer

def deliver(this):
    outcome = {"id": this["id"], "attempt": this["attempt"], "result": "delivered"}
    text = this["text"]
    if this["act"] == "ask":
        card = this["card"]
        options = ["%d. %s" % (number, option["label"]) for number, option in enumerate(card["options"], 1)]
        text = "\n".join([card["title"], card["body"]] + options)
    for file in this["files"]:  # this network has no files
        text += "\n(file %s: %s)" % (file["name"], file.get("error") or "%d bytes" % file["size"])
        if file.get("path"):
            os.unlink(os.path.join(hello["files"], file["path"]))
    if this["act"] in ("edit", "react"):
        outcome.update(result="rejected", why="this network cannot do that")
    else:
        send({"begun": {"id": this["id"], "attempt": this["attempt"]}})  # from here on it may have left
        try:
            outcome["messageId"] = ask({"say": text, "to": this["platformId"], "key": this["id"]})["id"]
        except (OSError, ValueError, KeyError) as error:
            outcome.update(result="uncertain", why="the server did not answer: %s" % error)
    send({"outcome": outcome})

send({"ready": {"protocol": 1, "program": "chat_bridge 1", "me": {"id": "bot"},
                "capabilities": {"choice": "numbers", "idempotency": {"kind": "always"}}}})
since = hello["cursors"].get("since", "0")
since = int(since) if since.isdigit() else 0  # of another server: all that there is
current, due, taking, down = None, 0, True, None
while True:
    try:
        frame = frames.get(timeout=0.05)
    except queue.Empty:
        frame = {}
    if "shutDown" in frame:
        break
    if "deliver" in frame:
        deliver(frame["deliver"])
    elif "ping" in frame:
        send({"pong": frame["ping"], "heard": heard, "down": down})
    elif "stopTaking" in frame:
        taking = False
    elif current and frame.get("taken", frame.get("refused")) == current["number"]:
        since, current = current["number"], None  # stored, or over: the next one
    elif current and frame.get("later") == current["number"]:
        due = time.time() + frame["after"]  # nothing was stored: the same again
    if current is None and taking:
        try:
            current, due, down = ask({"since": since}).get("next"), 0, None
        except (OSError, ValueError) as error:
            down = "the server cannot be reached: %s" % error
    if current and time.time() >= due:
        send({"event": {"platformId": current["chat"], "sender": {"id": current["from"], "verified": True},
                        "message": {"id": current["id"], "isMention": True, "content": {"text": current["text"]}}},
              "seq": current["number"], "cursors": {"since": str(current["number"])}})
        due = float("inf")
