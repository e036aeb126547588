//! What the integration tests share: servers that count, and judges of what they counted.

pub(crate) mod lab;
pub(crate) mod oracle;
