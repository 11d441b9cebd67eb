"""MongoDB's changes: the events of a change stream, and Debezium's messages of them.

    {"_id": {"_data": hex}, "operationType", "clusterTime": {"$timestamp": {"t": s, "i"}},
     "wallTime", "ns": {"db", "coll"}, "documentKey": {"_id"}, "fullDocument": {...},
     "fullDocumentBeforeChange": {...}, "lsid", "txnNumber",
     "updateDescription": {"updatedFields": {...}, "removedFields": [..], "truncatedArrays": [..]}}
    {"op": "c|u|d|r", "source": {"db", "collection", "ts_ms", "ord", "txnNumber", "wallTime"},
     "after": "{...}", "before": "{...}", "transaction": {"total_order"},
     "updateDescription": {"updatedFields": "{...}", ...}}    with or without a schema block

https://www.mongodb.com/docs/manual/reference/change-events/ and
https://debezium.io/documentation/reference/stable/connectors/mongodb.html. Values are Extended
JSON: relaxed, canonical, or the older form that Debezium writes ({"$date": ms}). Debezium's
documents are JSON within a text, and the key of a document stands in the message's key: files
don't hold those, so read Debezium's topics from Kafka, or have its documents (`after`, `before`)
in every message. A message whose document isn't known is refused. None of this was seen from a
real server: it goes by the documentation, and by resume tokens that stand there.

What identifies and orders a change:
- `clusterTime` (Debezium: source.ts_ms and ord): binlog_position is its seconds times 2**31, plus
  its ordinal. The changes of a transaction share it, as may changes of several shards.
- `row_number` distinguishes those. The resume token is a hex KeyString: time, version, token type,
  place in the transaction, collection, key. The place times 2**32 orders the transaction; 32 bits
  of the token's MD5 are added, for events of other shards have the same place (two of them at
  one time and place are taken for one change once in four billion such pairs).
- Debezium leaves the token out. Within a transaction its `transaction.total_order` is taken
  (provide.transaction.metadata=true); without it such a message is refused, as its place isn't
  known. Else 60 bits of the MD5 of collection, op and key: no document changes twice at one time.
- The same change by both producers has two row numbers: take a collection from one of them.
- `xid` is txnNumber, which is a number within one client session only.

What a change holds of its document; the typed row holds no more, in the columns of EXTRA:
- An insert or replacement has the whole document. A delete has the key alone, and what it deleted
  where the collection keeps pre-images.
- An update has what it set and removed. A document that was looked up (`updateLookup`) is read
  after the update and may be of a later version, or missing, so nothing is taken from it:
  `known_columns` names the columns that have their values, the others are null, unknown.
  Post-images are exact: declare them by the option `full_document`. With a pre-image, the columns
  that the update doesn't tell have their values from it.
- Without a pre-image `before` is null, of an update or delete too, and metadata_changes with it:
  such rows can't be made retract rows, and the option `pre_images: required` refuses them. They
  can be folded: a column's value is the value in its newest row that knows it. The other fields
  are those of the newest document_rest, changed by each document_patch behind it.
- An update may set a part of a column: an element of an array, a field of a nested document,
  which a key like tags.0 shows. The column's value isn't known then, unless by a post-image;
  such a change is refused. Declare the parts (see below), or let the column stay in
  `document_rest`.
- A row of a snapshot stands before all changes, the newest snapshot last: what a change holds is
  newer, and what no change holds is as it was when the row was read. With `pre_images: required`
  it counts as in other formats: for a document that has no change by then.
- A `drop`, or a `rename` away, deletes each document that the collection had: whole where its
  newest row holds all columns, else by its key. Before a `dropDatabase` each collection has its
  own `drop`. A `rename` onto the collection does the same, and is refused: the documents that came
  with it aren't known. `invalidate` ends a stream, it carries nothing. Debezium sends none of
  these.
- A cut column that an update doesn't tell doesn't date it: the time of the change does.

Columns are the document's fields by name; a name with dots (an alias: {city: address.city}) goes
into nested documents, not into arrays. `_id` is the key: a column of that name, or with that
alias. A document is taken to hold a column by one of its names at a time. Fields whose own names
hold dots can't be distinguished from nested fields in updates.

Two documents may differ in the type of their ids alone, 1 and "1". Both would be "1" in a text
column: an id that is a text and reads like one of another type is refused there, unless the option
`ids` states that all of them are texts; then the others are. A json column takes them all. A
column of whole numbers refuses true and false as ids.

Values: ObjectIds, UUIDs and numbers are texts in a text column; true and false are 1 and 0 in a
number's. A MongoDB date is an instant: declare it `timestamp` (`date` where it is midnight UTC;
as `datetime`, local time, it is refused). What is nested is JSON text, all of a `json` column is;
its keys are in alphabetical order, its numbers without zeros at their end, as MySQL's are.
"""

from __future__ import annotations

from python_udfs.ingestion.formats.mongodb.envelopes import envelope, table_moves
from python_udfs.ingestion.formats.mongodb.row_images import images

__all__ = ["EXACT_NAMES", "EXTRA", "OPTIONS", "WHOLE_IMAGES", "envelope", "images", "table_moves"]


OPTIONS = {
    # what the document of an update is: looked up (may be later), or the post-image, where there
    # is one (else the update names its fields), or always
    "full_document": ("lookup", "whenAvailable", "required"),
    # which types of ids a text column of an _id takes
    "ids": ("any", "texts"),
    # whether an update or delete without the document before it is refused
    "pre_images": ("any", "required"),
}
WHOLE_IMAGES = False  # an update may tell only what it changed
EXACT_NAMES = True  # collections may differ in upper and lower case alone
# columns of the typed rows beside those of every format, see `images`
EXTRA = {
    "known_columns": "array<string>",
    "document_rest": "string",
    "document_patch": "string",
}
