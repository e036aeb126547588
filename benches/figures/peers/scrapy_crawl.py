"""A crawl of everything that the first page leads to, with Scrapy: `URL [autothrottle]`."""

import sys

import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor


class Peer(scrapy.Spider):
    name = "peer"
    start_urls = [sys.argv[1]]

    def parse(self, response):
        for link in LinkExtractor().extract_links(response):
            yield scrapy.Request(link.url)


settings = {"LOG_ENABLED": False, "ROBOTSTXT_OBEY": True}
if "autothrottle" in sys.argv[2:]:
    settings |= {
        "AUTOTHROTTLE_ENABLED": True,
        "AUTOTHROTTLE_START_DELAY": 0.5,
        "AUTOTHROTTLE_TARGET_CONCURRENCY": 1.0,
    }
process = CrawlerProcess(settings=settings)
process.crawl(Peer)
process.start()
