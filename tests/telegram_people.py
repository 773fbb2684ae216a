#!/usr/bin/env python3
"""People on the fake Telegram of the tests (`tests/it/host/fake_telegram.rs`), whose port is in TELEGRAM_PEOPLE.

`say TEXT`: Ann writes to the bot. `heard`: everything that the bot sent to her, as she sees it."""
import html, json, os, re, socket, sys

def ask(asked):
    body = json.dumps(asked).encode()
    with socket.create_connection(("127.0.0.1", int(os.environ["TELEGRAM_PEOPLE"]))) as line:
        line.sendall(b"POST /people HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        answer = line.makefile("rb")
        length = 0
        while (header := answer.readline().strip()):
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        return json.loads(answer.read(length))

def seen(message):
    text = message.get("text") or message.get("caption") or ""
    if message.get("parse_mode") == "HTML":
        text = html.unescape(re.sub(r"<[^>]*>", "", text))
    rows = (message.get("reply_markup") or {}).get("inline_keyboard", [])
    return "\n".join([text] + ["[%s]" % button["text"] for row in rows for button in row])

if sys.argv[1] == "say":
    ask({"say": sys.argv[2]})
else:
    print("\n".join(seen(message) for message in ask({})))
