"""Tries what the measurements rely on: the stand-ins, the counting, and the page."""

import json
import tempfile
import threading
import urllib.request
from pathlib import Path

import measure
import page
from world import TOKEN, World


def ask(world, path, **given):
    request = urllib.request.Request(world.url + path, json.dumps(given).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def bot(world, method, **given):
    return json.loads(ask(world, f"/bot{TOKEN}/{method}", **given))["result"]


def same(found, expected):
    if found != expected:
        raise AssertionError(f"{found!r} is not {expected!r}")


def updates_stay_until_they_are_confirmed():
    world = World()
    world.telegram.writes("probe1")
    first = bot(world, "getUpdates", offset=0, timeout=0)
    same(bot(world, "getUpdates", offset=0, timeout=0), first)
    same(bot(world, "getUpdates", offset=first[0]["update_id"] + 1, timeout=0), [])
    world.telegram.writes("probe2")
    bot(world, "deleteWebhook", drop_pending_updates=True)
    same(bot(world, "getUpdates", offset=0, timeout=0), [])


def a_poll_waits_for_a_message():
    world = World()
    threading.Timer(0.05, world.telegram.writes, ["probe1"]).start()
    same([update["message"]["text"] for update in bot(world, "getUpdates", offset=0, timeout=10)], ["probe1"])


def the_model_answers_what_was_not_answered():
    world = World()
    said = [{"role": "user", "content": "probe1"}, {"role": "assistant", "content": "answer to probe1"},
            {"role": "user", "content": [{"type": "text", "text": "probe2"}]}, {"role": "user", "content": "probe3"}]
    whole = json.loads(ask(world, "/v1/chat/completions", messages=said))
    same(whole["choices"][0]["message"]["content"], "answer to probe2, probe3")
    stream = ask(world, "/v1/chat/completions", messages=said, stream=True)
    same(("answer to probe2, probe3" in stream, stream.endswith("data: [DONE]\n\n")), (True, True))


def answers_and_repeats_are_counted():
    world = World()
    for text in ["answer to probe1, probe2", "one moment", "sent again: answer to probe2", "answer to probe2, probe3"]:
        bot(world, "sendMessage", chat_id=1, text=text)
    same(world.telegram.answers(), {"probe1": 1, "probe2": 3, "probe3": 1})
    same(world.telegram.repeats(), ["sent again: answer to probe2"])
    same(world.telegram.notices(), ["one moment"])


def files_are_counted_once():
    with tempfile.TemporaryDirectory() as place:
        top = Path(place)
        (top / "one").write_bytes(b"12345")
        (top / "two").hardlink_to(top / "one")
        (top / "link").symlink_to(top / "one")
        same(measure.size([top]), (5, 1))


def the_page_is_read_as_it_was_written():
    program = {"name": "A", "version": "1", "needs": "", "installed_bytes": 1, "installed_files": 1, "load": 0.5, "listens_s": 1,
               "listens_cpu_s": 0.5,
               "answers_s": 2, "idle_bytes": 1, "busy_bytes": 2, "waiting": 3, "waiting_answered": 3, "undisturbed": 1, "undisturbed_answered": 1, "kills": 1, "sent": 2,
               "lost": 0, "repeats": 1, "repeats_marked": 1}
    found = {"machine": page.machine(), "programs": [program], "missing": [{"name": "B", "why": "a --> b"}]}
    empty = f"before\n{page.BEGIN}\n{page.END}\nafter\n"
    full = page.replaced(empty, found)
    page.check(full)
    same((full.startswith("before\n"), full.endswith("\nafter\n"), page.read(empty)), (True, True, None))
    both = page.merged(page.read(full), dict(found, programs=[dict(program, name="B")], missing=[]), ["A", "B"])
    same(([entry["name"] for entry in both["programs"]], both["missing"]), (["A", "B"], []))
    again = page.merged(found, dict(found, programs=[{"name": "A", "version": "1", "lost": 7}], missing=[]), ["A", "B"])
    same((again["programs"][0]["lost"], again["programs"][0]["sent"], again["missing"]), (7, 2, found["missing"]))
    same("| load average of the machine before its starts | not measured |" in page.table(
        dict(found, programs=[{key: program[key] for key in program if key != "load"}])), True)
    for broken in [empty, "no marks", full.replace("| 3 of 3 |", "| 4 of 3 |"), full + page.END]:
        try:
            page.check(broken)
        except page.Unusable:
            continue
        raise AssertionError(f"accepted: {broken}")


def run():
    for check in [updates_stay_until_they_are_confirmed, a_poll_waits_for_a_message, the_model_answers_what_was_not_answered,
                  answers_and_repeats_are_counted, files_are_counted_once, the_page_is_read_as_it_was_written]:
        check()
