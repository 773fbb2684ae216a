//! The protocol between Hearth and a bridge, a program that connects it with a network: one JSON object per line over
//! the socket that the bridge inherits as descriptor 3. `docs/bridges.md` describes it for authors of bridges.

mod daemon_frames;
mod fit;
mod frames;
mod line;
pub mod markdown;
pub mod mqtt;
pub mod program;

pub use daemon_frames::{
    CardOption, Cursors, Deliver, DeliverAct, Empty, Hello, Limits, Named, Place, SentFile, ShownCard, ShutDown,
    ToBridge,
};
pub use frames::{
    Action, Attempted, BadFrame, Capabilities, Choice, Event, Failed, FromBridge, GivenFile, Idempotency, Me, Opened,
    Outcome, Pong, Ready, Sender, Sent, Until,
};
pub use line::{DEPTH_MAX, FRAME_BYTES_MAX, Lines, TooLong};

/// The version of the protocol.
pub const PROTOCOL: u32 = 1;

/// How many messages and presses may wait for an answer.
pub const UNACKED_MAX: usize = 64;

/// Size limit of a file in bytes, in both directions.
pub const FILE_BYTES_MAX: u64 = 64 << 20;
