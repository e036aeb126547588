//! What several tests share.

pub(crate) mod virtual_host;
