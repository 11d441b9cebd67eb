"""Columns that the workers add to messages."""

PROVEN = "proven_row"  # the row as a struct, null where it isn't proven
TWICE = "is_decoded_twice"  # whether the payload of a proven row is there, for Spark to decode too
# where a message may have several rows: the number of the proven row, and of a message that is
# decoded twice all proven rows
ROW, AGAIN = "proven_row_number", "proven_rows"
WRITTEN = "written_file"  # a WrittenFile as JSON, in a row that is no message
