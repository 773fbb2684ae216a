"""Measures one program: size, start, memory, and what becomes of messages when it is stopped or killed."""

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from world import World

SPAN, GAP = 8, 2  # seconds within which a program is killed, and between messages until then
THINKING, CONFIRMING = 0.5, 0.2  # seconds of the model, and of Telegram for a sent message, while programs are killed
WAITING = 3  # messages that arrive while the program is stopped
UNDISTURBED = 10  # messages without a kill, for comparison
QUIET = 60  # seconds without an answer after which no more is expected
RECOVERY = 30  # the same after a kill, before the next one
SEED = 1
MARKED = ("sent again", "may be a duplicate")  # how Hearth and Hermes mark an answer that they send again


def descendants(pid):
    """A process and all that it started, as far as they still belong to it."""
    children = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for process in found:
        found.extend(children.get(process, []))
    return found


def resident(pid):
    """Bytes of memory of a process and its children; pages that processes share are counted once, in shares."""
    total = 0
    for process in descendants(pid):
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def processor_time(pid):
    """Seconds that a process and its children, also those that ended, have used of processors."""
    ticks = 0
    for process in descendants(pid):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def kill(child):
    """kill -9, of the program first and then of everything that it started."""
    for process in descendants(child.pid):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass
    child.wait()


def stop(child):
    """Ends a program as a service manager does."""
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(60)
    except subprocess.TimeoutExpired:
        kill(child)


def size(paths):
    """Bytes and number of files; a file with several names counts once."""
    seen = {}
    for top in paths:
        for path in [top] if top.is_file() else top.rglob("*"):
            status = path.lstat()
            if path.is_file() and not path.is_symlink():
                seen[status.st_dev, status.st_ino] = status.st_size
    return sum(seen.values()), len(seen)


PARTS = ["files", "starts", "memory", "stopped", "undisturbed", "kills"]  # methods of `Measurement`, in this order


class Measurement:
    def __init__(self, program, options):
        self.program, self.options = program, options
        self.world = World()
        self.telegram = self.world.telegram
        self.sent = self.obeyed = 0

    def say(self, text):
        print(f"{self.program.name}: {text}", file=sys.stderr, flush=True)

    def obey(self):
        """If the program said that the person has to begin a new conversation, the person does."""
        asked = sum(self.program.asks in text for text in self.telegram.notices()) if self.program.asks else 0
        if asked > self.obeyed:
            self.telegram.writes(self.program.begins)
        self.obeyed = asked

    def write(self):
        self.obey()
        self.sent += 1
        self.telegram.writes(f"Please answer probe{self.sent}")
        return f"probe{self.sent}"

    def listening(self):
        """Starts it; returns it and the seconds until it asked Telegram for messages."""
        polls, begun = self.telegram.polls, time.monotonic()
        child = self.program.start()
        if not self.telegram.wait(lambda: self.telegram.polls > polls, self.program.settle):
            kill(child)
            raise RuntimeError(f"it did not listen within {self.program.settle} s: see {self.program.home}/output.log")
        return child, time.monotonic() - begun

    def answered(self, markers, timeout):
        """Waits until each marker is answered, or nothing was for `timeout`; returns how many are."""
        def count():
            answers = self.telegram.answers()
            return sum(marker in answers for marker in markers)
        before = -1
        while before < (now := count()) < len(markers):
            before = now
            self.telegram.wait(lambda: count() > before, timeout)
        return now

    def one_start(self):
        begun = time.monotonic()
        child, listens = self.listening()
        worked = processor_time(child.pid)
        answered = self.answered([self.write()], QUIET)
        answer = time.monotonic() - begun
        stop(child)
        if not answered:
            raise RuntimeError(f"it did not answer within {QUIET} s: see {self.program.home}/output.log")
        return listens, answer, worked

    def starts(self):
        load = os.getloadavg()[0]
        taken = [self.one_start() for _ in range(self.options.starts)]
        listens, answers, worked = (statistics.median(values) for values in zip(*taken))
        self.say(f"listens after {listens:.2f} s ({worked:.2f} s of processor time), answers after {answers:.2f} s")
        return {"load": round(load, 1), "listens_s": round(listens, 3), "answers_s": round(answers, 3),
                "listens_cpu_s": round(worked, 2)}

    def memory(self):
        child, _ = self.listening()
        time.sleep(self.options.settle)
        idle = resident(child.pid)
        for _ in range(5):
            self.answered([self.write()], QUIET)
        busy = resident(child.pid)
        stop(child)
        self.say(f"memory {idle / 1e6:.1f} MB, after messages {busy / 1e6:.1f} MB")
        return {"idle_bytes": idle, "busy_bytes": busy}

    def stopped(self):
        markers = [self.write() for _ in range(WAITING)]
        child, _ = self.listening()
        answered = self.answered(markers, QUIET)
        stop(child)
        self.say(f"{answered} of {WAITING} messages that waited are answered")
        return {"waiting": WAITING, "waiting_answered": answered}

    def undisturbed(self):
        """The same messages as below, without a kill: what is unanswered here is no matter of crashes."""
        child, _ = self.listening()
        markers = []
        for _ in range(UNDISTURBED):
            markers.append(self.write())
            time.sleep(GAP)
        answered = self.answered(markers, QUIET)
        stop(child)
        self.say(f"{answered} of {UNDISTURBED} messages are answered without a kill")
        return {"undisturbed": UNDISTURBED, "undisturbed_answered": answered}

    def kills(self):
        """Kills it at a random moment while messages arrive, and starts it again; once it has recovered, the next time."""
        chance, markers = random.Random(SEED), []
        child, _ = self.listening()
        for _ in range(self.options.kills):
            begun, end, latest = time.monotonic(), chance.uniform(0, SPAN), []
            for moment in range(0, SPAN, GAP):
                if moment <= end:
                    time.sleep(max(0, begun + moment - time.monotonic()))
                    latest.append(self.write())
            time.sleep(max(0, begun + end - time.monotonic()))
            kill(child)
            self.program.killed()
            child, _ = self.listening()
            self.answered(latest, RECOVERY)
            markers += latest
        self.obey()
        self.answered(markers, QUIET)
        stop(child)
        lost = [marker for marker in markers if marker not in self.telegram.answers()]
        repeats = self.telegram.repeats()
        self.say(f"{self.options.kills} kills, {len(markers)} messages, lost {lost}, repeats {repeats}")
        return {"kills": self.options.kills, "sent": len(markers), "lost": len(lost), "repeats": len(repeats),
                "repeats_marked": sum(any(word in text for word in MARKED) for text in repeats)}

    def files(self):
        total, count = size(self.program.files())
        return {"installed_bytes": total, "installed_files": count}

    def figures(self):
        found = {"name": self.program.name, "version": self.program.version, "needs": self.program.needs}
        self.program.prepare(self.world)
        self.one_start()  # sets things up
        for part in self.options.part or PARTS:
            timed = part in ("undisturbed", "kills")
            self.world.thinking, self.telegram.delay = (THINKING, CONFIRMING) if timed else (0, 0)
            found |= getattr(self, part)()
        for notice in dict.fromkeys(self.telegram.notices()):
            self.say(f"also sent: {notice[:200]!r}")
        if self.telegram.refused:
            self.say(f"called methods that the stand-in for Telegram does not know: {sorted(self.telegram.refused)}")
        return found
