//! What several tests share.

pub(crate) mod virtual_host;
//! What several integration tests share.
pub(crate) mod disk;
pub(crate) mod records;
