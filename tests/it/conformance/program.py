"""A program for the provider `command` that follows the lines of a message which begin with `@@`.

    @@say TEXT      an answer;  @@huge N: one of N letters
    @@until FILE    waits until the file exists
    @@send TEXT     says it at once, with Hearth's tool `send_message`
    @@fail TEXT     fails for good;  @@retry limited|passing: may be tried again
    @@garbage       writes a line that is not JSON;  @@die: ends in the middle
"""
import json
import os
import sys
import time


def tell(**line):
    print(json.dumps(line), flush=True)


def turn(text):
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "@@say":
            tell(type="say", text=rest)
        elif word == "@@huge":
            tell(type="say", text="x" * int(rest))
        elif word == "@@until":
            while not os.path.exists(rest):
                time.sleep(0.02)
        elif word == "@@send":
            call = {"name": "send_message", "arguments": {"text": rest}}
            tell(type="mcp", message={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
            while json.loads(sys.stdin.readline())["type"] != "mcp":
                pass
        elif word == "@@fail":
            return tell(type="error", message=rest)
        elif word == "@@retry":
            return tell(type="error", message="trouble", retry={"rate_limited": rest == "limited"})
        elif word == "@@garbage":
            print("this is not JSON", flush=True)
        elif word == "@@die":
            os._exit(7)
    tell(type="continuation", value="kept")
    tell(type="done")


for line in sys.stdin:
    asked = json.loads(line)
    if asked["type"] == "turn":
        turn("\n".join(message["content"]["text"] for message in asked["messages"]))
