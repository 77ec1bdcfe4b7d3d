// One thread; Boost.Asio waits in epoll and calls back. A session keeps itself alive
// through the callbacks that hold it, and reads on once its answer is written.
#include <boost/asio.hpp>
#include <boost/version.hpp>
#include <array>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string_view>
#include <utility>

using boost::asio::ip::tcp;

class Session : public std::enable_shared_from_this<Session> {
public:
    explicit Session(tcp::socket socket) : socket_(std::move(socket)) {}

    void read()
    {
        auto self = shared_from_this();
        socket_.async_read_some(boost::asio::buffer(data_),
            [this, self](boost::system::error_code error, std::size_t n) {
                if (!error)
                    write(n);
            });
    }

private:
    void write(std::size_t n)
    {
        auto self = shared_from_this();
        boost::asio::async_write(socket_, boost::asio::buffer(data_, n),
            [this, self](boost::system::error_code error, std::size_t) {
                if (!error)
                    read();
            });
    }

    tcp::socket socket_;
    std::array<char, 16384> data_;
};

static void accept(tcp::acceptor &acceptor)
{
    acceptor.async_accept(
        [&acceptor](boost::system::error_code error, tcp::socket socket) {
            if (!error)
                std::make_shared<Session>(std::move(socket))->read();
            accept(acceptor);
        });
}

int main(int argc, char **argv)
{
    if (argc == 2 && std::string_view(argv[1]) == "--version") {
        std::cout << "Boost " << BOOST_LIB_VERSION << '\n';
        return 0;
    }
    boost::asio::io_context context(1);
    auto port = static_cast<unsigned short>(argc > 1 ? std::atoi(argv[1]) : 0);
    tcp::acceptor acceptor(
        context, tcp::endpoint(boost::asio::ip::address_v4::loopback(), port));
    accept(acceptor);
    context.run();
}
