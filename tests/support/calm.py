"""A loop on which nothing goes wrong unseen."""

import asyncio
import gc
from contextlib import asynccontextmanager

from support.waiting import until


@asynccontextmanager
async def calm_loop():
    """Fail on whatever reaches the loop's exception handler, and on tasks that are left behind."""
    loop = asyncio.get_running_loop()
    unexpected = []
    loop.set_exception_handler(lambda _, context: unexpected.append(context))
    before = asyncio.all_tasks()
    yield
    await until(lambda: asyncio.all_tasks() <= before | {asyncio.current_task()}, "the end of all tasks")
    gc.collect(1)  # young exceptions that nobody retrieved speak up
    await asyncio.sleep(0)
    assert unexpected == []
