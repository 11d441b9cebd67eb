"""A live log: MySQL, Maxwell and Kafka run, dbt follows them, and everything is killed."""
