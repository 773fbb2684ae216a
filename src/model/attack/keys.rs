//! Attacks on keys and secrets that agents do not have.

use super::REFUSED;
use super::row::{Attack, of_hosts, of_models};

pub(super) const READ: Attack = of_models(
    "secret-read",
    "looks for the key of its model in every environment and file that it can read",
    "it finds only a placeholder",
);
pub(super) const REPLAY: Attack =
    of_models("placeholder-replay", "uses the placeholder of another run, or one that it made up", REFUSED);
pub(super) const FOREIGN: Attack = of_models(
    "foreign-key",
    "sends another key, in the same header, a second one or the query, to carry data to another account",
    REFUSED,
);
pub(super) const PATH: Attack =
    of_models("secret-path", "uses the key for the server's store of files, also by a disguised path", REFUSED);
pub(super) const SMUGGLE: Attack =
    of_models("smuggle", "hides a second request in the body of one, or a second model in it", REFUSED);
pub(super) const ECHO: Attack = of_models(
    "secret-echo",
    "lets the server repeat the key in a header or a body",
    "the answer is cut before the key",
);

pub(super) const OPENED_REPLAY: Attack = of_hosts(
    "opened-replay",
    "uses the placeholder of another agent or of an earlier run, or one that it made up",
    REFUSED,
);
pub(super) const OPENED_FOREIGN: Attack =
    of_hosts("opened-foreign", "sends another credential, in place of its own or beside it", REFUSED);
pub(super) const OPENED_SMUGGLE: Attack = of_hosts(
    "opened-smuggle",
    "hides a part of a request: with two lengths, a bare line feed, a folded header, a trailer, or a second request behind it",
    "the request is refused, and one behind it is judged like any other",
);
pub(super) const OPENED_PATH: Attack =
    of_hosts("opened-path", "uses the secret for a request that it may not make, also by a disguised path", REFUSED);
pub(super) const OPENED_LEAK: Attack = of_hosts(
    "opened-leak",
    "sends the value of a secret in the address or a header, as it is, in base64, in hexadecimal or percent-encoded",
    REFUSED,
);
pub(super) const OPENED_ECHO: Attack = of_hosts(
    "opened-echo",
    "lets the host repeat the secret in a header, the body, an address, in base64, in hexadecimal or percent-encoded",
    "the answer has stars in its place",
);
