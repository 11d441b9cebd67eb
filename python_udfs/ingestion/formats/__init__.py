"""Log formats, one module each: from raw messages to one envelope, and row images."""
