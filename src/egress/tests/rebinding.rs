//! DNS rebinding with a real name server, the system's resolver and real connections, in a network that is made for it.

use std::process::Command;

use super::*;

/// Begins the file with the name server's address, in that network.
const MARK: &str = "# the network of a test of rebinding";
/// Programs of that network. The other machine has a public address.
const PROGRAMS: &str = r#"
import socket, struct, sys, threading
role, directory = sys.argv[1:]
def note(file, line):
    with open(directory + "/" + file, "a") as log: log.write(line + "\n")
def serve(address):
    listener = socket.create_server((address, 80))
    note("ready", role)
    while True:
        connection, _ = listener.accept()
        note("reached", role)
        connection.sendall(role.encode()); connection.close()
if role == "outside":
    serve("9.9.9.9")
asked = {}
answers = {
    # The first answer passes; every later one leads inside.
    "rebinding.example": lambda count: ["9.9.9.9"] if count == 1 else ["127.0.0.1"],
    "mixed.example": lambda count: ["127.0.0.1", "169.254.169.254", "10.0.0.1", "9.9.9.9"],
    "local.example": lambda count: ["10.0.0.1"],
    "metadata.example": lambda count: ["169.254.169.254"],
    "mapped.example": lambda count: ["::ffff:127.0.0.1"],
}
def names():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))
    note("ready", "names")
    while True:
        query, sender = server.recvfrom(512)
        at, labels = 12, []
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode()); at += query[at] + 1
        kind, name = struct.unpack(">H", query[at + 1:at + 3])[0], ".".join(labels)
        family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
        if kind == 1:
            asked[name] = asked.get(name, 0) + 1
            note("asked", name)
        found = answers.get(name, lambda count: [])(asked.get(name, 1))
        found = [one for one in found if family == (socket.AF_INET6 if ":" in one else socket.AF_INET)]
        text = query[:2] + b"\x81\x80\x00\x01" + struct.pack(">H", len(found)) + bytes(4) + query[12:at + 5]
        for one in found:
            data = socket.inet_pton(family, one)
            text += b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(data)) + data
        server.sendto(text, sender)
threading.Thread(target=names, daemon=True).start()
serve("127.0.0.1")
"#;
/// Makes the network and runs a program in it: directory, Python's text, program, name of the test.
const NETWORK: &str = r#"
set -e
mount --bind "$1/resolv.conf" /etc/resolv.conf
ip link set lo up
unshare -n sleep 60 & other=$!
while [ "$(readlink /proc/self/ns/net)" = "$(readlink /proc/$other/ns/net)" ]; do sleep 0.02; done
ip link add outer type veth peer name inner netns $other
ip addr add 9.9.9.1/24 dev outer && ip link set outer up
nsenter -t $other -n sh -c 'ip link set lo up && ip addr add 9.9.9.9/24 dev inner && ip link set inner up'
nsenter -t $other -n python3 -c "$2" outside "$1" & outside=$!
python3 -c "$2" inside "$1" & inside=$!
trap 'kill $other $outside $inside' EXIT
while [ "$(wc -l < "$1/ready")" -lt 3 ]; do sleep 0.02; done
"$3" --exact "$4" --nocapture
"#;

#[test]
fn a_name_server_that_changes_its_answer_leads_nowhere_else() {
    let settings = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    if settings.starts_with(MARK) {
        return inside();
    }
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    std::fs::write(directory.path().join("resolv.conf"), format!("{MARK}\nnameserver 127.0.0.1\n")).unwrap();
    std::fs::write(directory.path().join("ready"), "").unwrap();
    let program = std::env::current_exe().unwrap();
    let name = "egress::tests::rebinding::a_name_server_that_changes_its_answer_leads_nowhere_else";
    let possible = unshared().args(["sh", "-c", "ip link add outer type veth peer name inner"]).output();
    if !possible.is_ok_and(|output| output.status.success()) {
        return eprintln!("SKIPPED: no network can be made here");
    }
    let ran = unshared().args(["sh", "-c", NETWORK, "sh", place, PROGRAMS]).arg(program).arg(name).output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&ran.stderr));
    let noted = |file: &str| std::fs::read_to_string(directory.path().join(file)).unwrap();
    assert_eq!(noted("reached"), "outside\noutside\n", "nothing inside was reached");
    assert_eq!(noted("asked").matches("rebinding.example").count(), 2, "one lookup for each connection");
}

#[expect(clippy::disallowed_methods, reason = "makes the network of a test")]
fn unshared() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "--mount"]);
    command
}

/// In that network.
fn inside() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let connect = |name: &str| {
        let (reach, to) = (Reach::default(), format!("{name}:80").parse().unwrap());
        let mut stream = runtime.block_on(reach.connect(&to, false))?.into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        Ok(said)
    };
    assert_eq!(connect("rebinding.example").as_deref(), Ok("outside"));
    assert_eq!(connect("rebinding.example"), Err(NetRefusal::ThisMachine));
    assert_eq!(connect("mixed.example").as_deref(), Ok("outside"));
    assert_eq!(connect("local.example"), Err(NetRefusal::LocalNetwork));
    assert_eq!(connect("metadata.example"), Err(NetRefusal::NeverReached));
    assert_eq!(connect("mapped.example"), Err(NetRefusal::NeverReached));
    assert_eq!(connect("unknown.example"), Err(NetRefusal::NoAddress));
}
