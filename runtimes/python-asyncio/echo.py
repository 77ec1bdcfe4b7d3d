"""A coroutine per connection over asyncio's streams; its loop waits in epoll."""

import asyncio
import contextlib
import sys


async def serve(reader, writer):
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def main():
    port = int(sys.argv[1])
    server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


asyncio.run(main())
