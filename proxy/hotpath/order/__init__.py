"""The order of one client's replies, where several sources send them.

reply_order.py  the order in which a client asked, where several sources send its replies
interleaved.py  replies of several connections to one read of a client, in its order
join.py         replies of several nodes that become one
split_join.py   the same for what the intake has split
"""
