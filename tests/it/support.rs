//! What the integration tests share.

pub(crate) mod raw_server;
