"""An agent for the tests of the command provider: does what the first word of the message says."""

import json
import os
import signal
import subprocess
import sys
import time


def say(**line):
    print(json.dumps(line), flush=True)


def open_descriptors():
    still = []
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))
            still.append(int(name))
        except OSError:
            pass
    return sorted(still)


heard = []
while True:
    line = sys.stdin.readline()
    if not line:
        break
    turn = json.loads(line)
    if turn["type"] == "reply":
        heard.append(turn)
        continue
    text = turn["messages"][-1]["content"]["text"]
    word, _, rest = text.partition(" ")
    if word == "count":
        say(type="say", text="turn %d, continuation %s" % (turn["turn"], turn.get("continuation")))
        say(type="continuation", value="c%d" % turn["turn"])
    elif word == "quit":
        if rest == "now" or turn["turn"] > 1:
            sys.exit(0)
        say(type="say", text="turn %d" % turn["turn"])
    elif word == "mess":
        print("this is not JSON")
        say(type="invention", text="x")
        say(type="say")
        print("", flush=True)
        say(type="say", text="still here")
    elif word == "early":
        say(type="say", text="at once", final=False)
        time.sleep(0.4)
        say(type="say", text="in the end")
    elif word == "tool":
        say(type="tool", name="build", timeout_ms=60000, id="1")
        time.sleep(0.4)
        say(type="tool_done", id="1")
    elif word == "file":
        with open("made.txt", "w") as made:
            made.write("made here")
        say(type="say", text="see file", files=["made.txt"], to="family")
    elif word == "nofile":
        say(type="say", text="see file", files=["absent.txt"])
        say(type="say", text="too late")
    elif word == "error":
        say(type="say", text="never sent")
        say(type="error", message=rest)
        continue
    elif word == "die":
        print("something broke", file=sys.stderr, flush=True)
        sys.exit(7)
    elif word == "kill":
        if rest == "early":
            say(type="say", text="never sent")
        if rest == "tool":
            say(type="tool", name="build", timeout_ms=60000, id="1")
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "hold":
        child = subprocess.Popen(["sleep", "600"])
        say(type="say", text=json.dumps([os.getpid(), child.pid]), final=False)
        time.sleep(600)
    elif word == "fds":
        say(type="say", text=json.dumps(open_descriptors()))
    elif word == "env":
        say(type="say", text="\n".join([os.getcwd()] + [os.environ.get(name, "-") for name in rest.split()]))
    elif word == "ask":
        say(type="request", id="mine", content=json.loads(rest))
        say(type="say", text=sys.stdin.readline().strip())
    elif word == "leave":
        say(type="request", id="left", content=json.loads(rest))
    elif word == "heard":
        say(type="say", text=json.dumps(heard))
    elif word == "sure":
        say(type="say", id="s", text="at once", final=False)
        say(type="say", text=sys.stdin.readline().strip())
    elif word == "mumble":
        note = "<internal>hm</internal>"
        say(type="say", text=note)
        say(type="say", id="s", text=note, final=False)
        answer = json.loads(sys.stdin.readline())
        say(type="say", text=note + answer["error"])
    elif word == "mcp":
        # All messages at once; what is answered, in the order in which it comes.
        messages = json.loads(rest)
        for message in messages:
            say(type="mcp", message=message)
        wanted = [message for message in messages if "silent" not in message]
        answers = [json.loads(sys.stdin.readline())["message"] for _ in wanted]
        say(type="say", text=json.dumps(answers))
    elif word == "circle":
        for call in range(1000):
            params = {"name": "send_message", "arguments": {"text": "again"}}
            say(type="mcp", message={"jsonrpc": "2.0", "id": call, "method": "tools/call", "params": params})
            result = json.loads(sys.stdin.readline())["message"]["result"]
            if result.get("isError"):
                break
        say(type="say", text="%d: %s" % (call, result["content"][0]["text"]))
    elif word == "prompt":
        say(type="say", text=turn["prompt"] + "\n" + turn["system"])
    say(type="done")
