import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.Executors;

/** A virtual thread per connection (Java 21): blocking code, parked by the runtime. */
public final class EchoServer {
    private static void serve(Socket socket) {
        try (socket) {
            socket.setTcpNoDelay(true);
            socket.getInputStream().transferTo(socket.getOutputStream());
        } catch (IOException ignored) {
            // this client is gone; the others do not care
        }
    }

    public static void main(String[] args) throws IOException, InterruptedException {
        int port = Integer.parseInt(args[0]);
        try (var listener = new ServerSocket(port, 1024, InetAddress.getLoopbackAddress());
                var executor = Executors.newVirtualThreadPerTaskExecutor()) {
            while (true) {
                try {
                    Socket socket = listener.accept();
                    executor.submit(() -> serve(socket));
                } catch (IOException error) {
                    System.err.println("accept: " + error);
                    Thread.sleep(10); // until a client leaves its descriptor
                }
            }
        }
    }
}
