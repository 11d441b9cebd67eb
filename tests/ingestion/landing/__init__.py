"""Kafka as a source: a real broker."""
