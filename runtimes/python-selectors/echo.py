"""One thread asks epoll who is ready, through the selectors module.

What a client does not read yet is kept, and meanwhile nothing more is read from it.
"""

import selectors
import socket
import sys

selector = selectors.DefaultSelector()


def accept(key, _events):
    try:
        sock, _address = key.fileobj.accept()
    except OSError:  # no descriptor is free: epoll tells of the client again
        return
    sock.setblocking(False)
    selector.register(sock, selectors.EVENT_READ, Client(sock))


class Client:
    def __init__(self, sock):
        self.sock = sock
        self.unsent = b""

    def __call__(self, key, events):
        try:
            if events & selectors.EVENT_READ:
                self.unsent = self.sock.recv(65536)
                if not self.unsent:
                    return self.close()
            sent = self.sock.send(self.unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            return self.close()
        self.unsent = self.unsent[sent:]
        wanted = selectors.EVENT_WRITE if self.unsent else selectors.EVENT_READ
        if key.events != wanted:
            selector.modify(self.sock, wanted, self)

    def close(self):
        selector.unregister(self.sock)
        self.sock.close()


listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=1024)
selector.register(listener, selectors.EVENT_READ, accept)
while True:
    for key, events in selector.select():
        key.data(key, events)
