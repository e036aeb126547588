"""A crawl of everything that the first page leads to, with Scrapy."""

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


process = CrawlerProcess(settings={
        "LOG_ENABLED": False,
        "ROBOTSTXT_OBEY": True,
        "AUTOTHROTTLE_ENABLED": True,
        "AUTOTHROTTLE_START_DELAY": 0.5,
        "AUTOTHROTTLE_TARGET_CONCURRENCY": 1.0,
    })
process.crawl(Peer)
process.start()
