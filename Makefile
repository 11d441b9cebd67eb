# `make help` lists what it does.
PYTHON ?= python3
BIN := .venv/bin
export DBT_PROFILES_DIR := $(CURDIR)/profiles
export PYTHONDONTWRITEBYTECODE := 1
# LANDING=<folder> and WAREHOUSE=<folder> on the command line reach dbt as environment variables
ifdef LANDING
export LANDING
endif
ifdef WAREHOUSE
export WAREHOUSE
endif
ifdef BASE
export BASE
endif
ifdef Q
export SQL = $(Q)
endif
ifdef FORMAT
export FORMAT
endif
ifdef TOOL
export TOOL
endif
ifdef PORT
export SERVE_PORT = $(PORT)
endif

.PHONY: help setup run follow sql serve notebook connect new-table test test-fast lint docs report full-load reconcile compensate ci-diff soak live bench lock clean drop-warehouse

help:
	@echo "make run     build the warehouse from LANDING (default landing/) into WAREHOUSE (default warehouse/)"
	@echo "make follow  keep the warehouse fresh: build what lands, publish it, and go on"
	@echo "make sql [Q=\"select ..\"]   ask the warehouse: a shell that stays open, or one answer"
	@echo "make serve [PORT=10000]   let BI tools ask it: a server on 127.0.0.1 that only reads"
	@echo "make notebook   ask it in JupyterLab, which the first call installs"
	@echo "make connect TOOL=spark-sql   what another tool needs to read it: spark-sql, pyiceberg, duckdb"
	@echo "make new-table TABLE=<database>.<table>   write the declaration of a table of the log"
	@echo "make test    run the tests, the longest of them every sixth day"
	@echo "make test-fast   the tests that start neither Spark nor another process"
	@echo "make lint    ruff, sqlfluff, which module imports which, the types, and the conventions of models"
	@echo "make report  make one page about the state of the warehouse"
	@echo "make docs    build the site: the pages, dbt's docs and the newest report"
	@echo "make full-load TABLE=<database>.<table>   land a MySQL table's rows, see tools/full_load.py"
	@echo "make reconcile   count from scratch and compare, with the source database where MYSQL_URL is set"
	@echo "make compensate [FROM=<day> TO=<day>]   write days of the counts again; without a range those that are wrong, and months and years"
	@echo "make ci-diff [BASE=<commit>]   what the changes since a commit do to the tables, row by row"
	@echo "make soak    the long randomised tests"
	@echo "make live    MySQL, Maxwell and Kafka under a running warehouse, all killed; needs CDC_LAB"
	@echo "make clean   delete target/ and logs/"
	@echo "make drop-warehouse   delete the tables and the catalog in WAREHOUSE, after a question"
	@echo "make bench   benchmarks, see benchmarks/RESULTS.md"

setup: .venv/.ready

# the jars, as their classes are in the archive that setup makes
.venv/.ready: requirements.lock requirements-java.lock jars.lock tools/setup.py python_udfs/sparksession_adapter/pyproject.toml
	@$(PYTHON) tools/setup.py

# VERBOSE=1 shows all that dbt prints on a terminal too
run: setup
	@$(BIN)/python -m tools run $(if $(VERBOSE),--verbose)

# options of tools/follow.py: make follow OPTIONS="--pause 10"
follow: setup
	@exec $(BIN)/python -m tools follow $(OPTIONS)

# Q and FORMAT: see tools/sql.py
sql: setup
	@exec $(BIN)/python -m tools sql

serve: setup
	@exec $(BIN)/python -m tools serve

# OPTIONS are JupyterLab's: make notebook OPTIONS=--no-browser
notebook: setup
	@exec $(BIN)/python -m tools notebook $(OPTIONS)

connect: setup
	@$(BIN)/python -m tools connect

new-table: setup
	@$(BIN)/python -m tools new-table "$(TABLE)"

test: setup
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder --in-turn --timeout 900

test-fast: setup
	$(BIN)/python -m pytest -m "not process and not slow and not soak and not live"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tools layers
	$(BIN)/mypy
	$(BIN)/sqlfluff lint models tests/dbt macros
	$(BIN)/python -m pytest -q tests/project/test_conventions.py

docs: setup
	@$(BIN)/python -m tools docs

report: setup
	@$(BIN)/python -m tools report

full-load: setup
	@$(BIN)/python -m tools full-load "$(TABLE)"

reconcile: setup
	@$(BIN)/python -m tools reconcile

compensate: setup
	@$(BIN)/python -m tools compensate $(FROM) $(TO)

# BASE, STATE and CI_SCHEMA: see tools/ci_diff.py
ci-diff: setup
	@$(BIN)/python -m tools ci-diff

soak: setup
	$(BIN)/python -m pytest -m soak

live: setup
	$(BIN)/python -m pytest -m live -s

bench: setup
	$(BIN)/python -m benchmarks.bench_daily_cut
	$(BIN)/python -m benchmarks.bench_formats

# needs uv: pip install uv
lock:
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-emit-find-links --no-header --no-annotate --quiet requirements.in -o requirements.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-emit-find-links --no-header --no-annotate --quiet -c requirements.lock \
		requirements-notebook.in -o requirements-notebook.lock

clean:
	@$(BIN)/python -m tools clean

# YES=<the folder's name> answers the question
drop-warehouse:
	@$(BIN)/python -m tools drop-warehouse $(if $(YES),--yes "$(YES)")
