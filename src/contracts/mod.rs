//! EDGE: the file contracts other than the mailbox: what lies in an agent's folder and home, the allow-list of mounts.
