"""Is this a correct echo server, what limits it, how does it stand?

command line -> conversations, crowds, turns with models -> verdict -> one page
"""
