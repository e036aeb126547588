//! Small pictures of figures: bars, columns, and the windowed host table.

pub mod bars;
pub mod host_table;
