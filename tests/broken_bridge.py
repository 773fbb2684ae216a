#!/usr/bin/env python3
"""A bridge that breaks the contract, for tests of `hearth bridge test`: it passes frames between Hearth and another bridge,
and changes them.

`broken_bridge.py CHANGE PROGRAM…`: CHANGE is Python that may define `up` and `down`, which turn a frame of the bridge and one of
Hearth into those that are passed on, and `raw` for a line that is no frame."""
import json, os, socket, subprocess, sys, threading, time, urllib.request

hearth, (ours, theirs) = socket.socket(fileno=int(os.environ["HEARTH_BRIDGE_FD"])), socket.socketpair()
writing = threading.Lock()

def send(to, frame):
    with writing:
        to.sendall(json.dumps(frame).encode() + b"\n")

def later(frame):
    """Passes a frame of the bridge on a little later."""
    threading.Timer(1, send, (hearth, frame)).start()

def changed(frame, *keys, to):
    """The frame with another value at a place, if it has that place."""
    place = frame
    for key in keys[:-1]:
        place = place.get(key)
        if not isinstance(place, dict):
            return [frame]
    place[keys[-1]] = to(place.get(keys[-1])) if callable(to) else to
    return [frame]

def text_of(frame):
    return str(frame.get("event", {}).get("message", {}).get("content"))

def up(frame):
    return [frame]

def down(frame):
    return [frame]

def raw(line):
    with writing:
        ours.sendall(line)

exec(sys.argv[1])

def follow(source, target, change):
    for line in source.makefile("rb"):
        try:
            frame = json.loads(line)
            frame.items()
        except (ValueError, RecursionError, AttributeError):
            raw(line)
            continue
        if "hello" in frame:
            hello.update(frame["hello"])
        for one in change(frame):
            send(target, one)

hello = {}
# Programs find their socket at either of the two places.
program = subprocess.Popen(
    sys.argv[2:], stdin=theirs, pass_fds=[theirs.fileno()], env=dict(os.environ, HEARTH_BRIDGE_FD=str(theirs.fileno())))
theirs.close()
threading.Thread(target=lambda: (follow(hearth, ours, lambda frame: down(frame)), ours.shutdown(socket.SHUT_WR)), daemon=True).start()
follow(ours, hearth, lambda frame: up(frame))
