//! What several tests share: servers that count, judges of what they counted, virtual time, bad disks.

pub(crate) mod answers;
pub(crate) mod binary;
pub(crate) mod disk;
pub(crate) mod engine;
pub(crate) mod lab;
pub(crate) mod oracle;
pub(crate) mod power;
pub(crate) mod pty;
pub(crate) mod raw_server;
pub(crate) mod records;
pub(crate) mod virtual_clock;
pub(crate) mod virtual_host;
pub(crate) mod warc;
