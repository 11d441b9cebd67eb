"""What is known of a log beside its messages: order, column names, what is read again."""
