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
    ("processor time until then", lambda p: seconds(p["listens_cpu_s"])),
    ("start until the first answer", lambda p: seconds(p["answers_s"])),
    ("memory, idle", lambda p: megabytes(p["idle_bytes"])),
    ("memory, after five messages", lambda p: megabytes(p["busy_bytes"])),
    ("answered of the messages that arrived while it was stopped", lambda p: f"{p['waiting_answered']} of {p['waiting']}"),
    ("answered of the messages that arrived while it ran undisturbed",
     lambda p: f"{p['undisturbed_answered']} of {p['undisturbed']}"),
    ("`kill -9`: times killed, messages sent", lambda p: f"{p['kills']}, {p['sent']}"),
    ("`kill -9`: messages never answered", lambda p: str(p["lost"])),
    ("`kill -9`: answers sent twice", lambda p: str(p["repeats"]) + (
        f", {p['repeats_marked']} of them marked as repeats" if p["repeats_marked"] else "")),
    ("load average of the machine before its starts", lambda p: str(p["load"])),
]


def table(found):
    """The figures in Markdown."""
    try:
        return rendered(found["programs"], found["machine"], found["missing"])
    except (KeyError, TypeError) as error:
        raise Unusable(f"the figures lack {error}: measure all programs again") from error


def shown(cell, program):
    try:
        return cell(program)
    except KeyError:
        return "not measured"


def rendered(programs, of, missing):
    lines = ["| | " + " | ".join(program["name"] for program in programs) + " |", "|---" * (len(programs) + 1) + "|"]
    lines += [f"| {title} | " + " | ".join(shown(cell, program) for program in programs) + " |" for title, cell in ROWS]
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
        raise Unusable("the table was edited by hand and does not match the page's figures: run tools/compare/compare.py --write")


def merged(old, new, order):
    """New figures, and the old ones of programs and parts that were not measured again."""
    if old is None:
        return new
    if old["machine"] != new["machine"]:
        raise Unusable("the page has figures of another machine: measure everything, without --only and --part")
    entries = {entry["name"]: entry for entry in old["programs"]}
    for entry in new["programs"]:
        before = entries.get(entry["name"], {})
        entries[entry["name"]] = (before if before.get("version") == entry["version"] else {}) | entry
    missing = {entry["name"]: entry for entry in old["missing"] + new["missing"]}
    return {"machine": new["machine"],
            "programs": [entries[name] for name in order if name in entries and name not in missing_of(new)],
            "missing": [missing[name] for name in order if name in missing and name not in measured_in(new)]}


def missing_of(found):
    return {entry["name"] for entry in found["missing"]}


def measured_in(found):
    return {entry["name"] for entry in found["programs"]}
