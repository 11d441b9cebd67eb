"""What a project declares of its tables and topics, checked: all problems in one message."""
