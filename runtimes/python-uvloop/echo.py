"""A coroutine per connection over asyncio's streams; the loop is libuv's, in C."""

import asyncio
import contextlib
import sys

import uvloop


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


uvloop.run(main())
