#!/usr/bin/env python3
"""People on a server of Matrix, for tests of the bridge `hearth-matrix`, on a real Synapse in target/synapse.

`serve DIRECTORY` starts the server on a port of this machine; the others find it by the directory that MATRIX_PEOPLE
names. `say TEXT`: Ann writes to the bot in their room. `many COUNT`: so many. `heard`: everything that the bot sent there. `as PERSON METHOD
PATH [JSON]`: any request, its status and answer as JSON. `upload PERSON NAME TYPE TEXT`: the address of a file. `stop`, `start`: the server."""
import hashlib, hmac, json, os, signal, socket, subprocess, sys, time, urllib.error, urllib.parse, urllib.request

HERE = sys.argv[2] if sys.argv[1] == "serve" else os.environ["MATRIX_PEOPLE"]
SYNAPSE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "synapse", "bin", "python3")
PEOPLE = ("bot", "ann", "eve")

CONFIG = """
server_name: hearth.test
pid_file: {here}/own.pid
public_baseurl: http://127.0.0.1:{port}/
listeners:
  - {{port: {port}, type: http, bind_addresses: [127.0.0.1], resources: [{{names: [client]}}]}}
database: {{name: sqlite3, args: {{database: {here}/database}}}}
log_config: {here}/log.yaml
media_store_path: {here}/media
signing_key_path: {here}/signing.key
registration_shared_secret: registration
macaroon_secret_key: macaroons
form_secret: forms
report_stats: false
trusted_key_servers: []
suppress_key_server_warning: true
bcrypt_rounds: 4
max_upload_size: 2M
rc_login: {{address: {many}, account: {many}, failed_attempts: {many}}}
rc_message: {messages}
rc_joins: {{local: {many}, remote: {many}}}
rc_invites: {{per_room: {many}, per_user: {many}, per_issuer: {many}}}
rc_room_creation: {many}
"""
MANY = "{per_second: 10000, burst_count: 10000}"

LOG = """
version: 1
formatters: {{plain: {{format: '%(asctime)s %(levelname)s %(name)s %(message)s'}}}}
handlers: {{file: {{class: logging.FileHandler, filename: {here}/log, formatter: plain}}}}
root: {{level: WARNING, handlers: [file]}}
"""

def at(*names):
    return os.path.join(HERE, *names)

def read(name):
    with open(at(name)) as file:
        return file.read()

def write(name, text):
    with open(at(name + ".new"), "w") as file:
        file.write(text)
    os.rename(at(name + ".new"), at(name))

def request(method, path, token=None, body=None, kind="application/json"):
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    asked = urllib.request.Request("http://127.0.0.1:%s%s" % (read("port"), path), data, method=method)
    if data is not None:
        asked.add_header("Content-Type", kind)
    if token:
        asked.add_header("Authorization", "Bearer " + token)
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"{}")

def done(method, path, token=None, body=None, **more):
    status, answer = request(method, path, token, body, **more)
    if status != 200:
        sys.exit("%s %s: %s %s" % (method, path, status, answer))
    return answer

def start():
    output = open(at("output"), "ab")
    child = subprocess.Popen([SYNAPSE, "-m", "synapse.app.homeserver", "-c", at("homeserver.yaml")], cwd=HERE, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    write("pid", str(child.pid))
    for _ in range(600):
        if child.poll() is not None:
            sys.exit(read("output"))
        try:
            return request("GET", "/_matrix/client/versions")
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    sys.exit("Synapse does not answer")

def stop():
    try:
        os.kill(int(read("pid")), signal.SIGKILL)
    except (ProcessLookupError, FileNotFoundError):
        pass

def register(name):
    nonce = done("GET", "/_synapse/admin/v1/register")["nonce"]
    words = "\0".join((nonce, name, "password-of-" + name, "notadmin")).encode()
    proof = hmac.new(b"registration", words, hashlib.sha1).hexdigest()
    asked = {"nonce": nonce, "username": name, "password": "password-of-" + name, "admin": False, "mac": proof}
    write("token-" + name, done("POST", "/_synapse/admin/v1/register", None, asked)["access_token"])

def serve():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        write("port", str(free.getsockname()[1]))
    # `few`: fewer messages at once than by default.
    messages = "{per_second: 1, burst_count: 3}" if "few" in sys.argv[3:] else MANY
    write("homeserver.yaml", CONFIG.format(here=HERE, port=read("port"), many=MANY, messages=messages))
    write("log.yaml", LOG.format(here=HERE))
    subprocess.run([SYNAPSE, "-m", "synapse.app.homeserver", "-c", at("homeserver.yaml"), "--generate-keys"], cwd=HERE, check=True, stdin=subprocess.DEVNULL)
    try:
        start()
        for name in PEOPLE:
            register(name)
        ann, bot = read("token-ann"), read("token-bot")
        asked = {"preset": "trusted_private_chat", "is_direct": True, "invite": ["@bot:hearth.test"]}
        room = done("POST", "/_matrix/client/v3/createRoom", ann, asked)["room_id"]
        done("POST", "/_matrix/client/v3/rooms/%s/join" % urllib.parse.quote(room, safe=""), bot, {})
        write("room", room)
        write("ready", "")
        sys.stdin.read()
    finally:
        stop()

def heard():
    path, token = "/_matrix/client/v3/rooms/%s/messages?dir=b&limit=500" % urllib.parse.quote(read("room"), safe=""), read("token-ann")
    found, more = [], ""
    while True:
        page = done("GET", path + more, token)
        found += [event["content"]["body"] for event in page["chunk"] if event["sender"].startswith("@bot:") and "body" in event["content"]]
        if "end" not in page:
            return reversed(found)
        more = "&from=" + urllib.parse.quote(page["end"], safe="")

def main():
    if sys.argv[1] == "serve":
        serve()
    elif sys.argv[1] == "say":
        path = "/_matrix/client/v3/rooms/%s/send/m.room.message/%d" % (urllib.parse.quote(read("room"), safe=""), time.time_ns())
        done("PUT", path, read("token-ann"), {"msgtype": "m.text", "body": sys.argv[2]})
    elif sys.argv[1] == "many":
        path = "/_matrix/client/v3/rooms/%s/send/m.room.message/" % urllib.parse.quote(read("room"), safe="")
        for number in range(int(sys.argv[2])):
            done("PUT", path + str(time.time_ns()), read("token-ann"), {"msgtype": "m.text", "body": "many-%d." % number})
    elif sys.argv[1] == "heard":
        print("\n".join(heard()))
    elif sys.argv[1] == "as":
        body = json.loads(sys.argv[5]) if len(sys.argv) > 5 else None
        print(json.dumps(request(sys.argv[3], sys.argv[4].replace("TXN", str(time.time_ns())), read("token-" + sys.argv[2]), body)))
    elif sys.argv[1] == "upload":
        _, _, person, name, kind, text = sys.argv
        path = "/_matrix/media/v3/upload?filename=" + urllib.parse.quote(name)
        print(done("POST", path, read("token-" + person), text.encode(), kind=kind)["content_uri"])
    elif sys.argv[1] == "stop":
        stop()
    else:
        start()

if __name__ == "__main__":
    main()
