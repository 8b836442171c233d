"""A traced command; tests replace the fields that they are about."""

from proxy.traffic.trace import Trace

READ = Trace(
    at=1000.0,
    weight=10,
    command="GET",
    keys=(b"user:1",),
    writes=(False,),
    patterns=("user:{int}",),
    app="shop",
    who=("default", "web", "redis-py 8", "10.0.0.1:5555"),
    bytes_in=30,
    bytes_out=100,
    first_line=b"$93\r\n",
    in_proxy=0.0001,
    at_redis=0.001,
)
