// One thread; libuv below waits in epoll and calls back. pipe() pauses a client that
// does not read, and ends when the client has ended.
'use strict';

const net = require('node:net');

const server = net.createServer({ allowHalfOpen: true }, (socket) => {
  socket.on('error', () => socket.destroy());
  socket.pipe(socket);
});

server.listen(Number(process.argv[2]), '127.0.0.1', 1024);
