"""The programs that are compared: how each is installed, configured for the world of `world.py`, and started."""

import json
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

from world import PERSON, TOKEN

# An agent for Hearth's provider `command` that asks the same model as the other programs.
AGENT = """
import json, sys, urllib.request
for line in sys.stdin:
    turn = json.loads(line)
    if turn["type"] != "turn":
        continue
    text = "\\n".join(message["content"]["text"] for message in turn["messages"])
    body = json.dumps({"model": "probe", "messages": [{"role": "user", "content": text}]}).encode()
    request = urllib.request.Request(sys.argv[1], body, {"Content-Type": "application/json"})
    answer = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
    print(json.dumps({"type": "say", "text": answer}))
    print(json.dumps({"type": "done"}), flush=True)
"""


class Missing(Exception):
    """The program cannot be had on this machine; says why."""


def run(arguments, **options):
    """Runs a command to its end, and returns what it printed. What it prints is part of the error if it fails."""
    done = subprocess.run([str(argument) for argument in arguments], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **options)
    if done.returncode != 0:
        raise Missing(f"`{' '.join(map(str, arguments))}` failed: {done.stdout.strip()[-400:]}")
    return done.stdout


def environment(home, **more):
    """A small environment with a home of its own, so that no configuration of this machine matters."""
    path = os.environ.get("PATH", os.defpath)
    return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TZ": "UTC"} | {key: str(value) for key, value in more.items()}


class Program:
    """One program under test. `work` keeps what is installed, `home` is fresh for each measurement."""

    name = ""
    needs = ""  # what else it runs on, which its size leaves out
    settle = 60  # seconds within which it listens after a start
    asks, begins = "", ""  # words with which it asks for a new conversation, and the command that begins one

    def __init__(self, work, options):
        self.work, self.options = work, options
        self.home = work / "home" / self.name.lower()

    def install(self):
        """Makes it runnable and sets `version`, or raises `Missing`."""
        raise NotImplementedError

    def files(self):
        """The directories and files that an installation consists of."""
        raise NotImplementedError

    def configure(self, world):
        raise NotImplementedError

    def command(self):
        """Arguments and environment that start it in the foreground."""
        raise NotImplementedError

    def killed(self):
        """Called after each kill, while the program does not run."""

    def prepare(self, world):
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        self.configure(world)

    def start(self):
        arguments, env = self.command()
        log = open(self.home / "output.log", "ab")
        return subprocess.Popen([str(argument) for argument in arguments], env=env, cwd=self.home, stdout=log, stderr=log,
                                stdin=subprocess.DEVNULL, start_new_session=True)


class Hearth(Program):
    name = "Hearth"

    def install(self):
        root = Path(__file__).resolve().parents[2]
        found = self.options.hearth or next(filter(os.path.exists, [root / "target/release/hearth"]), shutil.which("hearth"))
        if not found:
            raise Missing("no program: run `cargo build --release`, or name one with --hearth")
        self.binary = Path(found).resolve()
        self.version = run([self.binary, "--version"]).split()[-1]

    def files(self):
        return [self.binary]

    def configure(self, world):
        (self.home / "agent.py").write_text(AGENT)
        command = [sys.executable, str(self.home / "agent.py"), f"{world.url}/v1/chat/completions"]
        (self.home / "hearth.toml").write_text(textwrap.dedent(f"""\
            schema = 1
            runtime = "process"
            [[agents]]
            folder = "main"
            provider = "command"
            command = {json.dumps(command)}
            unconfined = true
            [[users]]
            id = "telegram:{PERSON}"
            roles = ["owner"]
            [[chats]]
            channel = "telegram"
            platform_id = "{PERSON}"
            [[chats.wirings]]
            agent = "main"
            engage = "pattern"
            pattern = "."
            [channels.telegram]
            token = "env:BOT_TOKEN"
            base_url = "{world.url}"
            """))
        run([self.binary, "--data", self.home / "data", "apply", "--yes", self.home / "hearth.toml"],
            env=self.command()[1])

    def command(self):
        return [self.binary, "--data", self.home / "data", "run"], environment(self.home, BOT_TOKEN=TOKEN)


class OpenClaw(Program):
    name = "OpenClaw"
    needs = "Node.js"
    settle = 180
    asks, begins = "replacement session", "/new"

    def install(self):
        if not shutil.which("npm"):
            raise Missing("npm is not installed")
        prefix = self.work / "openclaw"
        wanted = self.options.openclaw
        self.node = self.find_node(run(["npm", "view", f"openclaw@{wanted}", "engines.node"]).strip())
        self.package = prefix / "lib/node_modules/openclaw"
        if not self.package.exists():
            # As its README says; older versions of npm run all scripts.
            npm = tuple(map(int, run(["npm", "--version"]).strip().split(".")[:2]))
            scripts = ["--allow-scripts=openclaw"] * (npm >= (11, 16))
            self.npm(self.node.parent, "--global", f"--prefix={prefix}", *scripts, f"openclaw@{wanted}")
        self.version = json.loads((self.package / "package.json").read_text())["version"]

    def npm(self, first_path, *arguments, **options):
        path = f"{first_path}{os.pathsep}{os.environ['PATH']}"
        run(["npm", "install", "--no-audit", "--no-fund", *arguments], env=os.environ | {"PATH": path}, **options)

    def find_node(self, wanted):
        """The machine's Node.js if OpenClaw says that it works with it, else one from the npm registry."""
        system = shutil.which("node")
        if system:
            major, minor = map(int, run([system, "--version"]).strip().lstrip("v").split(".")[:2])
            if (major == 24 and minor >= 16) or (major, minor) >= (26, 1):
                return Path(system)
        arch = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine())
        if platform.system() != "Linux" or not arch:
            raise Missing(f"it needs Node.js {wanted}")
        prefix = self.work / "node"
        node = prefix / f"node_modules/node-linux-{arch}/bin/node"
        if not node.exists():
            prefix.mkdir(parents=True, exist_ok=True)
            (prefix / "package.json").write_text('{"private": true}')
            self.npm(prefix, f"node-linux-{arch}@24", cwd=prefix)
        return node

    def files(self):
        return [self.package]

    def configure(self, world):
        model = {"id": "probe", "name": "probe", "reasoning": False, "input": ["text"], "contextWindow": 200000,
                 "maxTokens": 8192, "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}
        provider = {"baseUrl": f"{world.url}/v1", "apiKey": "none", "api": "openai-completions", "models": [model]}
        self.port = free_port()
        (self.home / "openclaw.json").write_text(json.dumps({
            "gateway": {"mode": "local", "port": self.port, "bind": "loopback", "auth": {"mode": "token", "token": "compare"}},
            "agents": {"defaults": {"model": {"primary": "fake/probe"}, "workspace": str(self.home / "workspace"),
                                    "skipBootstrap": True}},
            "models": {"mode": "replace", "providers": {"fake": provider}},
            "messages": {"queue": {"mode": "followup"}},
            "channels": {"telegram": {"enabled": True, "botToken": TOKEN, "apiRoot": world.url, "dmPolicy": "open",
                                      "allowFrom": ["*"], "streaming": {"mode": "off"}}},
        }))

    def command(self):
        env = environment(self.home, OPENCLAW_STATE_DIR=self.home / "state", OPENCLAW_CONFIG_PATH=self.home / "openclaw.json",
                          NODE_ENV="production")
        return [self.node, self.package / "openclaw.mjs", "gateway", "--port", self.port], env


    def killed(self):
        """Moves the crashes it noted ten minutes into the past: after three within five minutes it stays off Telegram."""
        with closing(sqlite3.connect(self.home / "state/state/openclaw.sqlite")) as store, store:
            store.execute("UPDATE gateway_boot_lifecycle SET started_at_ms = started_at_ms - 600000 WHERE completed_at_ms IS NULL")


class NanoClaw(Program):
    name = "NanoClaw"

    def install(self):
        raise Missing("it is installed by cloning its repository and needs a container engine; no package registry has it")


class Hermes(Program):
    name = "Hermes"
    needs = "Python"
    settle = 120

    def install(self):
        venv = self.work / "hermes"
        self.program = venv / "bin/hermes"
        if not self.program.exists():
            run([sys.executable, "-m", "venv", venv])
            run([venv / "bin/pip", "install", "-q", "--disable-pip-version-check", f"hermes-agent[messaging]{self.options.hermes}"])
        script = "from importlib.metadata import version; print(version('hermes-agent'))"
        self.version = run([venv / "bin/python", "-c", script]).strip()

    def files(self):
        return [self.work / "hermes"]

    def configure(self, world):
        # JSON is YAML.
        (self.home / "config.yaml").write_text(json.dumps({
            "model": {"provider": "custom", "default": "probe", "base_url": f"{world.url}/v1", "api_key": "none",
                      "context_length": 200000},
            "display": {"busy_input_mode": "queue"},
            "telegram": {"extra": {"base_url": f"{world.url}/bot", "base_file_url": f"{world.url}/file/bot"}},
        }))
        (self.home / ".env").write_text(f"TELEGRAM_BOT_TOKEN={TOKEN}\nTELEGRAM_ALLOWED_USERS={PERSON}\n")

    def command(self):
        return [self.program, "gateway", "run"], environment(self.home, HERMES_HOME=self.home)


def free_port():
    import socket
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


PROGRAMS = [Hearth, OpenClaw, NanoClaw, Hermes]
