#!/usr/bin/env python3
"""Compares Hearth with other hosts of personal agents: tools/compare/compare.py --write docs/comparison.md

Installs OpenClaw from npm and Hermes from PyPI into a work directory, starts each program against a stand-in for Telegram
and for a model on this machine, and measures size, start, memory, and messages lost when it is killed. Needs Linux,
Python 3.10 or newer, npm, and a built Hearth (`cargo build --release`). No account, no key, no outside model. Nothing
outside the work directory is changed, apart from caches of npm and pip and what the programs write to /tmp.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import page  # noqa: E402
from measure import PARTS, Measurement  # noqa: E402
from programs import PROGRAMS, Missing  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("target/compare"), help="where programs are installed and run")
    parser.add_argument("--hearth", help="Hearth's program; by default target/release/hearth, else the one in PATH")
    parser.add_argument("--openclaw", default="latest", metavar="VERSION", help="version or tag on npm")
    parser.add_argument("--hermes", default="", metavar="SPEC", help="version on PyPI, such as ==0.19.0; by default the newest")
    parser.add_argument("--only", action="append", metavar="NAME", help="measure only this program; may be repeated")
    parser.add_argument("--part", action="append", choices=PARTS, help="measure only this; may be repeated")
    parser.add_argument("--starts", type=int, default=3, help="measured starts of each program")
    parser.add_argument("--settle", type=float, default=30, help="seconds until a started program counts as idle")
    parser.add_argument("--kills", type=int, default=8, help="how often each program is killed")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="replace the generated part of this page; with --only or --part, "
                        "all other figures stay if they are of the same machine")
    parser.add_argument("--check", type=Path, metavar="PAGE", help="check the generated part of this page, measure nothing")
    parser.add_argument("--self-check", action="store_true", help="try the stand-ins and the counting, measure nothing")
    return parser.parse_args()


def measure(options):
    """Figures of the programs that can be had here, and why the others cannot."""
    found = {"machine": page.machine(), "programs": [], "missing": []}
    for kind in PROGRAMS:
        if options.only and kind.name.lower() not in [name.lower() for name in options.only]:
            continue
        program = kind(options.work.resolve(), options)
        try:
            program.install()
            found["programs"].append(Measurement(program, options).figures())
        except (Missing, RuntimeError) as error:
            found["missing"].append({"name": kind.name, "why": str(error)})
            print(f"{kind.name}: not measured, because {error}", file=sys.stderr)
    return found


def main():
    options = arguments()
    if options.self_check:
        import checks
        checks.run()
    if options.check:
        page.check(options.check.read_text())
    if options.self_check or options.check:
        return
    found = measure(options)
    if options.write and (options.only or options.part):
        found = page.merged(page.read(options.write.read_text()), found, [kind.name for kind in PROGRAMS])
    print(page.table(found))
    if options.write:
        options.write.write_text(page.replaced(options.write.read_text(), found))


if __name__ == "__main__":
    try:
        main()
    except page.Unusable as error:
        sys.exit(f"compare.py: {error}")
