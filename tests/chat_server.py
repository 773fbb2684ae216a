#!/usr/bin/env python3
"""A chat server for tests of bridges, and the people on it: `serve PORT-FILE`, `say TEXT…`, `heard`.

`say` and `heard` find the server by the file that CHAT_PORT names. One request per connection, one JSON object per
line. The server recognises a repeated message of the bot by its key."""
import json, os, socket, socketserver, sys, threading

said, heard, lock = [], {}, threading.Lock()

class Server(socketserver.StreamRequestHandler):
    def handle(self):
        asked = json.loads(self.rfile.readline())
        with lock:
            answer = reply(asked)
        self.wfile.write(json.dumps(answer).encode() + b"\n")

def reply(asked):
    if "since" in asked:
        number = asked["since"] + 1
        if number > len(said):
            return {"next": None}
        return {"next": {"number": number, "id": "p%d" % number, "chat": "room", "from": "ann", "text": said[number - 1]}}
    if "write" in asked:
        said.append(asked["write"])
        return {"id": "p%d" % len(said)}
    if "heard" in asked:
        return {"heard": [text for _, text in heard.values()]}
    if asked["key"] not in heard:
        heard[asked["key"]] = ("b%d" % (len(heard) + 1), asked["say"])
    return {"id": heard[asked["key"]][0]}

def ask(request):
    with socket.create_connection(("127.0.0.1", int(open(os.environ["CHAT_PORT"]).read())), 5) as line:
        line.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(line.makefile(encoding="utf-8").readline())

if sys.argv[1] == "serve":
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Server)
    server.daemon_threads = True
    with open(sys.argv[2] + ".new", "w") as file:
        file.write(str(server.server_address[1]))
    os.rename(sys.argv[2] + ".new", sys.argv[2])
    server.serve_forever()
elif sys.argv[1] == "say":
    for text in sys.argv[2:]:
        ask({"write": text})
else:
    print("\n".join(ask({"heard": True})["heard"]) if sys.argv[1] == "heard" else "say\nheard")
