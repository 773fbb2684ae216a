"""The generated part of the page: the figures as JSON in a comment, and the table made of them."""

import json
import os
import platform
from pathlib import Path

BEGIN = "<!-- Everything from here to the end mark is written by tools/compare/compare.py --write. -->"
END = "<!-- End of what tools/compare/compare.py writes. -->"
FIGURES = "<!-- figures\n"


class Unusable(Exception):
    """The page or its figures cannot be used; says why."""


def machine():
    """What the figures depend on, without names and dates."""
    def line(path, key):
        found = [text.split(":", 1)[1].strip() for text in Path(path).read_text().splitlines() if text.startswith(key)]
        return found[0] if found else "unknown"
    return {"processors": os.cpu_count(), "processor": line("/proc/cpuinfo", "model name"),
            "memory_gib": round(int(line("/proc/meminfo", "MemTotal").split()[0]) / 2**20),
            "kernel": platform.release(), "architecture": platform.machine(), "python": platform.python_version()}


def megabytes(count):
    return f"{count / 1e6:.0f} MB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def seconds(value):
    return f"{value:.1f} s" if value >= 1 else f"{value:.2f} s"


ROWS = [
    ("version", lambda p: p["version"]),
    ("installed files", lambda p: f"{megabytes(p['installed_bytes'])}, {p['installed_files']:,} "
                                  + ("file" if p["installed_files"] == 1 else "files")),
    ("also needs", lambda p: p["needs"] or "–"),
    ("start until it listens to Telegram", lambda p: seconds(p["listens_s"])),
    ("start until the first answer", lambda p: seconds(p["answers_s"])),
    ("memory, idle", lambda p: megabytes(p["idle_bytes"])),
    ("memory, after five messages", lambda p: megabytes(p["busy_bytes"])),
    ("answered of the messages that arrived while it was stopped", lambda p: f"{p['waiting_answered']} of {p['waiting']}"),
    ("`kill -9`: times killed, messages sent", lambda p: f"{p['kills']}, {p['sent']}"),
    ("`kill -9`: messages never answered", lambda p: str(p["lost"])),
    ("`kill -9`: answers sent twice", lambda p: str(p["repeats"]) + (
        f", {p['repeats_marked']} of them marked as sent again" if p["repeats_marked"] else "")),
    ("load of the machine before (one minute)", lambda p: str(p["load"])),
]


def table(found):
    """The figures in Markdown."""
    try:
        return rendered(found["programs"], found["machine"], found["missing"])
    except (KeyError, TypeError) as error:
        raise Unusable(f"the figures lack {error}: measure all programs again") from error


def rendered(programs, of, missing):
    lines = ["| | " + " | ".join(program["name"] for program in programs) + " |", "|---" * (len(programs) + 1) + "|"]
    lines += [f"| {title} | " + " | ".join(cell(program) for program in programs) + " |" for title, cell in ROWS]
    lines += ["", f"Measured on {of['processors']} processors ({of['processor']}), {of['memory_gib']} GiB of memory, "
                  f"Linux {of['kernel']} on {of['architecture']}, Python {of['python']}."]
    lines += [""] * bool(missing)
    lines += [f"* {program['name']} was not measured, because {program['why']}." for program in missing]
    return "\n".join(lines)


def generated(found):
    figures = json.dumps(found, indent=1, ensure_ascii=False).replace("-->", "--\\u003e")
    return f"{BEGIN}\n{FIGURES}{figures}\n-->\n\n{table(found)}\n\n{END}"


def parts(text):
    """What is before, between and after the marks, the marks included in the middle."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise Unusable(f"the page needs these two lines, once each and in this order:\n{BEGIN}\n{END}")
    before, rest = text.split(BEGIN)
    inner, after = rest.split(END)
    return before, BEGIN + inner + END, after


def replaced(text, found):
    before, _, after = parts(text)
    return before + generated(found) + after


def read(text):
    """The figures of a page; none if it has no table yet."""
    _, inner, _ = parts(text)
    if FIGURES not in inner:
        return None
    try:
        return json.loads(inner.split(FIGURES)[1].split("-->")[0])
    except ValueError as error:
        raise Unusable(f"the figures of the page are not JSON: {error}") from error


def check(text):
    """Refuses a page whose table is not the one made of its figures."""
    found = read(text)
    if found is None:
        raise Unusable("the page has no figures: run tools/compare/compare.py --write on it")
    if parts(text)[1] != generated(found):
        raise Unusable("the table is not made of the page's figures: somebody edited it; run tools/compare/compare.py --write")


def merged(old, new, order):
    """New figures of some programs, and the old ones of the others."""
    if old is None:
        return new
    if old["machine"] != new["machine"]:
        raise Unusable("the page has figures of another machine: measure all programs, without --only")
    done = {program["name"] for program in new["programs"] + new["missing"]}
    both = {kind: sorted(new[kind] + [program for program in old[kind] if program["name"] not in done],
                         key=lambda program: order.index(program["name"])) for kind in ("programs", "missing")}
    return {"machine": new["machine"], **both}
