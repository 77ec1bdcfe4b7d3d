"""What single studies compute that is an algorithm of its own; a file per study."""
