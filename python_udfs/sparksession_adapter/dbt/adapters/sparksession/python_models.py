"""Python models run in this process, on the session that their SQL neighbours use."""

from __future__ import annotations

import ast
import linecache
import os
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dbt.adapters.base import PythonJobHelper
from dbt.adapters.sparksession.edges import Foreign
from dbt.adapters.sparksession.project_code import find_code_of, ship_by_value
from dbt.adapters.sparksession.python_code import parsed_code
from dbt.adapters.sparksession.read_plans import MergedRows, ReadPlan
from dbt.adapters.sparksession.reading.definitions import (
    ACCEPT,
    MERGING,
    ON_CHANGE,
    PARTIAL_RUNS,
)
from dbt.adapters.sparksession.reading.imported_code import imported_code
from dbt.adapters.sparksession.reading.news import ADDING, OVERWRITING, strategy_of
from dbt.adapters.sparksession.services import Services
from dbt.adapters.sparksession.session import (
    REFUSALS,
    checkpointed,
    message_of,
    own_session,
)
from dbt_common.exceptions import DbtBaseException, DbtRuntimeError
from dbt_common.invocation import get_invocation_id
from pyspark.errors import PySparkValueError

MERGING_STRATEGY = "append_or_merge"
# what a model's code asks its handle to find out what the model holds
OF_ITSELF = frozenset({"is_incremental", "this", "own_rows_since", "snapshot_property"})
# why Spark can't make a pandas frame its own
UNTYPED = ("CANNOT_INFER_EMPTY_SCHEMA", "CANNOT_DETERMINE_TYPE")
ASKS_FOR_NEWS = frozenset({"new_rows", "new_changes"})


def result_view(alias: str) -> str:
    """Name of the temporary view that holds a Python model's rows until they are written."""
    return f"{alias}__dbt_python"


class SessionJobHelper(PythonJobHelper):
    """Runs `model(dbt, session)` and leaves its rows in a temporary view.

    Beyond dbt's own, the model's `dbt` has:
        dbt.ref(name): the input's rows as of the run's pinned snapshot.
        dbt.new_rows(dbt.ref(name)): the rows that the input got since this model's last commit.
        dbt.new_changes(dbt.ref(name), by): what changed in the input since then, as the SQL macro
            gives it: its columns, row_kind and sign, each change once.
        dbt.inputs_unchanged(): whether all inputs stand where the last commit read them.
        dbt.snapshot_property(key, default): a property of this model's last commit.
        dbt.input_properties(dbt.ref(name), *keys): of each commit that changed the input since
            this model's last commit, newest first, what it records of each of the keys, None of
            a key that it doesn't have; None where the commits aren't known. Ask after
            dbt.new_rows(dbt.ref(name)).
        dbt.set_snapshot_property(key, value): lets this commit say it, with the data.
        dbt.own_rows_since(key): rows that the model's commits added, from the commit that has
            `key` on.
        dbt.merge_rows(by, within, gone_when): lets the rows take the place of those with equal
            columns `by`; `within`: SQL conditions on dbt_internal_dest, to prune it by;
            `gone_when`: SQL condition on dbt_internal_source, rows of which only take away. For
            models of strategy append_or_merge.
        dbt.file_place(frame), dbt.add_files(files): where the model's workers may write the files
            of its table, and files that they wrote, see worker_files.py; the rows that the model
            returns then are none. dbt.may_write_files: whether it is worth asking.
        dbt.meta: the model's `meta` from YAML.
        dbt.meta_of(dbt.ref(name)): the same of the model `name`.
        dbt.meta_of_readers(): name -> the same, of each model that refers to this model.
        dbt.project_var(name, default): a var of the project, as --vars or dbt_project.yml has it.
        dbt.run_id, dbt.project_root: the invocation's id; the project's folder.
    A model may return None: nothing to add, no commit.
    """

    def __init__(self, parsed_model: dict[str, Any], credentials: Any, services: Services) -> None:
        self.model, self.credentials, self.services = parsed_model, credentials, services
        self.warehouse = services.warehouse

    def submit(self, compiled_code: str) -> None:
        root = self.warehouse.config.project_root
        find_code_of(root)
        ship_by_value(root, self.credentials.python_packages)
        spark = own_session(self.credentials).session
        # the model's source comes first in the compiled code, so line numbers are the file's
        path = os.path.join(root, self.model["original_file_path"])
        linecache.cache[path] = (
            len(compiled_code),
            None,
            compiled_code.splitlines(keepends=True),
            path,
        )
        scope: dict[str, Any] = {"__name__": f"dbt_model_{self.model['alias']}", "__file__": path}
        scope["spark"] = spark
        self.services.named_reads.check_session_reads(self.model)
        self._check_imports(root)
        try:
            exec(compile(compiled_code, path, "exec"), scope)
            dbt = scope["dbtObj"](self._load)
            dbt.new_rows, dbt.new_changes = self._new_rows, self._new_changes
            dbt.snapshot_property = self._snapshot_property
            dbt.set_snapshot_property = self.warehouse.set_snapshot_property
            dbt.own_rows_since = lambda key: self.services.commits.own_rows_since(self.model, key)
            dbt.input_properties = self._input_properties
            dbt.inputs_unchanged = lambda: self._plan().unchanged
            dbt.merge_rows = self._merge_rows
            files = self.services.worker_files
            dbt.may_write_files = files.are_allowed(self.model)
            dbt.file_place = lambda frame: files.place(self.model, frame)
            dbt.add_files = lambda added: files.add(self.model, added)
            dbt.meta = self.model["config"].get("meta") or {}
            dbt.meta_of = self._meta_of
            dbt.meta_of_readers = lambda: self.services.declarations.meta_of_readers(self.model)
            dbt.project_var = self._project_var
            dbt.run_id, dbt.project_root = get_invocation_id(), root
            if self._plan().rebuilds:
                dbt.is_incremental = False
            self._incremental = dbt.is_incremental
            self._answer(asks_itself=False)
            self._note_questions(dbt)
            frame = scope["model"](dbt, spark)
            self._keep(spark, frame)
        except Exception as exc:
            self.services.worker_files.give_up(self.model)
            raise DbtRuntimeError(self._report(exc, path)) from exc

    def _check_imports(self, root: str) -> None:
        """Refuse to make rows by code that is no more: their commit names the code that is there,
        and no later run would make them again. A log's rows stand whatever the code is.

        Raises:
            DbtRuntimeError: a file was edited after this process had imported it.
        """
        config = self.model["config"]
        if config.get(ON_CHANGE) == ACCEPT or "source" in (config.get("meta") or {}):
            return
        imported = imported_code(self.model["raw_code"], Path(root))
        if imported and imported.edited:
            raise DbtRuntimeError(
                f"{self.model['name']} imports {', '.join(imported.edited)}, which was edited "
                "after this process had imported it, so that the old code would make rows that "
                "count as made by the new code; run the command again."
            )

    def _plan(self) -> ReadPlan:
        return self.warehouse.inputs.plan(self.model["unique_id"])

    def _answer(self, **values: Any) -> None:
        """Note what the model's code decided."""
        answer = replace(self._plan().python, **values)
        self.warehouse.inputs.note(self.model["unique_id"], python=answer)

    def _note_questions(self, dbt: Any) -> None:
        """Let the model's handle note whether the code asks it for what the model holds."""
        plain: Any = type(dbt)

        def noting(handle: Any, name: str) -> Any:
            if name in OF_ITSELF:
                self._answer(asks_itself=True)
            return plain.__getattribute__(handle, name)

        dbt.__class__ = type(plain.__name__, (plain,), {"__getattribute__": noting})

    def _keep(self, spark: Any, frame: Any) -> None:
        self._answer(nothing_new=frame is None)
        if frame is None:
            if not self._incremental:
                raise ValueError("the model returned None, but its table has to be made first")
            return
        if not hasattr(frame, "createOrReplaceTempView"):
            if type(frame).__module__.startswith("pandas"):
                frame = self._of_pandas(spark, frame)
            else:
                raise TypeError(
                    f"the model must return a Spark DataFrame, got {type(frame).__name__}"
                )
        strategy = self.model["config"].get("incremental_strategy")
        # unchanged inputs don't prove it: a Python model may read more than dbt knows of
        changes_none = strategy is None or strategy in (*ADDING, MERGING, OVERWRITING)
        left_out = self._leaves_news_out()
        are_written = self.services.worker_files.are_written(self.model)
        if are_written and (self._plan().python.merged or not frame.isEmpty()):
            raise ValueError(
                f"{self.model['name']} returned rows, or asked to merge them, beside the files "
                "that it gave to dbt.add_files(..), and the commit would lose them; write all rows "
                "into files, or none"
            )
        is_still = self._plan().unchanged or left_out
        if self._incremental and changes_none and is_still and not are_written:
            # a commit would record as read what this run didn't ask for
            if frame.isEmpty():
                self._answer(nothing_new=True)
                return
            if left_out and strategy_of(self.model) in ADDING:
                raise ValueError(
                    f"{self.model['name']} adds rows in a run that asked for nothing new, though "
                    "its code asks for it in a branch that the run didn't take, so that no later "
                    "run would read what came; call dbt.new_rows(..) before the branch, return "
                    f"None in it, or, if each run's result is meant by itself, set "
                    f"{PARTIAL_RUNS}=True in dbt.config(..)"
                )
        if strategy == "merge" or self._plan().python.merged:
            # Spark 4.1 has no plan for a MERGE from a DataFrame's view
            frame = checkpointed(frame, eager=False)
        frame.createOrReplaceTempView(result_view(self.model["alias"]))

    def _of_pandas(self, spark: Any, frame: Any) -> Any:
        try:
            if len(frame.columns):
                return spark.createDataFrame(frame)
        except PySparkValueError as exc:
            if exc.getCondition() not in UNTYPED:
                raise
        raise ValueError(
            f"{self.model['name']}: the pandas frame that it returned gives no types, since it has "
            "no columns, no rows, or a column of nulls alone; return it as session.createDataFrame("
            "frame, 'id bigint, name string'), with the columns of the model"
        )

    def _leaves_news_out(self) -> bool:
        """Whether the model's code asks for what is new, and didn't in this run."""
        asks = any(
            isinstance(part, ast.Attribute) and part.attr in ASKS_FOR_NEWS
            for part in ast.walk(parsed_code(self.model["raw_code"]))
        )
        means_it = bool(self.model["config"].get(PARTIAL_RUNS))
        return asks and not means_it and not self._plan().news.is_asked

    def _merge_rows(
        self, by: Sequence[str], within: Sequence[str] = (), gone_when: str | None = None
    ) -> None:
        strategy = self.model["config"].get("incremental_strategy")
        if strategy != MERGING_STRATEGY:
            raise ValueError(
                f"dbt.merge_rows needs incremental_strategy {MERGING_STRATEGY!r}, got {strategy!r}"
            )
        self._answer(merged=MergedRows(list(by), list(within), gone_when) if by else None)

    def _load(self, name: str) -> Any:
        frame: Foreign = self.services.reading.read_pinned(self.model, name)
        frame.dbt_table = name
        return frame

    def _new_rows(self, frame: Any) -> Any:
        table = self._table_of(frame, "new_rows")
        return self.services.reading.read_new_rows(self.model, table, self._incremental)

    def _new_changes(self, frame: Any, by: str | Sequence[str] | None = None) -> Any:
        table = self._table_of(frame, "new_changes")
        return self.services.changes.read_new_changes(self.model, table, by, self._incremental)

    def _input_properties(self, frame: Any, *keys: str) -> list[tuple[str | None, ...]] | None:
        table = self._table_of(frame, "input_properties")
        read = self._plan().reads.get(table)
        if read is None or read.commits is None:
            return None
        changing = (commit for commit in read.commits if commit.changes_rows)
        return [tuple(commit.summary.get(key) for key in keys) for commit in changing]

    @staticmethod
    def _table_of(frame: Any, asked: str) -> str:
        table = getattr(frame, "dbt_table", None)
        if table is None:
            raise TypeError(f"dbt.{asked} takes dbt.ref(..) itself. Example: dbt.{asked}(ref)")
        return table

    def _snapshot_property(self, key: str, default: str | None = None) -> str | None:
        if not self._incremental:
            return default
        value = self.services.commits.recorded_property(self.model, key)
        return default if value is None else value

    def _meta_of(self, frame: Any) -> dict[str, Any]:
        return self.services.declarations.meta_of(self._table_of(frame, "meta_of"))

    def _project_var(self, name: str, default: Any = None) -> Any:
        return self.warehouse.vars_of(self.model).get(name, default)

    @staticmethod
    def _report(exc: BaseException, path: str) -> str:
        """The traceback from the model's own file on, without Spark's inner frames; the message
        alone of what the project's code or the adapter reports to the author of a model."""
        frames = traceback.extract_tb(exc.__traceback__)
        is_for_the_author = isinstance(exc, REFUSALS) and str(frames[-1].line).startswith("raise ")
        if isinstance(exc, DbtBaseException) or (is_for_the_author and frames[-1].filename != path):
            return getattr(exc, "msg", None) or str(exc)
        start = next((i for i, frame in enumerate(frames) if frame.filename == path), len(frames))
        own = [
            frame
            for frame in frames[start:]
            if "/pyspark/" not in frame.filename and "/py4j/" not in frame.filename
        ]
        where = "".join(traceback.format_list(own))
        return f"Python model failed:\n{where}{type(exc).__name__}: {message_of(exc)}"
