#!/usr/bin/env python3
"""People on the fake Telegram of the tests (`tests/it/host/fake_telegram.rs`), whose port is in TELEGRAM_PEOPLE.

What they do is asked for by the words of `people.py`."""
import html, json, os, re, socket, time
from people import DEEP, content, got, play, spread

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

def message(text, chat=123, person=9, **more):
    """A direct chat has the number of its order; a group has a negative one."""
    place = {"id": chat, "type": "private", "first_name": "Ann"} if chat > 0 else {"id": chat, "type": "supergroup", "title": "All"}
    who = {"id": person, "is_bot": False, "first_name": "Ann"}
    return {"message": dict({"date": 1_700_000_000, "text": text, "from": who, "chat": place}, **more)}

def write(text, chat=123, person=9, **more):
    ask({"updates": [message(text, chat, person, **more)]})

def mention(text, chat=-100, **more):
    write("@hearth_bot " + text, chat, entities=[{"type": "mention", "offset": 0, "length": 11}], **more)

def bring(name, path, text, size=None, kept=True):
    data = content(path).hex()
    file = {"id": "f" + name, "path": "documents/file_%d" % time.time_ns(), "hex": data}
    document = {"file_id": file["id"], "file_unique_id": "u", "file_name": name, "file_size": size or len(data) // 2}
    told = message(text, document=document, caption=text)
    del told["message"]["text"]
    ask({"files": [file] if kept else [], "updates": [told]})

def changed(text, **more):
    ask({"updates": [{"edited_message": dict(ask({})["last"], text=text, edit_date=1_700_000_001, **more)}]})

def fault(status=None, **more):
    ask({"faults": [dict({"method": "sendMessage", "status": status}, **more)]})

def gone():
    fault(400, more={})
    return "-300"

def thrown():
    fault(403, more={})
    return "-400"

def reply(text):
    told = {"message_id": 1, "date": 1, "text": "x", "from": {"id": 4242, "is_bot": True, "first_name": "Hearth", "username": "hearth_bot"}, "chat": {"id": -100, "type": "supergroup", "title": "All"}}
    write(text, -100, reply_to_message=told)

def press(label, person=9):
    found = [(shown["message_id"], button) for shown in ask({})["shown"] for row in (shown.get("reply_markup") or {}).get("inline_keyboard", []) for button in row if button["text"] == label][-1]
    place = message("x")["message"]
    ask({"updates": [{"callback_query": {"id": "1", "from": dict(place["from"], id=person), "data": found[1]["callback_data"], "chat_instance": "1", "message": dict(place, message_id=found[0])}}]})

ELSEWHERE = "files are at the address of the server"
play({
    "say": lambda *texts: ask({"updates": [message(text) for text in texts]}) and None,
    "heard": lambda: "\n".join(seen(message) for message in ask({})["shown"]),
    "burst": lambda *texts: spread(texts, [(123, 9), (124, 10), (125, 11), (-100, 9)], lambda text, at: mention(text) if at[0] < 0 else write(text, *at)),
    "stranger": lambda text: write(text, 124, 10),
    "forge": lambda text: write(text, 124, 10, senderId="9"),
    "bot": lambda text: ask({"updates": [message(text, **{"from": {"id": 4242, "is_bot": True, "first_name": "Hearth", "username": "hearth_bot"}})]}) and None,
    "repeat": lambda: ask({"again": {}}) and None,
    "edit": changed,
    "meddle": lambda text: changed(text, **{"from": {"id": 10, "is_bot": False, "first_name": "Ann"}}),
    "react": lambda text: ask({"updates": [{"message_reaction": {"chat": {"id": 123, "type": "private"}, "message_id": 1, "date": 1, "old_reaction": [], "new_reaction": [{"type": "emoji", "emoji": "👍"}]}}]}) and None,
    "mention": mention,
    "named": lambda text: write("hearth, " + text, -100),
    "everyone": lambda text: write("@all " + text, -100),
    "reply": reply,
    "where": lambda: "-100",
    "bring": bring,
    "unwanted": bring,
    "large": lambda name, path, text: bring(name, "/dev/null", text, size=100 << 20),
    "vanish": lambda name, path, text: bring("gone" + name, path, text, kept=False),
    "files": lambda: got(ask({})["files"]),
    "cut": fault,
    "limit": lambda seconds="": fault(429, more={"retry_after": int(seconds)} if seconds else {}),
    "html": lambda: fault(502, body="<html>Bad Gateway</html>"),
    "empty": lambda: fault(200, body=""),
    "deep": lambda: fault(200, body=DEEP),
    "pings": lambda: "",
    "previews": lambda: "\n".join(said["text"] for said in ask({})["said"] if "://" in said["text"] and not (said.get("link_preview_options") or {}).get("is_disabled")),
    "press": press,
    "press-other": lambda label: press(label, person=10),
    "press-late": lambda label: [ask({"faults": [{"method": "answerCallbackQuery", "status": 400, "more": {}}]}), press(label)] and None,
    "thread": lambda text: mention(text, message_thread_id=7, is_topic_message=True),
    "threaded": lambda: "\n".join(said["text"] for said in ask({})["said"] if said.get("message_thread_id")),
    "rename": lambda: write("", -100, new_chat_title="Renamed"),
    "gone": gone,
    "thrown": thrown,
    "invite": lambda text: mention(text, -200, person=10),
    "trip": lambda: ask({"faults": [{"method": "sendMessage", "none": True}, {"method": "sendMessage", "status": 429, "more": {"retry_after": 1}}]}) and None,
    "reactions": lambda: "\n".join({(one["chat_id"], one["message_id"]): "👍" for one in ask({})["reactions"] if one["message_id"] != 999999}.values()),
    "second": lambda: ask({"faults": [{"method": "getUpdates", "status": 409, "more": {}}] * 3}) and None,
}, {"delete": "the Bot API tells of no deletions", "elsewhere": ELSEWHERE, "huge": "the stand-in answers small", "half": "each question has an end",
    "requests": "the stand-in does not count"})
