"""What CLIENT REPLY and MONITOR have made of a connection: see ``client_reply``. Values of ``Pinned.reply_mode``."""

ON = 0
OFF = 1
SKIP = 2
RELAYED = 3
