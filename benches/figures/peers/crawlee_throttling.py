"""A crawl of everything that the first page leads to, with Crawlee and, where it has one, its throttling manager."""

import asyncio
import sys

from crawlee.crawlers import ParselCrawler, ParselCrawlingContext

try:
    from crawlee.request_loaders import ThrottlingRequestManager
    from crawlee.storages import RequestQueue
except ImportError:
    ThrottlingRequestManager = None


async def main() -> None:
    manager = None
    if ThrottlingRequestManager is not None:
        queue = await RequestQueue.open()
        manager = ThrottlingRequestManager(queue, domains=["127.0.0.1"], request_manager_opener=RequestQueue.open)
    crawler = ParselCrawler(request_manager=manager, max_request_retries=10, respect_robots_txt_file=True)

    @crawler.router.default_handler
    async def handle(context: ParselCrawlingContext) -> None:
        await context.enqueue_links()

    await crawler.run([sys.argv[1]])


asyncio.run(main())
