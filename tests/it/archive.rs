//! What a crawl keeps: WARC records and bodies, judged by readers apart from the code that writes them.

mod bodies;
mod crashes;
mod exchanges;
mod files;
mod kit;
mod readers;
mod whole;
