#!/usr/bin/python3
"""A person who verifies the bot by comparing emoji, for tests of `hearth-matrix`: libolm's SAS, with the messages of the
specification written here, so that none of the bridge's own implementation is used.

`PERSON ROOM`: asks in the room, or with `-` to the bot's device; `+` is the same, encrypted. It prints `emoji` and the seven
of them, then waits for a line: `same`, `differ`, `forge` (a wrong proof of the keys). At the end it prints `verified`, or
`cancelled` and the code."""
import asyncio, base64, hashlib, json, logging, os, sys, time

import nio
import olm

sys.dont_write_bytecode = True
from matrix_sealed import BOT, at, canonical, done, heard, part, person, read, request, say, write

class Cancelled(Exception):
    pass

def keys_of(client, user):
    answer = done("POST", "/_matrix/client/v3/keys/query", client.access_token, {"device_keys": {user: []}})
    master = answer.get("master_keys", {}).get(user)
    return answer["device_keys"].get(user, {}), master

def signed(value, client, public, signing):
    value = {name: field for name, field in value.items() if name not in ("signatures", "unsigned")}
    return dict(value, signatures={client.user_id: {"ed25519:" + public: signing.sign(canonical(value))}})

def identity(client, name):
    """The signing keys of a person, which are in a file: the master key, and that for people. Made once; the device is signed."""
    place = "identity-" + name
    new = not os.path.exists(at(place))
    if new:
        seeds = [base64.b64encode(olm.pk.PkSigning.generate_seed()).decode() for _ in range(3)]
        write(place, json.dumps(seeds))
    master, own, people = [olm.pk.PkSigning(base64.b64decode(seed)) for seed in json.loads(read(place))]
    if new:
        key = lambda usage, signing: {"user_id": client.user_id, "usage": [usage], "keys": {"ed25519:" + signing.public_key: signing.public_key}}
        sign = lambda value: signed(value, client, master.public_key, master)
        body = {"master_key": key("master", master), "self_signing_key": sign(key("self_signing", own)), "user_signing_key": sign(key("user_signing", people))}
        path = "/_matrix/client/v3/keys/device_signing/upload"
        status, answer = request("POST", path, client.access_token, body)
        if status == 401:
            user = {"type": "m.id.user", "user": name}
            body["auth"] = {"type": "m.login.password", "identifier": user, "password": "password-of-" + name, "session": answer["session"]}
            status, answer = request("POST", path, client.access_token, body)
        assert status == 200, answer
        upload(client, client.user_id, client.device_id, signed(keys_of(client, client.user_id)[0][client.device_id], client, own.public_key, own))
    return master, people

def upload(client, user, name, value):
    answer = done("POST", "/_matrix/client/v3/keys/signatures/upload", client.access_token, {user: {name: value}})
    assert not answer.get("failures"), answer

class Flow:
    def __init__(self, client, place, device):
        self.client, self.place, self.device, self.came = client, place, device, []
        # nio leaves out events whose type it does not know.
        parse = nio.ToDeviceEvent.parse_event
        def receive(event):
            self.came.append((event["type"], event["content"]))
            return parse(event)
        nio.ToDeviceEvent.parse_event = staticmethod(receive)

    async def begin(self):
        content = {"from_device": self.client.device_id, "methods": ["m.sas.v1"]}
        if self.place in "-+":
            self.flow = "flow-%d" % time.time_ns()
            await self.send("m.key.verification.request", dict(content, timestamp=int(time.time() * 1000)))
        else:
            await self.client.joined_members(self.place)
            words = {"msgtype": "m.key.verification.request", "body": "asks for a verification", "to": BOT}
            self.flow = await say(self.client, self.place, dict(content, **words))

    def related(self, content):
        if self.place in "-+":
            return dict(content, transaction_id=self.flow)
        return dict(content, **{"m.relates_to": {"rel_type": "m.reference", "event_id": self.flow}})

    async def send(self, kind, content):
        content = self.related(content)
        if self.place == "+":
            device = next(device for device in self.client.device_store.active_user_devices(BOT) if device.id == self.device)
            if not self.client.olm.session_store.get(device.curve25519):
                await self.client.keys_claim({BOT: [device.id]})
            session = self.client.olm.session_store.get(device.curve25519)
            kind, content = "m.room.encrypted", self.client.olm._olm_encrypt(session, device, kind, content)
        if self.place in "-+":
            path = "/_matrix/client/v3/sendToDevice/%s/%d" % (kind, time.time_ns())
            done("PUT", path, self.client.access_token, {"messages": {BOT: {self.device: content}}})
        else:
            await say(self.client, self.place, content, kind)
        return content

    async def wait(self, name):
        for _ in range(300):
            await self.client.sync(timeout=200)
            events = list(self.came)
            if self.place not in "-+":
                found = heard(self.client, self.place)
                events = [(event["type"], event["content"]) for event in found if event["content"].get("m.relates_to", {}).get("event_id") == self.flow]
            for kind, content in events:
                if self.place in "-+" and content.get("transaction_id") != self.flow:
                    continue
                if kind == "m.key.verification.cancel":
                    raise Cancelled(content["code"])
                if kind == "m.key.verification." + name:
                    return content
        sys.exit("no " + name)

def emoji(sas, client, device, flow, ours, theirs):
    info = "MATRIX_KEY_VERIFICATION_SAS|%s|%s|%s|%s|%s|%s|%s" % (client.user_id, client.device_id, ours, BOT, device, theirs, flow)
    bits = "".join("{:08b}".format(byte) for byte in sas.generate_bytes(info, 6))
    return [nio.crypto.Sas.emoji[int(bits[at * 6:at * 6 + 6], 2)][0] for at in range(7)]

async def verify(client, name, flow):
    master, people = identity(client, name)
    await flow.begin()
    await flow.wait("ready")
    protocols = {"key_agreement_protocols": ["curve25519-hkdf-sha256"], "hashes": ["sha256"], "message_authentication_codes": ["hkdf-hmac-sha256.v2"], "short_authentication_string": ["decimal", "emoji"]}
    start = await flow.send("m.key.verification.start", dict(protocols, method="m.sas.v1", from_device=client.device_id))
    if flow.place == "+":
        start = flow.related(dict(protocols, method="m.sas.v1", from_device=client.device_id))
    accepted = await flow.wait("accept")
    sas = olm.Sas()
    await flow.send("m.key.verification.key", {"key": sas.pubkey})
    theirs = (await flow.wait("key"))["key"]
    committed = base64.b64encode(hashlib.sha256((theirs + canonical(start)).encode()).digest()).decode().rstrip("=")
    assert accepted["commitment"] == committed, "another key than it was promised"
    ours = sas.pubkey
    sas.set_their_pubkey(theirs)
    print("emoji", json.dumps(emoji(sas, client, flow.device, flow.flow, ours, theirs)), flush=True)
    # The server has to be asked meanwhile, as clients do.
    said = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    while not said.done():
        await client.sync(timeout=200)
    word = said.result().strip()
    if word == "differ":
        await flow.send("m.key.verification.cancel", {"code": "m.mismatched_sas", "reason": "they differ"})
        raise Cancelled("m.mismatched_sas")
    info = lambda first, second: "MATRIX_KEY_VERIFICATION_MAC" + first + second + flow.flow
    own, bot = client.user_id + client.device_id, BOT + flow.device
    keys = {"ed25519:" + client.device_id: client.olm.account.identity_keys["ed25519"], "ed25519:" + master.public_key: master.public_key}
    mac = {key: sas.calculate_mac_fixed_base64(value if word == "same" else "forged", info(own, bot) + key) for key, value in keys.items()}
    await flow.send("m.key.verification.mac", {"mac": mac, "keys": sas.calculate_mac_fixed_base64(",".join(sorted(keys)), info(own, bot) + "KEY_IDS")})
    proof = await flow.wait("mac")
    devices, bots = keys_of(client, BOT)
    (identity_key,) = bots["keys"].values()
    expected = {"ed25519:" + flow.device: devices[flow.device]["keys"]["ed25519:" + flow.device], "ed25519:" + identity_key: identity_key}
    assert proof["mac"] == {key: sas.calculate_mac_fixed_base64(value, info(bot, own) + key) for key, value in expected.items()}, proof
    await flow.send("m.key.verification.done", {})
    await flow.wait("done")
    upload(client, BOT, identity_key, signed(bots, client, people.public_key, people))
    print("verified", flush=True)

async def main():
    name, place = sys.argv[1:]
    client = await person(name)
    device = read("bot-device") if os.path.exists(at("bot-device")) else next(iter(keys_of(client, BOT)[0]))
    try:
        await verify(client, name.partition("/")[0], Flow(client, place, device))
    except Cancelled as cancelled:
        print("cancelled", cancelled, flush=True)
    finally:
        await client.close()

logging.disable(logging.CRITICAL)
asyncio.run(main())
