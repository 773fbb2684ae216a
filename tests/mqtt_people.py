#!/usr/bin/env python3
"""The people on a broker of MQTT, for tests of the bridge `hearth-mqtt`: `serve DIRECTORY`, `say TEXT`, `heard`.

`serve` runs mosquitto and notes what agents send; the others find both by the directory that MQTT_PEOPLE names."""
import json, os, socket, subprocess, sys, time

def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]

def client(program, *words):
    port = open(os.path.join(os.environ["MQTT_PEOPLE"], "port")).read()
    return [program, "-p", port, "-q", "1", *words]

if sys.argv[1] == "serve":
    here, port = sys.argv[2], free_port()
    os.environ["MQTT_PEOPLE"] = here
    with open(os.path.join(here, "conf"), "w") as file:
        file.write("listener %d 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location %s/\n" % (port, here))
        if os.getuid() == 0:
            file.write("user root\n")
    broker = subprocess.Popen(["mosquitto", "-c", os.path.join(here, "conf")], stderr=subprocess.DEVNULL)
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.1)
    with open(os.path.join(here, "port"), "w") as file:
        file.write(str(port))
    log = open(os.path.join(here, "log"), "w")
    listener = subprocess.Popen(client("mosquitto_sub", "-t", "hearth/+/out", "-i", "people"), stdout=log)
    time.sleep(0.5)
    open(os.path.join(here, "ready"), "w").close()
    sys.stdin.read()  # until the test ends
    listener.terminate(), broker.terminate()

def heard():
    seen = {}  # who receives messages tells repeats by their id
    for line in open(os.path.join(os.environ["MQTT_PEOPLE"], "log")):
        message = json.loads(line)
        seen[message["id"]] = message["text"]
    return seen

if sys.argv[1] != "serve":
    from people import play, spread

    def write(text, person="ann", **more):
        message = json.dumps(dict({"id": "%d" % time.time_ns(), "text": text}, **more))
        subprocess.run(client("mosquitto_pub", "-t", "hearth/%s/in" % person, "-m", message), check=True)
        with open(os.path.join(os.environ["MQTT_PEOPLE"], "again"), "w") as file:
            file.write(message)

    def repeat():
        with open(os.path.join(os.environ["MQTT_PEOPLE"], "again")) as file:
            subprocess.run(client("mosquitto_pub", "-t", "hearth/ann/in", "-m", file.read()), check=True)

    NO = "messages of MQTT have a text and an id"
    play({
        "say": lambda *texts: [write(text) for text in texts] and None,
        "heard": lambda: "\n".join(heard().values()),
        "burst": lambda *texts: spread(texts, ["ann", "bob", "eve", "joe", "sue"], write),
        "stranger": lambda text: write(text, "eve"),
        "forge": lambda text: write(text, "eve", senderId="ann", sender={"id": "ann"}),
        "repeat": repeat,
    }, {"rename": NO, "thrown": NO, "invite": NO, "trip": "mosquitto has no limits", "bring": NO, "large": NO, "unwanted": NO, "files": NO, "elsewhere": NO, "edit": NO, "delete": NO, "react": NO, "meddle": NO, "mention": NO, "bot": NO, "previews": NO, "pings": NO, "reactions": NO,
        "cut": "mosquitto always answers", "limit": "mosquitto has no limits", "html": "mosquitto always answers", "half": "mosquitto always answers"})
