#!/usr/bin/env python3
"""Records the first chat as an animated SVG: tools/record/first-chat.py [HEARTH] > docs/first-chat.svg

Runs the real program (by default target/debug/hearth) on a terminal, in a home directory of its own, and draws what it
prints. Needs Python 3 and nothing else. Everything that is drawn comes from the program, except the shell's `$ ` and
the commands typed after it.
"""

import fcntl
import os
import pty
import select
import shutil
import struct
import sys
import termios
import time
from html import escape

ROWS, COLUMNS = 34, 102
HOME = "/tmp/ann"  # shown by the program, so it has a readable name
TYPING, PAUSE = 0.06, 1.2  # seconds per character typed, and after an answer
# What a person types on the terminal of each command, after the program has shown its prompt.
STEPS = [("hearth up", ["Hello, are you there?\r", "\x04"]), ("hearth why latest", [])]

CELL, LINE, MARGIN = 8.43, 18, 14
COLOURS = {None: "#d4d4d4", 1: "#f14c4c", 2: "#23d18b", 3: "#e5e510", 4: "#3b8eea", 6: "#29b8db"}


class Screen:
    """The cells of a terminal, each with the moment at which it got its character."""

    def __init__(self):
        self.cells = {}
        self.row = self.column = 0
        self.colour, self.bold, self.faint = None, False, False
        self.now = 0.0
        self.rest = ""

    def feed(self, text):
        text, self.rest = self.rest + text, ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                end = self.escape(text, at)
                if end is None:
                    self.rest = text[at:]
                    return
                at = end
            else:
                self.put(text[at])
                at += 1

    def put(self, char):
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self.row += 1
        elif char == "\b":
            self.column = max(0, self.column - 1)
        elif char >= " ":
            if self.column == COLUMNS:
                self.row, self.column = self.row + 1, 0
            self.cells[self.row, self.column] = (char, self.colour, self.bold, self.faint, self.now)
            self.column += 1

    def escape(self, text, at):
        """Obeys one control sequence; returns where it ends, or nothing if it is not complete."""
        if at + 1 >= len(text):
            return None
        if text[at + 1] != "[":
            return at + 2
        end = at + 2
        while end < len(text) and not text[end].isalpha():
            end += 1
        if end == len(text):
            return None
        self.control(text[end], text[at + 2 : end])
        return end + 1

    def control(self, command, arguments):
        if arguments.startswith("?"):
            return  # modes of the terminal
        numbers = [int(number or 0) for number in arguments.split(";")]
        if command == "m":
            for number in numbers:
                self.style(number)
        elif command == "K":
            self.erase(self.row, self.column)
        elif command == "J":
            for row in range(self.row, ROWS):
                self.erase(row, self.column if row == self.row else 0)
        elif command == "C":
            self.column += max(1, numbers[0])
        elif command == "D":
            self.column = max(0, self.column - max(1, numbers[0]))
        elif command == "A":
            self.row = max(0, self.row - max(1, numbers[0]))
        else:
            sys.exit(f"the program sent a control sequence that is not drawn: {arguments}{command}")

    def style(self, number):
        if number == 0:
            self.colour, self.bold, self.faint = None, False, False
        elif number in (1, 2):
            self.bold, self.faint = self.bold or number == 1, self.faint or number == 2
        elif number == 22:
            self.bold = self.faint = False
        elif number == 39:
            self.colour = None
        elif 30 <= number <= 37 or 90 <= number <= 97:
            self.colour = number % 10

    def erase(self, row, column):
        for other in [cell for cell in self.cells if cell[0] == row and cell[1] >= column]:
            del self.cells[other]


def typed(screen, text):
    for char in text:
        screen.now += TYPING
        screen.put(char)


def read(screen, terminal, quiet):
    """Draws what the program prints until it is quiet for so long. Returns whether it still runs."""
    while select.select([terminal], [], [], quiet)[0]:
        try:
            printed = os.read(terminal, 4096)
        except OSError:
            return False
        if not printed:
            return False
        screen.feed(printed.decode())
    return True


def run(screen, program, command, answers):
    screen.feed("\x1b[32m$ \x1b[0m")
    typed(screen, command)
    screen.put("\r")
    screen.put("\n")
    screen.now += 0.4
    environment = {"PATH": os.environ["PATH"], "HOME": HOME, "XDG_RUNTIME_DIR": f"{HOME}/run", "TZ": "UTC"}
    child, terminal = pty.fork()
    if child == 0:
        time.sleep(0.2)  # until the terminal has its size
        os.chdir(HOME)
        os.execve(program, command.split(" "), {**environment, "TERM": "xterm-256color", "LANG": "C.UTF-8"})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    running = read(screen, terminal, 4)
    screen.now += PAUSE
    for answer in answers:
        for char in answer:
            screen.now += TYPING
            os.write(terminal, char.encode())
            read(screen, terminal, 0.05)
        running = read(screen, terminal, 4)
        screen.now += PAUSE
    while running and read(screen, terminal, 10):
        sys.exit(f"`{command}` does not end")
    os.close(terminal)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        sys.exit(f"`{command}` failed:\n{shown(screen)}")


def shown(screen):
    rows = range(1 + max(row for row, _ in screen.cells))
    return "\n".join("".join(screen.cells.get((row, column), " ")[0] for column in range(COLUMNS)) for row in rows)


def spans(screen, row):
    """Runs of cells in a row that look the same and appeared at the same moment."""
    found = []
    for column in range(COLUMNS):
        cell = screen.cells.get((row, column))
        if cell is None:
            continue
        char, look = cell[0], cell[1:]
        if found and found[-1][2] == look and found[-1][0] + len(found[-1][1]) == column:
            found[-1][1] += char
        else:
            found.append([column, char, look])
    return [span for span in found if span[1].strip()]


def draw(screen):
    rows = 1 + max(row for row, _ in screen.cells)
    width, height = round(COLUMNS * CELL + 2 * MARGIN), rows * LINE + 2 * MARGIN
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">')
    print("<!-- made by tools/record/first-chat.py -->")
    print("<style>text{font:14px 'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}")
    print("text{animation:show .01s steps(1,end) backwards}@keyframes show{from{visibility:hidden}}</style>")
    print(f'<rect width="{width}" height="{height}" rx="8" fill="#1e1e1e"/>')
    for row in range(rows):
        for column, text, (colour, bold, faint, moment) in spans(screen, row):
            x, y = MARGIN + column * CELL, MARGIN + row * LINE + 13
            style = (' font-weight="bold"' if bold else "") + (' opacity=".6"' if faint else "")
            print(
                f'<text x="{x:.1f}" y="{y}" fill="{COLOURS.get(colour, COLOURS[None])}"{style} xml:space="preserve"'
                f' textLength="{len(text) * CELL:.1f}" style="animation-delay:{moment:.2f}s">{escape(text)}</text>'
            )
    print("</svg>")


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/debug/hearth")
    if os.path.exists(HOME):
        sys.exit(f"{HOME} exists: remove it first, it is the home directory of the recording")
    os.makedirs(f"{HOME}/run", mode=0o700)
    try:
        screen = Screen()
        for command, answers in STEPS:
            run(screen, program, command, answers)
        draw(screen)
    finally:
        shutil.rmtree(HOME)


main()
