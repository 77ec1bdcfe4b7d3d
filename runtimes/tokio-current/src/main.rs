//! A task per connection, on one thread; the reactor below
//! waits in epoll.
use std::env;
use tokio::io::{self, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

async fn serve(mut socket: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let n = socket.read(&mut buffer).await?;
        if n == 0 {
            return Ok(());
        }
        socket.write_all(&buffer[..n]).await?;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let port = env::args().nth(1).expect("usage: echo PORT");
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(format!("127.0.0.1:{port}").parse().expect("a port"))?;
    let listener = socket.listen(1024)?;
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                tokio::spawn(serve(socket));
            }
            Err(error) => eprintln!("accept: {error}"),
        }
    }
}
