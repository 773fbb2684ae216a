"""A program for the provider `command` that answers `from NAME`, and writes what it was asked into a file.

    program.py NAME FILE

The one called `first` says once that it is limited, for two seconds, if a message has `@@limited`.
"""
import json
import sys

name, path = sys.argv[1:]


def tell(**line):
    print(json.dumps(line), flush=True)


for line in sys.stdin:
    asked = json.loads(line)
    if asked["type"] != "turn":
        continue
    with open(path, "a") as file:
        file.write(json.dumps({"name": name, "prompt": asked["prompt"], "continuation": asked.get("continuation")}) + "\n")
    if name == "first" and any("@@limited" in message["content"]["text"] for message in asked["messages"]):
        tell(type="error", message="429 slow down", retry={"rate_limited": True, "after_ms": 2000})
        continue
    tell(type="say", text=f"from {name}")
    tell(type="continuation", value=f"kept by {name}")
    tell(type="done")
