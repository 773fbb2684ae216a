//! System calls that the filter denies to agents in containers, and those that it allows.

use super::setup::Setup;
use crate::host::skipped;

/// Each way to a user namespace with the system's error, and the system calls that programs need.
const TRY: &str = r#"
import ctypes, errno, os, platform, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
clone, unshare, setns = (56, 272, 308) if platform.machine() == "x86_64" else (220, 97, 268)
clone3, newuser, chld = 435, 0x10000000, 17
def call(name, *arguments):
    made = libc.syscall(*(ctypes.c_long(argument) for argument in arguments))
    if made == 0 and name.startswith("clone"):
        os._exit(0)
    if made > 0:
        os.waitpid(made, 0)
    print(name, errno.errorcode[ctypes.get_errno()] if made < 0 else "done", flush=True)
call("clone", clone, newuser | chld, 0, 0, 0, 0)
call("clone-mount", clone, newuser | 0x20000 | chld, 0, 0, 0, 0)
call("clone3", clone3, 0, 0)
call("unshare", unshare, newuser)
call("unshare-files", unshare, 0x400)
call("setns", setns, -1, 0)
call("clone-plain", clone, chld, 0, 0, 0, 0)
thread = threading.Thread(target=lambda: print("thread done", flush=True))
thread.start()
thread.join()
worker = "new (require('worker_threads').Worker)('0', {eval: true})"
for argv in (["unshare", "--user", "true"], ["git", "--version"], ["node", "-e", worker], ["claude", "--version"]):
    ended = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    print(argv[0], "fails" if ended else "works", flush=True)
"#;

#[test]
fn no_way_leads_to_a_user_namespace_and_programs_run_as_ever() {
    let Some(mut setup) = Setup::new("provider = \"echo\"\nnetwork = \"none\"") else { return };
    setup.host.start();
    setup.types(1, "hello");
    setup.wait_shown("hello");
    let container = setup.container();
    let doctor = setup.host.run(&["doctor"], b"").stdout;
    if doctor.contains("agents can make user namespaces") {
        skipped("Podman shows no seccomp profile to make stricter");
        return;
    }
    let found = setup.podman(&["exec", &container, "python3", "-c", TRY]);
    insta::assert_snapshot!(found, @r"
    clone EPERM
    clone-mount EPERM
    clone3 ENOSYS
    unshare EPERM
    unshare-files EPERM
    setns EPERM
    clone-plain done
    thread done
    unshare fails
    git works
    node works
    claude works
    ");
    setup.settle();
    setup.stop();
}
