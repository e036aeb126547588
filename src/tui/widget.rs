//! Small pictures of figures: bars, columns, the windowed host table, the timeline.

pub mod bars;
pub mod host_table;
pub mod timeline;
