#!/usr/bin/python3
"""What an owner gets with the recovery key alone, for tests of `hearth-matrix`: secret storage as the specification has it,
and libolm for the backup of keys. None of the bridge's own implementation is used.

`FILE`: the bot's public master key by its stored seed, the version of the backup, and the ids of the sessions that could be
decrypted, as JSON."""
import base64, hashlib, hmac, json, sys

import olm
from Cryptodome.Cipher import AES
from Cryptodome.Util import Counter
from _libolm import ffi, lib

sys.dont_write_bytecode = True
from matrix_people import done, read, request

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
USER = "/_matrix/client/v3/user/@bot:hearth.test/account_data/"

def recovery(path):
    with open(path) as file:
        number = 0
        for char in file.read().strip():
            number = number * 58 + ALPHABET.index(char)
    key = number.to_bytes(35, "big")
    parity = 0
    for byte in key:
        parity ^= byte
    assert key[:2] == b"\x8b\x01" and parity == 0
    return key[2:34]

def unpadded(text):
    return base64.b64decode(text + "=" * (-len(text) % 4))

def data(name):
    return done("GET", USER + name, read("token-bot"))

def opened(key, name, sealed):
    """HKDF with SHA-256, AES-256 in counter mode, HMAC."""
    first = hmac.new(hmac.new(b"\0" * 32, key, hashlib.sha256).digest(), name.encode() + b"\x01", hashlib.sha256).digest()
    second = hmac.new(hmac.new(b"\0" * 32, key, hashlib.sha256).digest(), first + name.encode() + b"\x02", hashlib.sha256).digest()
    words = unpadded(sealed["ciphertext"])
    assert hmac.new(second, words, hashlib.sha256).digest() == unpadded(sealed["mac"]), name
    counter = Counter.new(128, initial_value=int.from_bytes(unpadded(sealed["iv"]), "big"))
    return AES.new(first, AES.MODE_CTR, counter=counter).decrypt(words)

def main():
    key, token = recovery(sys.argv[1]), read("token-bot")
    name = data("m.secret_storage.default_key")["key"]
    told = data("m.secret_storage.key." + name)
    zeros = {"iv": told["iv"], "mac": told["mac"]}
    counter = Counter.new(128, initial_value=int.from_bytes(unpadded(zeros["iv"]), "big"))
    pseudo = hmac.new(b"\0" * 32, key, hashlib.sha256).digest()
    first = hmac.new(pseudo, b"\x01", hashlib.sha256).digest()
    zeros["ciphertext"] = base64.b64encode(AES.new(first, AES.MODE_CTR, counter=counter).encrypt(b"\0" * 32)).decode()
    opened(key, "", zeros)
    secret = lambda of: unpadded(opened(key, of, data(of)["encrypted"][name]).decode())
    master = olm.pk.PkSigning(secret("m.cross_signing.master")).public_key
    private = secret("m.megolm_backup.v1")
    decryption = olm.pk.PkDecryption()
    public = ffi.new("char[]", lib.olm_pk_key_length())
    lib.olm_pk_key_from_private(decryption._pk_decryption, public, len(public), ffi.from_buffer(bytearray(private)), len(private))
    version = done("GET", "/_matrix/client/v3/room_keys/version", token)
    assert ffi.string(public, len(public)).decode() == version["auth_data"]["public_key"], "another key"
    keys = done("GET", "/_matrix/client/v3/room_keys/keys?version=" + version["version"], token)
    sessions = []
    for room in keys["rooms"].values():
        for session, found in room["sessions"].items():
            found = found["session_data"]
            plain = json.loads(decryption.decrypt(olm.pk.PkMessage(found["ephemeral"], found["mac"], found["ciphertext"])))
            assert olm.InboundGroupSession.import_session(plain["session_key"]).id == session
            sessions.append(session)
    print(json.dumps({"master": master, "version": version["version"], "sessions": sorted(sessions)}))

main()
