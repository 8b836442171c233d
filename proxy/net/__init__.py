"""Sockets and what waits for them: client and upstream connections, the pool, TLS, the embedded engine."""
