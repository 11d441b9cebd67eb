"""Sources of raw messages: each gives (topic, partition, offset, payload)."""
