#!/usr/bin/env python3
"""The people on a broker of MQTT, for tests of the bridge `hearth-mqtt`: `serve DIRECTORY`, `say TEXT`, `heard`.

`serve` runs mosquitto, again when it ends, and notes what agents send; the others find both by the directory that
MQTT_PEOPLE names. Killed, mosquitto loses what it has confirmed since it last wrote to its disk; asked to end (`restart`),
it keeps everything."""
import json, os, signal, socket, subprocess, sys, threading, time

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
    brokers, over = [], threading.Event()

    def keep():
        while not over.is_set():
            brokers.append(subprocess.Popen(["mosquitto", "-c", os.path.join(here, "conf")], stderr=subprocess.DEVNULL))
            with open(os.path.join(here, "pid"), "w") as file:
                file.write(str(brokers[-1].pid))
            brokers[-1].wait()

    keeper = threading.Thread(target=keep)
    keeper.start()
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.1)
    with open(os.path.join(here, "port"), "w") as file:
        file.write(str(port))
    log = open(os.path.join(here, "log"), "w")
    listener = subprocess.Popen(client("mosquitto_sub", "-t", "hearth/+/out", "-i", "people", "-c"), stdout=log)
    time.sleep(0.5)
    open(os.path.join(here, "ready"), "w").close()
    sys.stdin.read()  # until the test ends
    over.set()
    listener.terminate(), brokers[-1].terminate()
    keeper.join()

def heard():
    seen = {}  # who receives messages tells repeats by their id
    for line in open(os.path.join(os.environ["MQTT_PEOPLE"], "log")):
        if line.endswith("\n"):  # the last one may be under way
            message = json.loads(line)
            seen[message["id"]] = message["text"]
    return seen

if sys.argv[1] != "serve":
    from people import play, spread

    def write(text, person="ann", **more):
        message = json.dumps(dict({"id": "%d" % time.time_ns(), "text": text}, **more))
        publish = client("mosquitto_pub", "-t", "hearth/%s/in" % person, "-m", message)
        while subprocess.run(publish, stderr=subprocess.DEVNULL).returncode:
            time.sleep(0.1)  # the broker is not there: the same again
        with open(os.path.join(os.environ["MQTT_PEOPLE"], "again"), "w") as file:
            file.write(message)

    def repeat():
        with open(os.path.join(os.environ["MQTT_PEOPLE"], "again")) as file:
            subprocess.run(client("mosquitto_pub", "-t", "hearth/ann/in", "-m", file.read()), check=True)

    def restart():
        with open(os.path.join(os.environ["MQTT_PEOPLE"], "pid")) as file:
            os.kill(int(file.read()), signal.SIGTERM)

    NO = "messages of MQTT have a text and an id"
    play({
        "say": lambda *texts: [write(text) for text in texts] and None,
        "heard": lambda: "\n".join(heard().values()),
        "burst": lambda *texts: spread(texts, ["ann", "bob", "eve", "joe", "sue"], write),
        "stranger": lambda text: write(text, "eve"),
        "forge": lambda text: write(text, "eve", senderId="ann", sender={"id": "ann"}),
        "repeat": repeat,
        "restart": restart,
    }, {"rename": NO, "thrown": NO, "invite": NO, "trip": "mosquitto has no limits", "bring": NO, "large": NO, "unwanted": NO, "files": NO, "elsewhere": NO, "edit": NO, "delete": NO, "react": NO, "meddle": NO, "mention": NO, "bot": NO, "previews": NO, "pings": NO, "reactions": NO,
        "cut": "mosquitto always answers", "limit": "mosquitto has no limits", "html": "mosquitto always answers", "half": "mosquitto always answers"})
