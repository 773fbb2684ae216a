"""What people and their network do in the cases of `hearth bridge test`, for the stand-ins of the tests. docs/bridges.md lists
the words."""
import json, sys

def play(acts, cannot=()):
    """Does what the words of this process say. `can` prints the words that there are, and why there are not others."""
    verb, *words = sys.argv[1:]
    if verb == "can":
        said = "\n".join([*acts, *("%s: %s" % pair for pair in dict(cannot).items())])
    else:
        said = acts[verb](*words)
    if isinstance(said, str) and said:
        print(said)

def got(files):
    """The answer to `files`: names and bytes."""
    return "\n".join(json.dumps({"name": name, "hex": data}) for name, data in files)

def content(path):
    with open(path, "rb") as file:
        return file.read()

def spread(texts, chats, say):
    """Texts in turn to several chats."""
    for at, text in enumerate(texts):
        say(text, chats[at % len(chats)])

DEEP, HUGE = "[" * 10_000, '{"a": "' + "x" * 10_000_000 + '"}'
