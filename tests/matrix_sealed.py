#!/usr/bin/python3
"""People with encryption on the server of matrix_people.py, for tests of `hearth-matrix`: another implementation than the
bridge's, matrix-nio with libolm (Debian's python3-matrix-nio). Each call is one person on one device, whose keys are in files.
`serve` does many: each line of its input is a call as a list of words, and is answered by a line with what it says.

`open PERSON [NAME]`: an encrypted room with the bot, and its id. `say PERSON ROOM CONTENT`: sends a message; its id. `file
PERSON ROOM NAME TYPE TEXT`: the same with an encrypted file. `heard PERSON ROOM`: what the bot sent, decrypted; files with
their text. `keyless PERSON ROOM TEXT`: a message whose key the bot does not get; `key PERSON ROOM`: it gets it. `again PERSON
ROOM ID`: the ciphertext of a message once more. `identity PERSON`: new signing keys, and the public one. PERSON is `name` or
`name/DEVICE`. For the kit, Ann in the room that the file `sealed-room` names: `can`, `say TEXT`, `many COUNT`, `heard`,
`files`."""
import asyncio, contextlib, io, json, logging, os, sys, time, urllib.parse, urllib.request

import nio
import olm

sys.dont_write_bytecode = True
import matrix_people, matrix_words, people
from matrix_people import at, done, read, request, write

BOT = "@bot:hearth.test"
NIL = {"algorithm": "m.megolm.v1.aes-sha2"}

def part(text):
    return urllib.parse.quote(text, safe="")

clients = {}

async def person(name):
    """A person's client, after a look at what is new."""
    client = clients.get(name)
    is_new = client is None
    if is_new:
        client = clients[name] = log_in(name)
    # Twice, because what the first look brings may have to be answered.
    for _ in range(2):
        await client.sync(timeout=0, full_state=is_new)
        if client.should_upload_keys:
            await client.keys_upload()
        client.olm.users_for_key_query.update((BOT, client.user_id))
        await client.keys_query()
        await client.send_to_device_messages()
    # Each message has a key of its own, as if the program had been started for it.
    client.olm.outbound_group_sessions.clear()
    return client

def log_in(name):
    name, _, device = name.partition("/")
    device = device or "SEALED"
    user, token = "@%s:hearth.test" % name, "sealed-%s-%s" % (name, device)
    if not os.path.exists(at(token)):
        asked = {"type": "m.login.password", "identifier": {"type": "m.id.user", "user": name}, "password": "password-of-" + name, "device_id": device}
        write(token, done("POST", "/_matrix/client/v3/login", None, asked)["access_token"])
    os.makedirs(at("keys-" + token), exist_ok=True)
    config = nio.AsyncClientConfig(store_sync_tokens=True, encryption_enabled=True)
    client = nio.AsyncClient("http://127.0.0.1:" + read("port"), user, device_id=device, store_path=at("keys-" + token), config=config)
    client.restore_login(user, device, read(token))
    return client

async def share(client, room):
    """Gives the bot's device a new key of the room. The library says nothing where that fails, and sends what the bot cannot read."""
    for _ in range(20):
        shared = await client.share_group_session(room, ignore_unverified_devices=True)
        if any(user == BOT for user, _ in shared.users_shared_with):
            return
        client.olm.users_for_key_query.add(BOT)
        await client.keys_query()
        await asyncio.sleep(0.1)
    sys.exit("the bot did not get the key: %s" % [device.id for device in client.device_store.active_user_devices(BOT)])

async def say(client, room, content, kind="m.room.message"):
    await client.joined_members(room)
    await share(client, room)
    answer = await client.room_send(room, kind, content, tx_id=str(time.time_ns()), ignore_unverified_devices=True)
    if not isinstance(answer, nio.RoomSendResponse):
        sys.exit(str(answer))
    return answer.event_id

async def open_room(client, name):
    state = [{"type": "m.room.encryption", "state_key": "", "content": NIL}]
    asked = {"preset": "trusted_private_chat", "is_direct": True, "invite": [BOT], "initial_state": state}
    if name:
        asked["name"] = name
    return done("POST", "/_matrix/client/v3/createRoom", client.access_token, asked)["room_id"]

async def send_file(client, room, name, kind, words):
    sealed, keys = nio.crypto.encrypt_attachment(words.encode())
    address = done("POST", "/_matrix/media/v3/upload", client.access_token, sealed, kind="application/octet-stream")["content_uri"]
    content = {"msgtype": "m.file", "body": name, "file": dict(keys, url=address, mimetype=kind), "info": {"size": len(words), "mimetype": kind}}
    return await say(client, room, content)

def opened(client, room, raw):
    """What the bot sent: its content, and whether it was encrypted."""
    content, is_sealed = raw["content"], raw["type"] == "m.room.encrypted"
    if is_sealed and "ciphertext" in content:
        event = nio.Event.parse_event(raw)
        event.room_id = room
        try:
            plain = client.decrypt_event(event).source
        except nio.EncryptionError as error:
            return {"sealed": True, "id": raw["event_id"], "type": "unreadable", "why": str(error), "content": {}}
        content = dict(plain["content"])
        if "m.relates_to" in raw["content"]:
            content["m.relates_to"] = raw["content"]["m.relates_to"]
        raw = dict(raw, type=plain["type"])
    found = {"sealed": is_sealed, "id": raw["event_id"], "type": raw["type"], "content": content}
    if "file" in content:
        file = content["file"]
        place = file["url"][len("mxc://"):]
        asked = urllib.request.Request("http://127.0.0.1:%s/_matrix/client/v1/media/download/%s" % (read("port"), place))
        asked.add_header("Authorization", "Bearer " + client.access_token)
        sealed = urllib.request.urlopen(asked, timeout=30).read()
        plain = nio.crypto.decrypt_attachment(sealed, file["key"]["k"], file["hashes"]["sha256"], file["iv"])
        found["text"] = plain.decode("latin-1")
        found["readable"] = bool(plain) and plain in sealed
    return found

def heard(client, room):
    page = done("GET", "/_matrix/client/v3/rooms/%s/messages?dir=b&limit=500" % part(room), client.access_token)
    events = [event for event in reversed(page["chunk"]) if event["sender"] == BOT and "state_key" not in event]
    return [opened(client, room, event) for event in events]

def text(words):
    return {"msgtype": "m.text", "body": words}

async def keyless(client, room, words):
    client.olm.create_outbound_group_session(room)
    session = client.olm.outbound_group_sessions[room]
    key = {"algorithm": NIL["algorithm"], "room_id": room, "session_id": session.id, "session_key": session.session_key}
    write("late", json.dumps(key))
    session.shared = True
    sealed = client.olm.group_encrypt(room, {"type": "m.room.message", "content": text(words)})
    path = "/_matrix/client/v3/rooms/%s/send/m.room.encrypted/%d" % (part(room), time.time_ns())
    print(done("PUT", path, client.access_token, sealed)["event_id"])

async def give_key(client, room):
    await client.joined_members(room)
    missing = client.get_missing_sessions(room)
    if missing:
        await client.keys_claim(missing)
    for device in client.device_store.active_user_devices(BOT):
        session = client.olm.session_store.get(device.curve25519)
        sealed = client.olm._olm_encrypt(session, device, "m.room_key", json.loads(read("late")))
        path = "/_matrix/client/v3/sendToDevice/m.room.encrypted/%d" % time.time_ns()
        done("PUT", path, client.access_token, {"messages": {BOT: {device.id: sealed}}})

def canonical(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)

def identity(client):
    """New signing keys, which the server takes with the password."""
    master, device = olm.pk.PkSigning(olm.pk.PkSigning.generate_seed()), olm.pk.PkSigning(olm.pk.PkSigning.generate_seed())
    key = lambda usage, public: {"user_id": client.user_id, "usage": [usage], "keys": {"ed25519:" + public: public}}
    own, signing = key("master", master.public_key), key("self_signing", device.public_key)
    signing["signatures"] = {client.user_id: {"ed25519:" + master.public_key: master.sign(canonical(signing))}}
    body = {"master_key": own, "self_signing_key": signing}
    path = "/_matrix/client/v3/keys/device_signing/upload"
    status, answer = request("POST", path, client.access_token, body)
    if status == 401:
        name = client.user_id[1:].split(":")[0]
        body["auth"] = {"type": "m.login.password", "identifier": {"type": "m.id.user", "user": name}, "password": "password-of-" + name, "session": answer["session"]}
        status, answer = request("POST", path, client.access_token, body)
    if status != 200:
        sys.exit(str(answer))
    print(master.public_key)

async def operate(command, name="ann", *rest):
    is_kit = not rest and command in ("can", "files", "many", "heard") or command == "say" and not (rest and rest[0].startswith("!"))
    client = await person("ann" if is_kit else name)
    if is_kit and command == "can":
        print("\n".join(("say", "many", "heard", "files")))
    elif is_kit and command == "files":
        files = [found for found in heard(client, read("sealed-room")) if "text" in found]
        print(people.got((found["content"].get("filename") or found["content"]["body"], found["text"].encode("latin-1").hex()) for found in files))
    elif is_kit and command == "heard":
        print(matrix_words.texts([(found["id"], found["content"]) for found in heard(client, read("sealed-room")) if "body" in found["content"]]))
    elif is_kit:
        for words in [name, *rest] if command == "say" else ["many-%d." % number for number in range(int(name))]:
            await say(client, read("sealed-room"), text(words))
    elif command == "open":
        print(await open_room(client, rest[0] if rest else None))
    elif command == "say":
        print(await say(client, rest[0], json.loads(rest[1])))
    elif command == "file":
        print(await send_file(client, *rest))
    elif command == "heard":
        print(json.dumps(heard(client, rest[0])))
    elif command == "keyless":
        await keyless(client, *rest)
    elif command == "key":
        await give_key(client, rest[0])
    elif command == "again":
        room, event = rest
        raw = done("GET", "/_matrix/client/v3/rooms/%s/event/%s" % (part(room), part(event)), client.access_token)
        path = "/_matrix/client/v3/rooms/%s/send/m.room.encrypted/%d" % (part(room), time.time_ns())
        print(done("PUT", path, client.access_token, raw["content"])["event_id"])
    elif command == "identity":
        identity(client)
    else:
        sys.exit("no operation %s" % command)

async def serve():
    while line := await asyncio.to_thread(sys.stdin.readline):
        said, is_done = io.StringIO(), True
        try:
            with contextlib.redirect_stdout(said):
                await operate(*json.loads(line))
        except (Exception, SystemExit) as error:
            said, is_done = io.StringIO(repr(error)), False
        print(json.dumps({"done": is_done, "said": said.getvalue()}), flush=True)

async def main():
    try:
        await (serve() if sys.argv[1] == "serve" else operate(*sys.argv[1:]))
    finally:
        for client in clients.values():
            await client.close()

if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    if sys.argv[1] in ("start", "stop"):
        matrix_people.main()
    else:
        asyncio.run(main())
