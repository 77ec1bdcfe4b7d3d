"""A thread per connection, as the socketserver module of the standard library does it.

All threads take turns on one interpreter lock.
"""

import socketserver
import sys


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024


with Server(("127.0.0.1", int(sys.argv[1])), Echo) as server:
    server.serve_forever()
