#!/usr/bin/env python3
"""People with mailboxes, for tests of the bridge `hearth-mail`, on a real Dovecot and Postfix with OpenDKIM.

`serve DIRECTORY` starts the servers on ports of this machine; the others find them by the directory that MAIL_PEOPLE
names. `say TEXT…`: Ann writes to the bot. `mail JSON`: anybody writes anything. `heard`: everything that the bot sent
to Ann, as text. `mails ADDRESS`: a mailbox, as JSON; `new ADDRESS`: only what no earlier `new` had. `imap stop`, `imap start`.
It needs root, as Postfix does."""
import base64, email, email.message, email.policy, hashlib, json, os, re, shutil, smtplib, socket, subprocess, sys, time

HERE = sys.argv[2] if sys.argv[1] == "serve" else os.environ["MAIL_PEOPLE"]
os.environ["PATH"] += ":/usr/sbin:/sbin"
BOT, PASSWORD = "bot@own.test", "password-of-the-bot"

def at(*names):
    return os.path.join(HERE, *names)

def ports():
    return json.load(open(at("ports")))

def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return found

DOVECOT = """
base_dir = {here}/run
state_dir = {here}/run/state
log_path = {here}/dovecot.log
protocols = imap lmtp
listen = 127.0.0.1
ssl = required
ssl_cert = <{here}/cert.pem
ssl_key = <{here}/key.pem
mail_location = maildir:{here}/homes/%d/%n
mail_uid = nobody
mail_gid = nogroup
first_valid_uid = 1
recipient_delimiter = +
lmtp_save_to_detail_mailbox = yes
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid=nobody gid=nogroup home={here}/homes/%d/%n
}}
service imap-login {{
  inet_listener imap {{
    port = 0
  }}
  inet_listener imaps {{
    port = {imap}
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {lmtp}
  }}
}}
service auth {{
  unix_listener {here}/auth {{
    mode = 0660
    group = postfix
  }}
}}
namespace inbox {{
  inbox = yes
  mailbox Sent {{
    special_use = \\Sent
    auto = create
  }}
}}
"""

POSTFIX = """
compatibility_level = 3.6
queue_directory = {here}/spool
data_directory = {here}/postfix
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
myhostname = mail.test
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
smtpd_relay_restrictions = permit_mynetworks, reject
virtual_mailbox_domains = own.test, friend.test, evil.test
virtual_mailbox_maps = static:ok
virtual_transport = lmtp:inet:127.0.0.1:{lmtp}
lmtp_destination_concurrency_limit = 1
initial_destination_concurrency = 1
default_transport = error:no outside here
recipient_delimiter = +
sender_bcc_maps = inline:{{{{bot@own.test=bot+Sent@own.test}}}}
smtpd_milters = inet:127.0.0.1:{milter}
milter_default_action = tempfail
smtpd_tls_cert_file = {here}/cert.pem
smtpd_tls_key_file = {here}/key.pem
smtpd_tls_security_level = may
smtpd_tls_auth_only = yes
smtpd_sasl_auth_enable = yes
smtpd_sasl_type = dovecot
# A path, not a port: a process of Postfix that kept a connection to a port learns that Dovecot has closed it only
# from the answer to the next login, which it then refuses with 454. With a path it connects again.
smtpd_sasl_path = {here}/auth
maillog_file = {here}/postfix.log
maillog_file_prefixes = {here}
message_size_limit = 2000000
# smtpd ends while Dovecot is away, which knows the passwords. By default Postfix then starts none for a minute.
service_throttle_time = 1s
# Mail that finds Dovecot away is tried again at once. By default it waits for five minutes.
queue_run_delay = 1s
minimal_backoff_time = 1s
maximal_backoff_time = 2s
in_flow_delay = 0
"""

MASTER = """
127.0.0.1:{smtp} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 1 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
error unix - - n - - error
retry unix - - n - - error
lmtp unix - - n - - lmtp
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""

OPENDKIM = """
Syslog no
Background no
Mode v
Socket inet:{milter}@127.0.0.1
TestPublicKeys {here}/keys
AuthservID mail.test
UserID root
AlwaysAddARHeader yes
"""

def certificates():
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "9"]
    run(*new, "-keyout", at("ca.key"), "-out", at("ca.pem"), "-subj", "/CN=People")
    run(*new, "-keyout", at("key.pem"), "-out", at("cert.pem"), "-subj", "/CN=mail.test", "-CA", at("ca.pem"),
        "-CAkey", at("ca.key"), "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
        "-addext", "basicConstraints=critical,CA:FALSE")
    run("openssl", "genrsa", "-out", at("dkim.key"), "2048")
    public = subprocess.check_output(["openssl", "rsa", "-in", at("dkim.key"), "-pubout", "-outform", "DER"], stderr=subprocess.DEVNULL)
    with open(at("keys"), "w") as file:
        for domain in ("friend.test", "evil.test"):
            file.write("k._domainkey.%s v=DKIM1; k=rsa; p=%s\n" % (domain, base64.b64encode(public).decode()))

def wait(port):
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit("nothing listens on port %d" % port)

def dovecot():
    """Starts Dovecot. A connection from this machine may have got its port while it was away, for a moment."""
    for _ in range(100):
        if subprocess.run(["dovecot", "-c", at("dovecot.conf")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
            return wait(ports()["imap"])
        time.sleep(0.1)
    sys.exit("Dovecot does not start: " + open(at("dovecot.log")).read()[-500:])

def serve():
    os.chmod(HERE, 0o755)
    names = ("imap", "lmtp", "smtp", "milter")
    values = dict(zip(names, free_ports(len(names))), here=HERE, password=PASSWORD)
    for directory in ("run", "homes", "spool", "postfix"):
        os.mkdir(at(directory))
    shutil.chown(at("homes"), "nobody", "nogroup")
    shutil.chown(at("postfix"), "postfix", "postfix")
    certificates()
    for name, text in (("dovecot.conf", DOVECOT), ("main.cf", POSTFIX), ("master.cf", MASTER), ("opendkim.conf", OPENDKIM)):
        with open(at(name), "w") as file:
            file.write(text.format(**values))
    with open(at("ports"), "w") as file:
        json.dump({name: values[name] for name in names}, file)
    milter = subprocess.Popen(["opendkim", "-f", "-x", at("opendkim.conf")], stderr=open(at("opendkim.log"), "w"))
    dovecot()
    subprocess.run(["postfix", "-c", HERE, "start"], check=True, stdout=open(at("start.log"), "w"), stderr=subprocess.STDOUT)
    for name in names:
        wait(values[name])
    open(at("ready"), "w").close()
    sys.stdin.read()  # until the test ends
    subprocess.run(["postfix", "-c", HERE, "abort"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run(["dovecot", "-c", at("dovecot.conf"), "stop"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    milter.terminate()

def signature(raw, domain):
    """A DKIM signature (RFC 6376) of these bytes."""
    head, body = raw.split(b"\r\n\r\n", 1)
    while body.endswith(b"\r\n\r\n"):
        body = body[:-2]
    value = "v=1; a=rsa-sha256; c=relaxed/simple; d=%s; s=k; h=from:message-id:subject; bh=%s; b=" % (
        domain, base64.b64encode(hashlib.sha256(body).digest()).decode())
    fields = {}
    for line in re.sub(rb"\r\n[ \t]+", b" ", head).split(b"\r\n"):
        name, text = line.split(b":", 1)
        fields[name.lower().strip()] = re.sub(rb"[ \t]+", b" ", text).strip()
    signed = [name + b":" + fields[name] for name in (b"from", b"message-id", b"subject")]
    signed.append(b"dkim-signature:" + value.encode())
    made = subprocess.run(["openssl", "dgst", "-sha256", "-sign", at("dkim.key")], input=b"\r\n".join(signed), stdout=subprocess.PIPE, check=True)
    lines = re.findall(".{1,70}", base64.b64encode(made.stdout).decode())
    return ("DKIM-Signature: " + value.replace("; ", ";\r\n ") + "\r\n ".join(lines) + "\r\n").encode()

def post(mail):
    """Sends a mail: `from`, `subject`, `text` or `html`, `headers`, `files`, `sign` (a domain), `envelope`, or `raw`."""
    message = email.message.EmailMessage(policy=email.policy.SMTP.clone(max_line_length=200))
    message["From"], message["To"], message["Subject"] = mail.get("from", "Ann <ann@friend.test>"), BOT, mail.get("subject", "Hello")
    message["Message-ID"] = mail.get("id", "<%d@friend.test>" % time.time_ns())
    for name, value in mail.get("headers", {}).items():
        message[name] = value
    if "html" in mail:
        message.set_content(mail["html"], subtype="html")
    else:
        message.set_content(mail.get("text", ""))
    for name, text in mail.get("files", {}).items():
        message.add_attachment(text if isinstance(text, bytes) else text.encode(), maintype="application", subtype="octet-stream", filename=name)
    raw = mail["raw"].encode() if "raw" in mail else message.as_bytes()
    if mail.get("sign", "friend.test"):
        raw = signature(raw, mail.get("sign", "friend.test")) + raw
    with smtplib.SMTP("127.0.0.1", ports()["smtp"]) as server:
        server.sendmail(mail.get("envelope", "ann@friend.test"), [BOT], raw)

def mails(address, taken=None):
    """A mailbox without what is in `taken`, to which it adds."""
    name, domain = address.split("@")
    taken, found = set() if taken is None else taken, []
    for part in ("cur", "new"):
        directory = at("homes", domain, name.split("+")[0], part)
        if os.path.isdir(directory):
            found += [path for path in (os.path.join(directory, file) for file in os.listdir(directory)) if path not in taken]
    found.sort(key=lambda path: (os.stat(path).st_mtime_ns, path))
    result = []
    for path in found:
        taken.add(path)
        message = email.message_from_binary_file(open(path, "rb"), policy=email.policy.default)
        # Postfix hands a mail over again if Dovecot stopped before it said that it has it. It is the same mail with the same
        # number in its queue, which the first server's header has.
        first = (message.get_all("Received") or [message["Message-ID"]])[-1]
        if first in taken:
            continue
        taken.add(first)
        body = message.get_body(("plain",))
        result.append({
            "headers": {key.lower(): str(value) for key, value in message.items()},
            "text": body.get_content() if body else None,
            "hex": {part.get_filename(): part.get_payload(decode=True).hex() for part in message.iter_attachments()},
            "html": any(part.get_content_type() == "text/html" for part in message.walk()),
            "files": {part.get_filename(): part.get_content() if isinstance(part.get_content(), str) else part.get_content().decode("latin1")
                      for part in message.iter_attachments()},
        })
    return result

def new(address):
    file = at("shown-" + address)
    taken = set(json.load(open(file))) if os.path.exists(file) else set()
    found = mails(address, taken)
    with open(file, "w") as shown:
        json.dump(list(taken), shown)
    return found

if sys.argv[1] == "serve":
    serve()
elif sys.argv[1] == "mail":
    post(json.loads(sys.argv[2]))
elif sys.argv[1] == "imap" and sys.argv[2] == "stop":
    run("dovecot", "-c", at("dovecot.conf"), "stop")
elif sys.argv[1] == "imap":
    dovecot()
elif sys.argv[1] == "mails":
    print(json.dumps(mails(sys.argv[2])))
elif sys.argv[1] == "new":
    print(json.dumps(new(sys.argv[2])))
else:
    from people import content, got, play, spread

    def write(text, person="ann", **more):
        post(dict({"text": text, "from": "Ann <%s@friend.test>" % person, "envelope": person + "@friend.test"}, **more))

    def repeat():
        with open(at("again")) as file:
            post(json.load(file))

    def say(*texts):
        for text in texts:
            mail = {"text": text, "id": "<%d@friend.test>" % time.time_ns()}
            post(mail)
        with open(at("again"), "w") as file:
            json.dump(mail, file)

    NO_EDITS = "a mail cannot be changed"
    play({
        "say": say,
        "heard": lambda: "\n".join(mail["text"] for mail in mails("ann@friend.test")),
        "burst": lambda *texts: spread(texts, ["ann", "bob", "eve", "joe", "sue"], write),
        "stranger": lambda text: write(text, "eve"),
        "forge": lambda text: post({"text": text, "sign": "evil.test", "envelope": "eve@evil.test"}),
        "repeat": repeat,
        "bot": lambda text: write(text, headers={"Auto-Submitted": "auto-replied"}),
        "bring": lambda name, path, text: write(text, files={name: content(path)}),
        "large": lambda name, path, text: write(text, files={name: content(path)}),
        "files": lambda: got(pair for mail in mails("ann@friend.test") for pair in mail["hex"].items()),
        "thread": lambda text: write(text, headers={"In-Reply-To": "<root@friend.test>", "References": "<root@friend.test>"}),
        "threaded": lambda: "\n".join(mail["text"] for mail in mails("ann@friend.test") if "<root@friend.test>" in mail["headers"].get("references", "")),
        "previews": lambda: "\n".join(mail["text"] for mail in mails("ann@friend.test") if mail["html"]),
    }, {"edit": NO_EDITS, "delete": NO_EDITS, "react": NO_EDITS, "meddle": NO_EDITS, "mention": "mail has no groups here", "rename": "mail has no groups here", "thrown": "mail has no groups here", "invite": "mail has no groups here", "trip": "a text is one mail",
        "vanish": "a file is in its mail", "unwanted": "a file is in its mail", "elsewhere": "a file is in its mail", "cut": "Postfix always answers",
        "limit": "Postfix always takes mail here", "html": "Postfix always answers", "half": "Dovecot always answers",
        "second": "Dovecot lets several programs use one account", "reactions": NO_EDITS})
