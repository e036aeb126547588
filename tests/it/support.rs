//! What several tests share.

pub(crate) mod virtual_host;
//! What several integration tests share.
pub(crate) mod disk;
pub(crate) mod records;
//! What the integration tests share: servers that count, and judges of what they counted.
pub(crate) mod lab;
pub(crate) mod oracle;
