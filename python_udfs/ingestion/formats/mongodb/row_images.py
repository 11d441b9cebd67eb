"""The documents of MongoDB's changes as images of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from python_udfs.ingestion.formats.exact_numbers import is_no_double
from python_udfs.ingestion.formats.json_lines import half_character, not_null
from python_udfs.ingestion.formats.mongodb.documents import (
    DOCUMENT,
    event_of,
    event_schema,
    key_document,
)
from python_udfs.ingestion.formats.mongodb.values import (
    mistakable_id,
    parsed_value,
    scalar_of,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from python_udfs.ingestion.tables.source import TableSource

_BODY = dict.fromkeys(
    (
        "operationType",
        "documentKey",
        "fullDocument",
        "fullDocumentBeforeChange",
        "updateDescription",
        "after",
        "before",
        "patch",
    ),
    "string",
)
_PATCH = (
    "struct<updatedFields string, removedFields array<string>, "
    "truncatedArrays array<struct<field string, newSize bigint, size bigint>>>"
)


def images(messages: DataFrame, source: TableSource) -> DataFrame:
    """Row messages with what they hold of their documents.

    Returns:
        messages with the columns of maxwell.images, where
        data: the key and the columns of `known_columns`, the others are null;
        before: null where it isn't known: there is no pre-image;
        and with the columns of EXTRA:
        known_columns: the declared columns whose values `data` has besides the key's; null:
            all of them. Empty for a delete without pre-image;
        document_rest: JSON text of the fields that aren't declared, where the message has the
            whole document after the change; null elsewhere;
        document_patch: JSON text of an update's description, where it hasn't.
    """
    from pyspark.sql import functions as F

    frame = messages.withColumn("_body", F.from_json("payload", event_schema(_BODY)))
    frame = frame.withColumn("_body", event_of(F.col("_body"), _BODY))
    is_update, is_delete = F.col("op") == "update", F.col("op") == "delete"
    # of Debezium, an update without description is a replacement
    described = is_update & F.coalesce(
        F.col("_body.operationType") != "replace", F.col("_body.updateDescription").isNotNull()
    )
    after = F.coalesce("_body.fullDocument", "_body.after")
    before = F.coalesce("_body.fullDocumentBeforeChange", "_body.before")
    exact = F.lit(source.options["full_document"] != "lookup")
    frame = frame.select(
        "*",
        after.alias("_after"),
        before.alias("_before_text"),
        described.alias("_described"),
        (~is_delete & after.isNotNull() & (~described | exact)).alias("_whole"),
        F.from_json("_body.updateDescription", _PATCH).alias("_patch"),
        key_document(F.col("_body")).alias("_key"),
    )
    no_names = F.array().cast("array<string>")
    document = F.when(F.col("_whole"), F.from_json("_after", DOCUMENT)).when(
        F.col("_described"), F.from_json(F.coalesce("_patch.updatedFields", F.lit("{}")), DOCUMENT)
    )
    frame = frame.withColumn(
        "_prior", F.when(is_update | is_delete, F.from_json("_before_text", DOCUMENT))
    ).withColumn("_document", F.when(is_delete, F.col("_prior")).otherwise(document))
    changed_fields = F.array_union(
        F.map_keys("_document"), F.coalesce(F.col("_patch.removedFields"), no_names)
    )
    cut = F.coalesce(F.col("_patch.truncatedArrays.field"), no_names)
    frame = frame.select(
        "*",
        _scalars(source, "_document", "_key").alias("_data"),
        _scalars(source, "_prior").alias("_before"),
        F.when(F.col("_described") & ~F.col("_whole"), changed_fields).alias("_changed_fields"),
        F.when(F.col("_described") & ~F.col("_whole"), cut).alias("_cut"),
    )
    changed_columns = [
        F.when(
            F.arrays_overlap("_changed_fields", F.array(*map(F.lit, _prefixes(source, name)))),
            F.lit(name),
        )
        for name in source.columns
        if not _of_key(source, name)
    ]
    known = F.when(
        F.col("_changed_fields").isNotNull(),
        not_null(changed_columns),
    ).when(is_delete & F.col("_prior").isNull(), no_names)
    frame = frame.withColumn("_known", known)
    data, wrong_data = _struct(source, "_data", "data")
    previous, wrong_before = _struct(source, "_before", "before")
    wrong = F.concat_ws("; ", *wrong_data, *wrong_before)
    names = F.array(
        *[F.lit(source_name) for name in source.columns for source_name in source.names(name)]
    )
    unread = F.lit(True)
    for name in ("updatedFields", "removedFields", "truncatedArrays"):
        unread = unread & F.col("_patch")[name].isNull()
    reason = (
        F.when(
            is_update & F.col("_body.patch").isNotNull(),
            F.lit("a `patch` of the oplog: let Debezium read change streams (version 2 and later)"),
        )
        .when(
            F.col("_described") & unread,
            F.lit("an update without `updateDescription`, or one that can't be read"),
        )
        .when(
            F.col("_described")
            & ~F.col("_whole")
            & (source.options["full_document"] == "required"),
            F.lit("an update without post-image, which the option full_document requires"),
        )
        .when(
            (is_update | is_delete)
            & F.col("_before_text").isNull()
            & (source.options["pre_images"] == "required"),
            F.lit("an update or delete without pre-image, which the option pre_images requires"),
        )
        .when(
            ~is_delete & ~F.col("_described") & F.col("_after").isNull(),
            F.lit("no `fullDocument` (Debezium: no `after`)"),
        )
        .when(
            (~is_delete & F.col("_document").isNull())
            | (F.col("_before_text").isNotNull() & F.col("_prior").isNull()),
            F.lit("a document that can't be read: no object, or a name twice in it"),
        )
        .when(
            is_no_double(F.col("payload"))
            | is_no_double(F.concat_ws(" ", "_after", "_before_text", "_body.updateDescription")),
            F.lit(
                "a number that neither a double nor a 64-bit integer holds: its digits can't be "
                "read as they are written"
            ),
        )
        .when(wrong != "", wrong)
        .otherwise(F.coalesce(_partly_set(source), half_character(source)))
    )
    patch = F.concat(
        F.lit('{"updatedFields":'),
        F.coalesce("_patch.updatedFields", F.lit("{}")),
        F.lit(',"removedFields":'),
        F.to_json(F.coalesce("_patch.removedFields", no_names)),
        F.lit(',"truncatedArrays":'),
        F.coalesce(F.to_json("_patch.truncatedArrays"), F.lit("[]")),
        F.lit("}"),
    )
    rest = F.map_filter("_document", lambda name, _: ~F.array_contains(names, name))
    frame = frame.select(
        "*",
        data.alias("data"),
        F.when(F.col("_prior").isNotNull(), previous).alias("before"),
    )
    completed = F.struct(
        *[
            F.when(
                # null: all of them are known
                F.array_contains("_known", name) | F.col("_known").isNull(),
                F.col("data")[name],
            )
            .otherwise(F.coalesce(F.col("data")[name], F.col("before")[name]))
            .alias(name)
            for name in source.columns
        ]
    )
    return frame.withColumn("image_reason", reason).select(
        *messages.columns,
        completed.alias("data"),
        "before",
        "image_reason",
        F.when(F.col("before").isNull(), F.col("_known")).alias("known_columns"),
        F.when(F.col("_whole"), F.to_json(rest)).alias("document_rest"),
        F.when(F.col("_changed_fields").isNotNull(), patch).alias("document_patch"),
    )


def _of_key(source: TableSource, name: str) -> bool:
    """Whether a column is of the documentKey, which is there in every change."""
    return name in source.primary_key or _of_id(source, name)


def _of_id(source: TableSource, name: str) -> bool:
    """Whether a column is the document's _id, or a part of it."""
    return "_id" in [source_name.split(".")[0] for source_name in source.names(name)]


def _prefixes(source: TableSource, column: str) -> list[str]:
    """Names that set the whole column: its paths, and the documents that they go through."""
    found = []
    for path in source.names(column):
        parts = path.split(".")
        found += [".".join(parts[:size]) for size in range(len(parts), 0, -1)]
    return found


def _begin_with(names: str, begin: str) -> Column:
    """Condition: one of the names does."""
    from pyspark.sql import functions as F

    return F.exists(names, lambda name: F.startswith(name, F.lit(begin)))


def _partly_set(source: TableSource) -> Column:
    """Text naming the columns of which the update sets a part only; null where there are none."""
    from pyspark.sql import functions as F

    found = []
    for name in source.columns:
        if not _of_key(source, name):
            inside = F.lit(False)
            for path in source.names(name):
                inside = (
                    inside
                    | _begin_with("_changed_fields", path + ".")
                    | _begin_with("_cut", path + ".")
                    | F.array_contains("_cut", path)
                )
            found.append(F.when(inside, F.lit(name)))
    listed = F.concat_ws(", ", *found)
    text = F.concat(
        F.lit("the update sets a part of "),
        listed,
        F.lit(
            ", whose value isn't known from it (keep post-images and declare them by the option "
            "full_document, or declare the parts)"
        ),
    )
    return F.when(listed != "", text)


def _scalars(source: TableSource, *documents: str) -> Column:
    """The columns' values as an array of structs (kind, text, json); null where there is none.

    Args:
        documents: columns with the document, and for the key's columns one to take them from
            where that has none.
    """
    from pyspark.sql import functions as F

    def value(document: str, path: str) -> Column:
        # of an update's description the names themselves have dots
        parts = path.split(".")
        found = []
        for size in range(len(parts), 0, -1):
            inner = F.col(document)[".".join(parts[:size])]
            steps = "".join(f"['{part}']" for part in parts[size:])
            found.append(F.try_variant_get(inner, f"${steps}", "variant") if steps else inner)
        return F.coalesce(*found)

    values = []
    for name in source.columns:
        taken = documents if _of_key(source, name) else documents[:1]
        values.append(F.coalesce(*[value(image, p) for image in taken for p in source.names(name)]))
    with_json = F.transform(
        F.array(*values), lambda value: F.struct(value.alias("v"), F.to_json(value).alias("json"))
    )
    return F.transform(with_json, scalar_of)


def _struct(source: TableSource, part: str, label: str) -> tuple[Column, list[Column]]:
    """The columns in their `parsed` types, of what _scalars found; and texts of misfits."""
    from pyspark.sql import functions as F

    fields, wrong = [], []
    for place, (name, kind) in enumerate(source.columns.items()):
        element = F.col(part)[place]
        value = parsed_value(element, kind)
        fields.append(value.alias(name))
        found = F.concat(F.lit(f"{label}.{name} = "), F.substring(element["text"], 1, 80))
        text = F.concat(found, F.lit(" is no "), F.lit(kind.declared))
        if kind.kind == "datetime":
            hint = F.lit(", but an instant: declare the column timestamp")
            text = F.when(element["kind"] == "instant", F.concat(text, hint)).otherwise(text)
        wrong.append(F.when(element.isNotNull() & value.isNull(), text))
        if _of_id(source, name):
            mistakable = mistakable_id(element, kind, source.options["ids"])
            wrong.append(F.concat(found, F.lit(" "), mistakable))
    return F.struct(*fields), wrong
