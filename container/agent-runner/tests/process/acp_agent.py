#!/usr/bin/env python3
"""An agent that speaks the Agent Client Protocol and needs no model. It does on demand what real agents do.

    acp_agent.py [--store DIR] [--quirk NAME]…

Lines of a prompt are its script; every other prompt is answered with "fake: TEXT".

    @@say TEXT            the answer, in two chunks;  @@huge N: an answer of N letters
    @@notice TEXT         a chunk that is no answer (no messageId), as Codex and Claude write warnings
    @@think TEXT          agent_thought_chunk
    @@tool NAME MS        a tool call that takes so long
    @@ask NAME            asks for permission, then runs the tool or not
    @@run COMMAND         asks for permission, then runs it in a shell, or not
    @@mcp SERVER TOOL {}  calls a tool of a server that came with the session, and says its result
    @@sleep MS            waits without a sign;  @@until FILE: until the file exists
    @@mode                says the mode that it was set to;  @@env NAME: the value of a variable
    @@images              says the types of the images in the prompt
    @@usage IN OUT COST   what it reports at the end
    @@fail CODE TEXT      the prompt's answer is this error
    @@stop REASON         another stopReason
    @@cry TEXT            a line on standard error;  @@garbage: a line on standard output that is not JSON
    @@die CODE            ends in the middle

Quirks, each seen in a real agent: late-replay (answers session/load before it replays), replay-on-resume,
load-forgets ({} for an unknown id, then "refusal"), one-prompt (a second prompt cancels the first), queue (it is answered
at once with a notice, and the first prompt answers both), errors-are-text, deaf (does not end with its input),
no-load, blind (no images), usage-session (usage is the session's sum), no-usage, unknown-updates.
"""
import argparse
import html
import json
import os
import queue
import subprocess
import sys
import threading
import time
import uuid

parser = argparse.ArgumentParser()
parser.add_argument("--store", default=".fake-acp")
parser.add_argument("--quirk", action="append", default=[])
OPTIONS = parser.parse_args()
HAS = OPTIONS.quirk.__contains__
LOCK, ANSWERS, SESSIONS = threading.Lock(), {}, {}
NEXT = iter(range(10**9))


def tell(message):
    with LOCK:
        print(message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def ask(method, params):
    number, box = next(NEXT), queue.Queue()
    ANSWERS[number] = box
    tell({"id": number, "method": method, "params": params})
    return box.get()


class Refused(Exception):
    def __init__(self, code, text, data=None):
        super().__init__(text)
        self.error = {"code": code, "message": text, **({"data": data} if data else {})}


class Server:
    """A server of tools that the client named."""

    def __init__(self, spec):
        env = {**os.environ, **{v["name"]: v["value"] for v in spec.get("env", [])}}
        self.child = subprocess.Popen([spec["command"], *spec.get("args", [])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "fake", "version": "1"}})
        self.ask("tools/list", {})

    def ask(self, method, params):
        message = {"jsonrpc": "2.0", "id": next(NEXT), "method": method, "params": params}
        self.child.stdin.write(json.dumps(message).encode() + b"\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())["result"]


class Session:
    def __init__(self, name, params, history=()):
        self.name, self.history, self.cancelled, self.busy, self.sum = name, list(history), threading.Event(), threading.Lock(), [0, 0, 0.0]
        self.servers = {spec["name"]: Server(spec) for spec in params.get("mcpServers", []) if "command" in spec}
        self.waiting, self.mode = [], "default"
        SESSIONS[name] = self

    @staticmethod
    def path(name):
        return os.path.join(OPTIONS.store, f"{name}.json")

    def keep(self):
        os.makedirs(OPTIONS.store, exist_ok=True)
        with open(Session.path(self.name), "w") as file:
            json.dump(self.history, file)

    def update(self, kind, /, **fields):
        tell({"method": "session/update", "params": {"sessionId": self.name, "update": {"sessionUpdate": kind, **fields}}})

    def text(self, text, kind="agent_message_chunk", message=None):
        self.update(kind, content={"type": "text", "text": text}, **({"messageId": message} if message else {}))

    def replay(self):
        for asked, said in self.history:
            self.text(asked, "user_message_chunk", "u")
            self.text(said, message="r")

    def pause(self, milliseconds):
        if self.cancelled.wait(float(milliseconds) / 1000):
            raise InterruptedError

    def prompt(self, asked):
        """The answer to session/prompt."""
        if self.busy.locked() and HAS("queue"):
            self.waiting.append(asked)
            self.text("Queued for the next turn.")
            return {"stopReason": "end_turn"}
        if self.busy.locked() and HAS("one-prompt"):
            self.cancelled.set()
        with self.busy:
            self.cancelled.clear()
            try:
                result = self.turn(asked)
                while self.waiting:
                    result = self.turn(self.waiting.pop(0))
                return result
            except InterruptedError:
                return {"stopReason": "cancelled"}

    def turn(self, asked):
        said, used, result = [], (100, 7, 0.001), {"stopReason": "end_turn"}
        if HAS("unknown-updates"):
            self.update("invented_update", things=[1])
        for line in html.unescape(asked).splitlines():
            word, _, rest = line.strip().partition(" ")
            if word == "@@say":
                said.append(rest)
                for part in (rest[:3], rest[3:]):
                    self.text(part, message="m")
                    self.pause(1)
            elif word == "@@usage":
                one, two, cost = rest.split()
                used = (int(one), int(two), float(cost))
            elif word == "@@stop":
                result["stopReason"] = rest
            elif word == "@@fail":
                code, _, text = rest.partition(" ")
                if HAS("errors-are-text"):
                    self.text(text)
                    return result
                raise Refused(int(code), text)
            elif word.startswith("@@"):
                self.do(word[2:], rest, said)
        if not said and "@@" not in asked:
            said.append("fake: " + asked)
            self.text(said[0], message="m")
        self.history.append((asked, "".join(said)))
        self.keep()
        return {**result, **self.usage(used)}

    def do(self, word, rest, said):
        name, _, more = rest.partition(" ")
        call = f"call_{next(NEXT)}"
        if word == "notice":
            self.text(rest)
        elif word == "think":
            self.text(rest, "agent_thought_chunk")
        elif word == "sleep":
            self.pause(rest)
        elif word == "until":
            while not os.path.exists(rest):
                self.pause(20)
        elif word == "huge":
            said.append("x" * int(rest))
            self.text(said[-1], message="m")
        elif word == "images":
            said.append("images: " + (", ".join(self.images) or "none"))
            self.text(said[-1], message="m")
        elif word in ("mode", "env"):
            said.append(f"{word}: {self.mode if word == 'mode' else os.environ.get(name)}")
            self.text(said[-1], message="m")
        elif word == "cry":
            print(rest, file=sys.stderr, flush=True)
        elif word == "garbage":
            tell("this is not JSON")
        elif word == "die":
            os._exit(int(rest or 1))
        elif word == "tool":
            self.update("tool_call", toolCallId=call, title=name, kind="execute", status="pending", rawInput={})
            self.pause(more or 0)
            self.update("tool_call_update", toolCallId=call, status="completed")
        elif word in ("ask", "run"):
            title, command = ("Bash", rest) if word == "run" else (name, name)
            options = [("once", "allow_once"), ("always", "allow_always"), ("no", "reject_once")]
            answer = ask("session/request_permission", {
                "sessionId": self.name, "toolCall": {"toolCallId": call, "title": title, "kind": "execute", "rawInput": {"command": command}},
                "options": [{"optionId": one, "name": one, "kind": kind} for one, kind in options]})
            outcome = (answer.get("result") or {}).get("outcome") or {}
            if outcome.get("outcome") != "selected" and self.cancelled.is_set():
                raise InterruptedError
            chosen = outcome.get("optionId")
            if word == "run" and chosen in ("once", "always"):
                subprocess.run(command, shell=True, check=True)
            self.update("tool_call_update", toolCallId=call, status="completed" if chosen in ("once", "always") else "failed")
            if word == "run":
                return
            said.append(f"permission: {chosen or outcome.get('outcome')}")
            self.text(said[-1], message="m")
        elif word == "mcp":
            tool, _, arguments = more.partition(" ")
            answer = self.servers[name].ask("tools/call", {"name": tool, "arguments": json.loads(arguments or "{}")})
            said.append(answer["content"][0]["text"])
            self.text(said[-1], message="m")
        else:
            raise Refused(-32602, f"no directive @@{word}")

    def usage(self, used):
        self.sum = [a + b for a, b in zip(self.sum, used)]
        if HAS("no-usage"):
            return {}
        self.update("usage_update", used=used[0], size=100000, cost={"amount": self.sum[2], "currency": "USD"})
        one, two = self.sum[:2] if HAS("usage-session") else used[:2]
        return {"usage": {"inputTokens": one, "outputTokens": two, "totalTokens": one + two}}


def opened(method, params):
    if method == "session/new":
        session = Session(str(uuid.uuid4()), params)
        session.keep()
    else:
        name = params["sessionId"]
        try:
            with open(Session.path(name)) as file:
                history = json.load(file)
        except OSError:
            if HAS("load-forgets"):
                return {}
            raise Refused(-32002, f"Resource not found: {name}") from None
        session = Session(name, params, history)
        if method == "session/load" and HAS("late-replay"):
            threading.Timer(0.05, session.replay).start()
        elif method == "session/load" or HAS("replay-on-resume"):
            session.replay()
    modes = [{"id": "default", "name": "Default"}, {"id": "yolo", "name": "Yolo"}]
    return {"sessionId": session.name, "modes": {"currentModeId": "default", "availableModes": modes}}


def serve(method, params):
    if method == "initialize":
        sessions = {} if HAS("no-load") else {"resume": {}, "list": {}, "close": {}}
        return {"protocolVersion": 1, "authMethods": [], "agentInfo": {"name": "fake-acp-agent", "version": "1"},
                "agentCapabilities": {"loadSession": not HAS("no-load"), "promptCapabilities": {"image": not HAS("blind")}, "sessionCapabilities": sessions}}
    if method in ("session/new", "session/load", "session/resume"):
        return opened(method, params)
    if method == "session/set_mode":
        SESSIONS[params["sessionId"]].mode = params["modeId"]
    if method in ("session/set_mode", "session/set_model", "session/set_config_option", "authenticate"):
        return {}
    if method == "session/prompt":
        session = SESSIONS.get(params["sessionId"])
        if session is None and HAS("load-forgets"):
            return {"stopReason": "refusal"}
        if session is None:
            raise Refused(-32602, "session not found")
        session.images = [block["mimeType"] for block in params["prompt"] if block["type"] == "image"]
        return session.prompt("\n".join(block.get("text", "") for block in params["prompt"]))
    raise Refused(-32601, f"Method not found: {method}")


def answer(message):
    try:
        tell({"id": message["id"], "result": serve(message["method"], message.get("params") or {})})
    except Refused as refused:
        tell({"id": message["id"], "error": refused.error})


for line in sys.stdin:
    try:
        message = json.loads(line)
    except ValueError:
        tell({"id": None, "error": {"code": -32700, "message": "Parse error"}})
        continue
    if "method" not in message:
        ANSWERS.pop(message["id"]).put(message)
    elif message["method"] == "session/cancel":
        SESSIONS[message["params"]["sessionId"]].cancelled.set()
    elif "id" in message:
        threading.Thread(target=answer, args=(message,), daemon=True).start()
while HAS("deaf"):
    time.sleep(1)
