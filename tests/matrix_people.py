#!/usr/bin/env python3
"""People on a server of Matrix, for tests of the bridge `hearth-matrix`, on a real Synapse in target/synapse.

`serve DIRECTORY` starts the server on a port of this machine, and does the operations that are posted to another port, as
`{"words": [OPERATION, …]}`. Other calls post their own words there; they find it by the directory that MATRIX_PEOPLE names.
`many COUNT`: Ann writes so many texts to the bot in their room. `as PERSON METHOD PATH [JSON]`: any request, its status and answer
as JSON. `upload PERSON NAME TYPE TEXT`: the address of a file. `stop`, `start`: the server. The other words are those of the kit for
bridges, in matrix_words.py.

People, their room and the server's tables are made once and copied for each server: Synapse takes seconds to make them."""
import base64, fcntl, hashlib, hmac, http.server, json, os, shutil, signal, socket, subprocess, sys, tempfile, threading, time
import urllib.error, urllib.parse, urllib.request

sys.dont_write_bytecode = True
HERE = sys.argv[2] if sys.argv[1] == "serve" else os.environ["MATRIX_PEOPLE"]
INSTALLED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "target", "synapse")
SYNAPSE = os.path.join(INSTALLED, "bin", "python3")
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
    global server
    with open(at("output"), "ab") as output:
        server = subprocess.Popen([SYNAPSE, "-m", "synapse.app.homeserver", "-c", at("homeserver.yaml")], cwd=HERE, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    for _ in range(1200):
        if server.poll() is not None:
            sys.exit(read("output"))
        try:
            return request("GET", "/_matrix/client/versions")
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.05)
    sys.exit("Synapse does not answer")

def stop(how=signal.SIGKILL):
    server.send_signal(how)
    server.wait()

def register(name):
    nonce = done("GET", "/_synapse/admin/v1/register")["nonce"]
    words = "\0".join((nonce, name, "password-of-" + name, "notadmin")).encode()
    proof = hmac.new(b"registration", words, hashlib.sha1).hexdigest()
    asked = {"nonce": nonce, "username": name, "password": "password-of-" + name, "admin": False, "mac": proof}
    write("token-" + name, done("POST", "/_synapse/admin/v1/register", None, asked)["access_token"])

def configure(messages=MANY):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        write("port", str(free.getsockname()[1]))
    write("homeserver.yaml", CONFIG.format(here=HERE, port=read("port"), many=MANY, messages=messages))
    write("log.yaml", LOG.format(here=HERE))

def people():
    """What is the same for all servers."""
    configure()
    write("signing.key", "ed25519 a_1 %s\n" % base64.b64encode(os.urandom(32)).decode().rstrip("="))
    start()
    try:
        for name in PEOPLE:
            register(name)
        asked = {"preset": "trusted_private_chat", "is_direct": True, "invite": ["@bot:hearth.test"]}
        room = done("POST", "/_matrix/client/v3/createRoom", read("token-ann"), asked)["room_id"]
        done("POST", "/_matrix/client/v3/rooms/%s/join" % urllib.parse.quote(room, safe=""), read("token-bot"), {})
        write("room", room)
    finally:
        stop(signal.SIGTERM)

def copied():
    """A directory with these files for this version of the script and of the server."""
    global HERE
    with open(__file__, "rb") as file:
        version = hashlib.sha256(file.read() + str(os.stat(SYNAPSE).st_mtime).encode()).hexdigest()[:16]
    place, own = os.path.join(INSTALLED, "people-" + version), HERE
    with open(os.path.join(INSTALLED, "people.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(place):
            HERE = tempfile.mkdtemp(dir=INSTALLED)
            try:
                people()
                os.rename(HERE, place)
            finally:
                shutil.rmtree(HERE, ignore_errors=True)
                HERE = own
    for name in ("database", "room", "signing.key", *("token-" + name for name in PEOPLE)):
        shutil.copy(os.path.join(place, name), at(name))

class Control(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            status, answer = 200, operate(asked["words"])
        except (Exception, SystemExit) as error:
            status, answer = 500, repr(error)
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

def serve():
    copied()
    # `few`: fewer messages at once than by default.
    configure("{per_second: 1, burst_count: 3}" if "few" in sys.argv[3:] else MANY)
    control = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Control)
    threading.Thread(target=control.serve_forever, daemon=True).start()
    matrix_words.serve()
    try:
        start()
        write("control", str(control.server_address[1]))
        write("ready", "")
        sys.stdin.read()
    finally:
        stop()

def operate(words):
    """The answer as text."""
    operation, *rest = words
    if operation == "can":
        return "\n".join([*matrix_words.WORDS, *("%s: %s" % pair for pair in matrix_words.CANNOT.items())])
    elif operation in matrix_words.WORDS:
        return matrix_words.WORDS[operation](*rest) or ""
    elif operation == "as":
        person, method, path, *body = rest
        body = json.loads(body[0]) if body else None
        return json.dumps(request(method, path.replace("TXN", str(time.time_ns())), read("token-" + person), body))
    elif operation == "upload":
        person, name, kind, text = rest
        return matrix_words.upload(person, name, text.encode(), kind)
    elif operation == "stop":
        stop()
    elif operation == "start":
        start()
    else:
        sys.exit("no operation %s" % operation)
    return ""

def main():
    if sys.argv[1] == "serve":
        return serve()
    asked = json.dumps({"words": sys.argv[1:]}).encode()
    try:
        with urllib.request.urlopen("http://127.0.0.1:%s/control" % read("control"), asked, timeout=120) as answer:
            print(json.loads(answer.read()))
    except urllib.error.HTTPError as error:
        sys.exit(error.read().decode())

if __name__ == "__main__":
    # One module, also for what imports it.
    sys.modules["matrix_people"] = sys.modules["__main__"]
    import matrix_words
    main()
