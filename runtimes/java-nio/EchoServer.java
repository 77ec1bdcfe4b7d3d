import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;

/** One thread and one Selector, which is epoll on Linux; a buffer per connection. */
public final class EchoServer {
    private static void accept(ServerSocketChannel listener, Selector selector)
            throws IOException {
        SocketChannel channel = listener.accept();
        if (channel == null) {
            return;
        }
        channel.configureBlocking(false);
        channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
        channel.register(selector, SelectionKey.OP_READ, ByteBuffer.allocateDirect(16384));
    }

    private static void echo(SelectionKey key) {
        SocketChannel channel = (SocketChannel) key.channel();
        ByteBuffer buffer = (ByteBuffer) key.attachment();
        try {
            if (key.isReadable()) {
                buffer.clear();
                if (channel.read(buffer) < 0) {
                    channel.close();
                    return;
                }
                buffer.flip();
            }
            channel.write(buffer);
            key.interestOps(buffer.hasRemaining() ? SelectionKey.OP_WRITE : SelectionKey.OP_READ);
        } catch (IOException error) {
            close(channel);
        }
    }

    private static void close(SocketChannel channel) {
        try {
            channel.close();
        } catch (IOException ignored) {
            // it is gone either way
        }
    }

    public static void main(String[] args) throws IOException {
        Selector selector = Selector.open();
        ServerSocketChannel listener = ServerSocketChannel.open();
        listener.bind(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])), 1024);
        listener.configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        while (true) {
            selector.select(key -> {
                if (key.isAcceptable()) {
                    try {
                        accept(listener, selector);
                    } catch (IOException error) {
                        System.err.println("accept: " + error);
                    }
                } else {
                    echo(key);
                }
            });
        }
    }
}
