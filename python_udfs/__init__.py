"""What SQL can't do: reading logs, deserializing them, and the dbt adapter."""
