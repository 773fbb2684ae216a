#!/usr/bin/env python3
"""An agent that answers `echo: <text>`: the wire contract in another language, with ways to die in the middle of it.

It was written from container/wire/README.md and the fixtures beside it, so that a host that works with it relies on
nothing but the contract. It is started like the runner (HEARTH_ROOTS, HEARTH_INCARNATION; arguments are ignored).

Tests steer it with variables, or with a file `agent-test.json` in the group directory (an object with the same names
and strings as values), which takes precedence:

  HEARTH_TEST_EFFECTS   file that gets one line of JSON per turn at the moment the turn is worked on: what the outside
                        world would see of it ({"incarnation": 1, "seqs": [2, 4], "step": "working"})
  HEARTH_TEST_DIE_AT    step after which it kills itself, see STEPS
  HEARTH_TEST_DIE_ONCE  marker file, made before it dies; while it is there nobody dies any more

A message may ask for more than an echo, by its first word:

  !ask JSON        asks the host for what the JSON says, waits, and answers with what the host says
  !to NAME TEXT    says TEXT to the destination NAME instead of answering

Two steps need something to happen: to die at `said-now` means that it says `one moment` at once in every turn, and at
`answer-file` that every answer carries a file `answer.txt`, also after the death. Relative paths are relative to the
group directory. Exit codes: 0 another incarnation works or the host is gone, 1 something broke, 2 wrong start.
"""

import itertools
import json
import os
import re
import signal
import stat
import sys
import threading
import time
from datetime import datetime, timezone

VERSION = 1
# A context with rules about tool calls has version 2; this agent calls no tools.
KNOWN = 2
JSON_BYTES = 1024 * 1024
ENDS = 1000
POLL_SECONDS = 0.02
BEAT_SECONDS = 5
LIFE_FD = 3
STEPS = (
    "started",        # the context was read and names this incarnation
    "beaten",         # the first heartbeat is written
    "listed",         # there is something to do, nothing of it is claimed
    "claimed-first",  # the first of the turn's messages is claimed
    "claimed-all",    # all of them are
    "working",        # the side effect happened
    "said-now",       # something was said with `final: false`
    "answer-file",    # the answer's file is there, the answer is not
    "answer-written", # the answer is there, no ack names it
    "ack-temp",       # the end is written under its temporary name
    "ack-written",    # the turn has ended
)
SAID_NOW = "one moment"
MEMORY = "agent.py"


class Unusable(Exception):
    """A file of the host that can never be read: damaged, too large or too new."""


def note(text):
    """One line in the agent's log."""
    sys.stderr.write("agent.py: %s\n" % text)
    sys.stderr.flush()


def now():
    """ISO 8601, UTC, milliseconds."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def read_json(path):
    """An object of the contract. FileNotFoundError if it is not there, Unusable if it never will be readable."""
    with open(path, "rb") as file:
        data = file.read(JSON_BYTES + 1)
    if len(data) > JSON_BYTES:
        raise Unusable("%s has more than %d bytes" % (path, JSON_BYTES))
    try:
        value = json.loads(data.decode("utf-8"))
    except ValueError as error:
        raise Unusable("%s is not JSON: %s" % (path, error)) from None
    if not isinstance(value, dict) or not is_number(value.get("v")):
        raise Unusable("%s is not an object with a version" % path)
    if value["v"] > KNOWN:
        raise Unusable("%s has version %d, this agent knows %d" % (path, value["v"], KNOWN))
    return value


def is_number(value):
    """A natural number of JSON; `true` is none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def sync_dir(path):
    """Makes the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Tester:
    """What a test asked for: side effects it counts, and a death."""

    def __init__(self, group, environ):
        asked = {name: environ[name] for name in environ if name.startswith("HEARTH_TEST_")}
        try:
            with open(os.path.join(group, "agent-test.json"), encoding="utf-8") as file:
                asked.update(json.load(file))
        except FileNotFoundError:
            pass
        place = lambda name: os.path.join(group, asked[name]) if asked.get(name) else None
        self.effects = place("HEARTH_TEST_EFFECTS")
        self.marker = place("HEARTH_TEST_DIE_ONCE")
        self.die_at = asked.get("HEARTH_TEST_DIE_AT") or None
        if self.die_at is not None and self.die_at not in STEPS:
            raise ValueError("HEARTH_TEST_DIE_AT is %r, it must be one of %s" % (self.die_at, ", ".join(STEPS)))

    def effect(self, line):
        """Does something that cannot be taken back."""
        if self.effects is None:
            return
        fd = os.open(self.effects, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            data = (json.dumps(line) + "\n").encode()
            if os.write(fd, data) != len(data):
                raise OSError("only a part of an effect could be written to %s" % self.effects)
            os.fsync(fd)
        finally:
            os.close(fd)

    def reached(self, step):
        """Dies if this is the step to die at and nobody died there before."""
        if step != self.die_at:
            return
        if self.marker is not None:
            try:
                fd = os.open(self.marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            except FileExistsError:
                return
            os.fsync(fd)
            os.close(fd)
            sync_dir(os.path.dirname(self.marker))
        os.kill(os.getpid(), signal.SIGKILL)


class AgentHalf:
    """`agent/`: every file is written under a temporary name, synced and renamed."""

    def __init__(self, session, tester):
        self.dir = os.path.join(session, "agent")
        self.acks = os.path.join(self.dir, "ack")
        self.outs = os.path.join(self.dir, "out")
        self.files = os.path.join(self.outs, "files")
        self.tester = tester
        self.counter = itertools.count()
        self.known_acks = {}

    def sweep(self):
        """Removes the temporary files of those who were killed."""
        dirs = [self.dir, self.acks, self.outs] + [os.path.join(self.files, name) for name in os.listdir(self.files)]
        for directory in filter(os.path.isdir, dirs):
            for name in os.listdir(directory):
                if name.startswith(".tmp-"):
                    os.unlink(os.path.join(directory, name))

    def write(self, directory, name, data, before_rename=None):
        """The one way in which files come to be."""
        temporary = os.path.join(directory, ".tmp-%x-%x-%s" % (os.getpid(), next(self.counter), name))
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if before_rename is not None:
            self.tester.reached(before_rename)
        os.rename(temporary, os.path.join(directory, name))
        sync_dir(directory)

    def replace(self, name, value):
        """Writes one of the files that may change."""
        self.write(self.dir, name, json.dumps(value).encode())

    def last(self, name):
        """One of the files that may change, as it was left; empty if it can be begun anew."""
        try:
            return read_json(os.path.join(self.dir, name))
        except (OSError, Unusable):
            return {}

    def ended(self):
        """Messages that have ended, by the acks that lie there. An ack never changes, so each is read once."""
        found = {}
        for name in os.listdir(self.acks):
            parts = re.fullmatch(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(completed|failed)\.json", name)
            if parts:
                found[name] = self.known_acks.get(name) or self.ended_by(name, int(parts.group(1)))
        self.known_acks = found
        return set().union(*found.values())

    def ended_by(self, name, seq):
        """The message in the ack's name and those in its `ends`."""
        try:
            ends = read_json(os.path.join(self.acks, name)).get("ends", [])
        except FileNotFoundError:
            ends = []  # The host removed the messages before it.
        except Unusable as error:
            note("an ack ends only the message in its name: %s" % error)
            ends = []
        return {seq, *ends}

    def highest_number(self):
        """The highest number among the messages that still lie there."""
        highest = 0
        for name in os.listdir(self.outs):
            if name.endswith(".json") and not name.startswith("."):
                try:
                    highest = max(highest, read_json(os.path.join(self.outs, name)).get("number", 0))
                except (FileNotFoundError, Unusable):
                    pass
        return highest


class Agent:
    """One incarnation."""

    def __init__(self, roots, incarnation, tester):
        self.host = os.path.join(roots["session"], "host")
        self.incarnation = incarnation
        self.tester = tester
        self.agent = AgentHalf(roots["session"], tester)
        self.messages = {}
        self.finished = set()
        self.stamp = None
        self.context = None
        self.progress = 0
        self.next_number = 1

    # -- the right to work

    def check(self):
        """Reads the context if it changed; goes if it names another incarnation. Comes before everything that counts."""
        path = os.path.join(self.host, "context.json")
        status = os.stat(path)
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        if stamp != self.stamp:
            context = read_json(path)
            if context["incarnation"] != self.incarnation:
                note("incarnation %d is over, %d may work" % (self.incarnation, context["incarnation"]))
                os._exit(0)
            self.stamp, self.context = stamp, context
        return self.context

    def beat_on(self, beat):
        """The heartbeat's thread."""
        while True:
            time.sleep(BEAT_SECONDS)
            beat += 1
            try:
                self.check()
                self.beat(beat)
            except (OSError, Unusable) as error:
                note("no heartbeat: %s" % error)

    def beat(self, beat):
        """One heartbeat."""
        self.agent.replace("heartbeat", {"v": VERSION, "incarnation": self.incarnation, "beat": beat})

    # -- the loop

    def run(self):
        """Works until something ends it."""
        context = self.check()
        self.agent.sweep()
        self.tester.reached("started")
        beat = self.mine("heartbeat").get("beat", 0) + 1
        self.beat(beat)
        self.tester.reached("beaten")
        threading.Thread(target=self.beat_on, args=(beat,), daemon=True).start()
        self.progress = self.mine("state.json").get("progress", 0)
        self.number_from(context["next_number"], self.agent.highest_number() + 1, self.remembered_number())
        while True:
            self.check()
            turn = self.look()
            if turn:
                self.tester.reached("listed")
                self.turn(turn)
            else:
                time.sleep(POLL_SECONDS)

    def mine(self, name):
        """What an earlier start of the same incarnation wrote."""
        last = self.agent.last(name)
        return last if last.get("incarnation") == self.incarnation else {}

    def look(self):
        """The messages of the next turn; none if nothing asks for one. The acks are listed before the messages."""
        ended = self.agent.ended()
        directory = os.path.join(self.host, "in")
        names = [name for name in os.listdir(directory) if re.fullmatch(r"[0-9]{16}\.json", name)]
        names = {int(name[:16]): name for name in names}
        self.finished &= names.keys()
        waiting = sorted(names.keys() - ended - self.finished)
        self.number_from(max(names, default=0) + 1)
        self.messages = {seq: self.messages.get(seq) for seq in waiting}
        for seq in waiting:
            if self.messages[seq] is None:
                self.messages[seq] = self.read_message(directory, names[seq], seq)
        there = [self.messages[seq] for seq in waiting if self.messages[seq] is not None]
        broken = [message for message in there if "broken" in message]
        if broken:
            return broken[:1]
        asking = [place for place, message in enumerate(there) if message["trigger"]]
        if not asking:
            return []
        too_old = asking[0] - ENDS
        return there[: min(too_old, ENDS + 1)] if too_old > 0 else there[: ENDS + 1]

    def read_message(self, directory, name, seq):
        """A message, or None if it is gone; one that can never be read is a turn of its own, which fails."""
        try:
            message = read_json(os.path.join(directory, name))
            if message.get("seq") != seq or not isinstance(message.get("content"), dict):
                raise Unusable("%s is not the message %d" % (name, seq))
        except FileNotFoundError:
            return None
        except Unusable as error:
            return {"seq": seq, "broken": str(error)}
        return {**message, "trigger": message.get("trigger") is True}

    # -- a turn

    def turn(self, messages):
        """Claims, works, answers, ends."""
        seqs = [message["seq"] for message in messages]
        for seq in seqs:
            self.ack(seq, "processing")
            if seq == seqs[0]:
                self.tester.reached("claimed-first")
        self.tester.reached("claimed-all")
        asked = [message for message in messages if message.get("trigger")]
        end = self.work(seqs, asked) if asked else {}
        if "broken" in messages[0]:
            end["error"] = messages[0]["broken"]
        if len(seqs) > 1:
            end["ends"] = seqs[:-1]
        self.ack(seqs[-1], "failed" if "error" in end else "completed", **end)
        self.finished.update(seqs)
        self.tester.reached("ack-written")

    def work(self, seqs, asked):
        """Has the effect, and answers; what the ack says about it."""
        context = self.check()
        self.number_from(context["next_number"])
        self.moved()
        self.tester.effect({"incarnation": self.incarnation, "seqs": seqs, "step": "working"})
        self.tester.reached("working")
        last = asked[-1]["seq"]
        sent = [said for said in context.get("already_sent", []) if said.get("in_reply_to") in seqs]
        if self.tester.die_at == "said-now" and not any(said["text"] == SAID_NOW for said in sent):
            self.say(self.message(last, SAID_NOW, False))
            self.tester.reached("said-now")
        texts = [message["content"].get("text") for message in asked]
        words = "\n".join(text for text in texts if isinstance(text, str))
        answer = self.message(last, "echo: " + words, True)
        if words.startswith("!ask "):
            answer["content"]["text"] = self.ask(last, json.loads(words[len("!ask "):]))
        elif words.startswith("!to "):
            _, answer["destination"], answer["content"]["text"] = words.split(" ", 2)
        if len(json.dumps(answer).encode()) > min(JSON_BYTES, context["limits"]["max_json_bytes"]) - 64:
            return {"error": "the answer would be larger than a file may be"}
        if self.tester.die_at == "answer-file":
            self.attach(answer, "answer.txt", answer["content"]["text"].encode())
            self.tester.reached("answer-file")
        self.say(answer)
        self.tester.reached("answer-written")
        self.moved()
        return {"out": [answer["id"]]}

    def message(self, seq, text, final):
        """Something to say about the message `seq`, with an identity of its own."""
        number = self.take_number()
        return {
            "v": VERSION,
            "id": "py-%d-%d" % (self.incarnation, number),
            "incarnation": self.incarnation,
            "number": number,
            "final": final,
            "in_reply_to": seq,
            "kind": "chat",
            "content": {"text": text},
        }

    def ask(self, seq, content):
        """Asks the host for something, and waits for what it says."""
        request = {**self.message(seq, "", False), "kind": "system", "content": content}
        request["request_id"] = "rq-" + request["id"]
        self.say(request)
        path = os.path.join(self.host, "reply", request["request_id"] + ".json")
        while True:
            self.moved()
            try:
                reply = read_json(path)
            except FileNotFoundError:
                time.sleep(POLL_SECONDS)
                continue
            if reply["request_id"] != request["request_id"]:
                raise Unusable("%s is the answer to something else" % path)
            return json.dumps(reply["result"], sort_keys=True) if reply["ok"] else reply["error"]

    def attach(self, message, name, data):
        """Writes a file of a message that is not written yet."""
        self.check()
        directory = os.path.join(self.agent.files, message["id"])
        os.mkdir(directory)
        sync_dir(self.agent.files)
        self.agent.write(directory, name, data)
        message["files"] = [name]

    def say(self, message):
        """Writes something to say."""
        self.check()
        self.agent.write(self.agent.outs, message["id"] + ".json", json.dumps(message).encode())

    def ack(self, seq, status, **more):
        """Writes an ack; one that is there says the same and never changes."""
        self.check()
        name = "%d.%d.%s.json" % (seq, self.incarnation, status)
        if os.path.exists(os.path.join(self.agent.acks, name)):
            return
        ack = {"v": VERSION, "seq": seq, "incarnation": self.incarnation, "status": status, "at": now(), **more}
        step = None if status == "processing" else "ack-temp"
        self.agent.write(self.agent.acks, name, json.dumps(ack).encode(), step)

    def moved(self):
        """Shows that the work goes on."""
        self.progress += 1
        state = {"v": VERSION, "incarnation": self.incarnation, "progress": self.progress, "last_progress": now()}
        self.agent.replace("state.json", state)

    # -- numbers: odd, above every one used and every sequence number seen

    def number_from(self, *least):
        """The next number is none below these."""
        self.next_number = max(self.next_number, *least) | 1

    def take_number(self):
        """A number nobody had. That it is used is written first, since the host deletes what used it."""
        number = self.next_number
        self.next_number += 2
        kept = self.agent.last("session.json").get("continuations", {})
        kept = {**kept, MEMORY: "%d %d" % (self.incarnation, self.next_number)}
        self.agent.replace("session.json", {"v": VERSION, "incarnation": self.incarnation, "continuations": kept})
        return number

    def remembered_number(self):
        """The next number of an earlier start of the same incarnation; the context knows those of the others."""
        words = self.agent.last("session.json").get("continuations", {}).get(MEMORY, "").split()
        return int(words[1]) if len(words) == 2 and words[0] == str(self.incarnation) else 1


def go_with_the_host():
    """Ends the process when the life pipe does, or the host asks for it, whatever it is doing."""
    try:
        os.read(LIFE_FD, 1)
    except OSError as error:
        note("the life pipe cannot be read: %s" % error)
    os._exit(0)


def has_life_pipe():
    """Whether the host gave one; by hand it is started without."""
    try:
        return stat.S_ISFIFO(os.fstat(LIFE_FD).st_mode)
    except OSError:
        return False


def main():
    """Returns the exit code of what cannot be begun or gone on with."""
    if has_life_pipe():
        threading.Thread(target=go_with_the_host, daemon=True).start()
    roots = {"session": "/workspace/session", "group": "/workspace/group", "home": "/home/node"}
    try:
        roots.update(json.loads(os.environ.get("HEARTH_ROOTS", "{}")))
        incarnation = int(os.environ["HEARTH_INCARNATION"])
        agent = Agent(roots, incarnation, Tester(roots["group"], os.environ))
        agent.check()
    except (KeyError, ValueError, TypeError, OSError, Unusable) as error:
        note("cannot start: %s: %s" % (type(error).__name__, error))
        return 2
    try:
        agent.run()
    except (OSError, Unusable) as error:
        note("cannot go on: %s" % error)
    return 1


if __name__ == "__main__":
    sys.exit(main())
