//! What several integration tests share.

pub(crate) mod disk;
pub(crate) mod records;
