"""Replies to reads of hot keys, kept in a worker's memory and true to Redis.

fills.py     fills a cache over a tracking connection, and empties it by what Redis tells there
expected.py  what was sent on such a connection: fills, and questions whether Redis lives
frames.py    the frames in its bytes
barrier.py   lets a cache answer again, once Redis has told what commands of unknown keys have changed

``hotpath.cache.reply_cache`` holds the replies.
"""
