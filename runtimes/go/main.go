// A goroutine per connection, as net's documentation shows it: code that looks as
// if it blocked; the runtime parks the goroutine and asks epoll for all of them.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"runtime"
	"time"
)

func serve(conn net.Conn) {
	defer conn.Close()
	// Hidden behind io.Reader and io.Writer, so that io.Copy does not splice(2).
	io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn})
}

func main() {
	if os.Args[1] == "--version" {
		fmt.Println(runtime.Version())
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			log.Print(err)
			time.Sleep(10 * time.Millisecond) // until a client leaves its descriptor
			continue
		}
		go serve(conn)
	}
}
