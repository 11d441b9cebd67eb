"""From raw messages to typed rows: one module a format, one envelope out."""
