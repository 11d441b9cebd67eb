"""The decoder in the workers, see ingestion.fast."""
