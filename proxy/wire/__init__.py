"""The grammar of the Redis protocol: requests, replies, encoding and limits. It knows no command."""
