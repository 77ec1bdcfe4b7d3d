"""Server on one host, clients on many: what starts, watches and ends them."""
