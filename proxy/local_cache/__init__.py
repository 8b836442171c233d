"""Replies to reads of hot keys, kept in a worker's memory and true to Redis.

fills.py  fills a cache over a tracking connection, and empties it by what Redis tells there

``hotpath.reply_cache`` holds the replies.
"""
