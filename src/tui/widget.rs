//! Small pictures of figures: bars, columns, dots over time, and the windowed host table.

pub mod bars;
pub mod dots;
pub mod host_table;
pub mod timeline;
