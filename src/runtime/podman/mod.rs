//! The Podman runtime: every incarnation is a container, reached over Podman's REST socket.

pub mod build;
