#!/usr/bin/env python3
"""A fake model service on the loopback interface: four wire formats, one script.

    fake_llm.py PORT [LOG]          LOG gets one JSON line per request

    POST /v1/chat/completions       OpenAI chat completions (also Ollama, llama.cpp, vLLM, LiteLLM)
    POST /v1/responses              OpenAI responses
    POST /v1/messages               Anthropic messages
    POST /v1beta/models/M:streamGenerateContent   Gemini (and :generateContent, :countTokens)
    GET  /v1/models

Lines of the newest text of the user are the script; every other text is answered with "fake: TEXT".

    @@tool NAME {json}      calls a tool, one per request, in order; NAME may be a suffix of the offered tool's name
    @@tools NAME {json} ;; NAME {json}   several in one answer (chat completions only)
    @@say TEXT              the last answer
    @@think TEXT            reasoning before it, where the format has a field for that
    @@sleep S               waits before the first byte
    @@until FILE            waits until the file exists
    @@drip S                spreads the answer over S seconds
    @@usage IN OUT          tokens it reports (default: a quarter of the request's bytes, 7)
    @@http CODE [TIMES] [RETRY_AFTER]   an error, TIMES times (default: always)
    @@stop REASON           finish_reason of the answer in OpenAI's words: length, content_filter
    @@cut                   closes the connection in the middle of the answer
    @@nousage               leaves the usage out
    @@whole                 arguments of a tool call in one piece without an index, as old Ollama sent them
    @@zero                  several tool calls, all with index 0, as newer Ollama sends them
"""
import html
import itertools
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SEQ = itertools.count(1)
LOCK = threading.Lock()
FAILED = {}


def texts(content):
    """The texts of a message's content, whichever format it is in."""
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content or [] if isinstance(part, dict) and isinstance(part.get("text"), str)]


def history(body):
    """The conversation as ("user", text) and ("result", None), oldest first."""
    found = []
    for message in body.get("messages") or body.get("contents") or body.get("input") or []:
        if isinstance(message, str):
            found.append(("user", message))
            continue
        content = message.get("content", message.get("parts"))
        parts = content if isinstance(content, list) else []
        results = sum(1 for p in parts if isinstance(p, dict) and (p.get("type") == "tool_result" or "functionResponse" in p))
        if message.get("role") == "tool" or str(message.get("type", "")).endswith("_call_output"):
            results += 1
        found += [("result", None)] * results
        if message.get("role") == "user":
            found += [("user", text) for text in texts(content)]
    if isinstance(body.get("input"), str):
        found.append(("user", body["input"]))
    return found


class Script:
    """What the newest text of the user asks for, and how far it has come."""

    def __init__(self, body):
        self.step, self.text, told = 0, "", history(body)
        for kind, text in reversed(told):
            if kind == "result":
                self.step += 1
            elif "@@" in text or not text.lstrip().startswith(("<system-reminder", "<environment_context", "<session_context")):
                self.text = text
                break
        self.tools, self.say, self.think, self.http, self.usage = [], None, None, None, None
        self.sleep = self.drip = 0.0
        self.until = None
        self.stop, self.cut, self.nousage, self.whole, self.zero = None, False, False, False, False
        # Prompts that quote a person have their text escaped.
        for line in html.unescape(self.text).splitlines():
            word, _, rest = line.strip().partition(" ")
            if word in ("@@tool", "@@tools"):
                calls = [call.strip().partition(" ") for call in rest.split(" ;; ")]
                self.tools.append([(name, json.loads(arguments or "{}")) for name, _, arguments in calls])
            elif word in ("@@say", "@@think", "@@stop", "@@until"):
                setattr(self, word[2:], rest)
            elif word in ("@@sleep", "@@drip"):
                setattr(self, word[2:], float(rest))
            elif word in ("@@cut", "@@nousage", "@@whole", "@@zero"):
                setattr(self, word[2:], True)
            elif word == "@@usage":
                self.usage = tuple(int(n) for n in rest.split())
            elif word == "@@http":
                numbers = [int(n) for n in rest.split()]
                self.http = [*numbers, None, None][:3]

    def fails(self):
        """The status of the error to answer with, if one is due."""
        if not self.http or self.step:
            return None
        code, times, after = self.http
        with LOCK:
            count = FAILED[self.text] = FAILED.get(self.text, 0) + 1
        return (code, after) if times is None or count <= times else None

    def calls(self, offered):
        """The tools to call now, by their full names, and their arguments."""
        done = self.step
        for group in self.tools if offered else []:
            if done < len(group):
                return [(self.full(name, offered), arguments) for name, arguments in group]
            done -= len(group)
        return []

    def calls_left(self, body):
        """Whether tools are still to be called, which never waits."""
        return bool(body.get("tools")) and self.step < sum(len(group) for group in self.tools)

    def call(self, offered):
        """The first of them, for formats in which one is enough."""
        return next(iter(self.calls(offered)), None)

    @staticmethod
    def full(name, offered):
        return name if name in offered else next((o for o in offered if o.endswith(name)), name)

    def answer(self):
        return self.say if self.say is not None else "fake: " + self.text.strip()[:80]

    def pieces(self):
        """The answer in pieces, at the pace that was asked for."""
        text = self.answer()
        size = max(1, len(text) // 4)
        parts = [text[at:at + size] for at in range(0, len(text), size)]
        for at, part in enumerate(parts):
            if self.cut and at == 2:
                raise ConnectionAbortedError
            time.sleep(self.drip / len(parts))
            yield part


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self, **fields):
        if LOG:
            with LOCK:
                LOG.write(json.dumps({"t": round(time.time(), 3), **fields}) + "\n")

    def whole(self, value, code=200, headers=()):
        data = json.dumps(value).encode()
        self.send_response(code)
        for name, text in (("content-type", "application/json"), ("content-length", str(len(data))), *headers):
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)

    def begin(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True

    def event(self, value, name=None):
        text = value if isinstance(value, str) else json.dumps(value)
        self.wfile.write((f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode())
        self.wfile.flush()

    def do_GET(self):
        self.note(m="GET", path=self.path)
        if self.path.split("?")[0].endswith("/models"):
            return self.whole({"object": "list", "data": [{"id": "fake-1", "object": "model", "owned_by": "fake"}]})
        return self.whole({"error": {"message": f"fake: nothing at {self.path}"}}, 404)

    do_HEAD = do_GET

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {}
        path = self.path.split("?")[0]
        script = Script(body)
        keys = {k.lower(): v for k, v in self.headers.items() if k.lower() in ("authorization", "x-api-key", "x-goog-api-key", "user-agent")}
        self.note(m="POST", path=self.path, keys=keys, step=script.step, body=body)
        failure = script.fails()
        if failure:
            code, after = failure
            kind = {401: "authentication_error", 429: "rate_limit_error"}.get(code, "api_error")
            error = {"type": kind, "code": code, "message": f"fake {kind}", "status": kind.upper()}
            return self.whole({"type": "error", "error": error}, code, [("retry-after", str(after))] if after else ())
        time.sleep(script.sleep)
        while script.until and not script.calls_left(body) and not os.path.exists(script.until):
            time.sleep(0.02)
        script.usage = script.usage or (max(1, len(raw) // 4), 7)
        try:
            if path.endswith("/chat/completions"):
                self.as_chat(body, script)
            elif path.endswith("/responses"):
                self.as_responses(body, script)
            elif path.endswith("/messages"):
                self.as_messages(body, script)
            elif path.endswith(("/count_tokens", ":countTokens")):
                self.whole({"input_tokens": len(raw) // 4, "totalTokens": len(raw) // 4})
            elif "GenerateContent" in path or path.endswith(":generateContent"):
                self.as_gemini(body, script, path)
            else:
                self.whole({"error": {"message": f"fake: nothing at {path}"}}, 404)
        except ConnectionAbortedError:
            self.close_connection = True
        except (BrokenPipeError, ConnectionResetError) as error:
            self.note(m="GONE", path=path, error=repr(error))

    def as_chat(self, body, script):
        number = next(SEQ)
        calls = script.calls([t["function"]["name"] for t in body.get("tools") or [] if "function" in t])
        calls = [{"id": f"call_{number}_{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
                 for at, (name, given) in enumerate(calls)]
        usage = {"prompt_tokens": script.usage[0], "completion_tokens": script.usage[1], "total_tokens": sum(script.usage),
                 "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0}}
        reason = "tool_calls" if calls else script.stop or "stop"
        head = {"id": f"chatcmpl-{number}", "created": int(time.time()), "model": body.get("model")}
        if not body.get("stream"):
            message = {"role": "assistant", "content": None if calls else script.answer(), **({"tool_calls": calls} if calls else {})}
            return self.whole({**head, "object": "chat.completion", "usage": usage,
                               "choices": [{"index": 0, "message": message, "finish_reason": reason}]})
        self.begin()
        head["object"] = "chat.completion.chunk"

        def delta(fields, finish=None):
            self.event({**head, "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})

        delta({"role": "assistant", "content": ""})
        if script.think and not calls:
            delta({"reasoning_content": script.think})
        for at, call in enumerate(calls):
            at = 0 if script.zero else at
            if script.whole or script.zero:
                delta({"tool_calls": [{**({} if script.whole else {"index": at}), **call}]})
                continue
            arguments = call["function"]["arguments"]
            delta({"tool_calls": [{"index": at, **call, "function": {**call["function"], "arguments": ""}}]})
            for part in (arguments[:5], arguments[5:]):
                delta({"tool_calls": [{"index": at, "function": {"arguments": part}}]})
        for part in () if calls else script.pieces():
            delta({"content": part})
        delta({}, reason)
        if (body.get("stream_options") or {}).get("include_usage") and not script.nousage:
            self.event({**head, "choices": [], "usage": usage})
        self.event("[DONE]")

    def as_responses(self, body, script):
        number = next(SEQ)
        offered = {}
        for tool in body.get("tools") or []:
            name = tool.get("name") or tool.get("type")
            if tool.get("type") == "namespace":  # as Codex offers the tools of MCP servers
                offered.update({f"{name}__{t['name']}": {"name": t["name"], "namespace": name} for t in tool["tools"]})
            else:
                offered[name] = {"name": name}
        call = script.call(list(offered))
        usage = {"input_tokens": script.usage[0], "output_tokens": script.usage[1], "total_tokens": sum(script.usage),
                 "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        if call:
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}",
                    **offered.get(call[0], {"name": call[0]}), "arguments": json.dumps(call[1]), "status": "completed"}
        else:
            item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": script.answer(), "annotations": []}]}
        done = {"id": f"resp_{number}", "object": "response", "status": "completed", "model": body.get("model"),
                "created_at": int(time.time()), "output": [item], "usage": usage, "error": None, "incomplete_details": None}
        if not body.get("stream"):
            return self.whole(done)
        self.begin()
        order = itertools.count()

        def event(name, **fields):
            self.event({"type": name, "sequence_number": next(order), **fields}, name)

        event("response.created", response={**done, "status": "in_progress", "output": [], "usage": None})
        event("response.output_item.added", output_index=0, item={**item, "status": "in_progress", **({"arguments": ""} if call else {"content": []})})
        if call:
            event("response.function_call_arguments.delta", item_id=item["id"], output_index=0, delta=item["arguments"])
            event("response.function_call_arguments.done", item_id=item["id"], output_index=0, arguments=item["arguments"])
        else:
            event("response.content_part.added", item_id=item["id"], output_index=0, content_index=0, part={"type": "output_text", "text": "", "annotations": []})
            for part in script.pieces():
                event("response.output_text.delta", item_id=item["id"], output_index=0, content_index=0, delta=part)
            event("response.output_text.done", item_id=item["id"], output_index=0, content_index=0, text=script.answer())
            event("response.content_part.done", item_id=item["id"], output_index=0, content_index=0, part=item["content"][0])
        event("response.output_item.done", output_index=0, item=item)
        event("response.completed", response=done)

    def as_messages(self, body, script):
        number = next(SEQ)
        call = script.call([t.get("name", "") for t in body.get("tools") or []])
        usage = {"input_tokens": script.usage[0], "output_tokens": script.usage[1], "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        reason = "tool_use" if call else {"length": "max_tokens", "content_filter": "refusal"}.get(script.stop, "end_turn")
        block = {"type": "tool_use", "id": f"toolu_{number:024}", "name": call[0], "input": call[1]} if call else {"type": "text", "text": script.answer()}
        message = {"id": f"msg_{number:024}", "type": "message", "role": "assistant", "model": body.get("model"), "stop_sequence": None, "usage": usage}
        if not body.get("stream"):
            return self.whole({**message, "content": [block], "stop_reason": reason})
        self.begin()

        def event(name, **fields):
            self.event({"type": name, **fields}, name)

        event("message_start", message={**message, "content": [], "stop_reason": None})
        event("content_block_start", index=0, content_block={**block, "input": {}} if call else {"type": "text", "text": ""})
        if call:
            event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": json.dumps(call[1])})
        else:
            for part in script.pieces():
                event("content_block_delta", index=0, delta={"type": "text_delta", "text": part})
        event("content_block_stop", index=0)
        event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": script.usage[1]})
        event("message_stop")

    def as_gemini(self, body, script, path):
        names = [d["name"] for t in body.get("tools") or [] for d in t.get("functionDeclarations") or []]
        call = script.call(names)
        usage = {"promptTokenCount": script.usage[0], "candidatesTokenCount": script.usage[1], "totalTokenCount": sum(script.usage), "cachedContentTokenCount": 0}
        reason = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}.get(script.stop, "STOP")

        def chunk(part, last):
            candidate = {"index": 0, "content": {"role": "model", "parts": [part]}}
            if last:
                candidate["finishReason"] = reason
            return {"candidates": [candidate], "modelVersion": "fake", "responseId": "r", **({"usageMetadata": usage} if last else {})}

        if "stream" not in path:
            return self.whole(chunk({"text": script.answer()}, True))
        self.begin()
        if call:
            return self.event(chunk({"functionCall": {"name": call[0], "args": call[1]}}, True))
        for part in script.pieces():
            self.event(chunk({"text": part}, False))
        self.event(chunk({"text": ""}, True))


if __name__ == "__main__":
    LOG = open(sys.argv[2], "a", buffering=1) if len(sys.argv) > 2 else None
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()
