//! What a crawl keeps: WARC records and bodies, judged by readers apart from the code that writes them.

mod exchanges;
mod kit;
mod whole;
