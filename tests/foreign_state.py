"""A program that edits session-state.json as skills do: under an exclusive flock on the sibling `.lock`, by a rename.

Arguments: folder, prefix of the keys it writes, how many. Each round adds a key, an id and a stale pending response.
"""

import fcntl
import json
import os
import sys

folder, prefix, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
path = os.path.join(folder, "session-state.json")
for number in range(rounds):
    with open(path + ".lock", "a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            with open(path) as file:
                state = json.load(file)
        except FileNotFoundError:
            state = {"schema_version": 1}
        name = f"{prefix}{number}"
        state[name] = number
        state.setdefault("seen_email_ids", []).append(name)
        state["pending_response"] = {"message_id": name, "preview": "p", "reacted_at": "2026-01-01T00:00:00Z"}
        temporary = f"{path}.{prefix}.new"
        with open(temporary, "w") as file:
            json.dump(state, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
