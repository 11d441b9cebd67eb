"""YAML files that dbt has read before, and wrongly takes for unchanged."""

from __future__ import annotations

import os
from contextlib import suppress

from dbt.adapters.sparksession.edges import Foreign
from dbt_common.clients.system import load_file_contents

OUTDATED = (
    "{file}: dbt goes by another text of this file than it has now: the file was put back with "
    "the time that it had when dbt first read it, and dbt takes a YAML file that is as old for "
    "unchanged. Run the command again: it reads all files."
)


def outdated_files(manifest: Foreign, config: Foreign) -> list[str]:
    """A sentence for each YAML file of the project that holds another text than dbt parsed.

    dbt notes the time of a YAML file when it first parses it, and not again when the file has
    changed. Where there are such files, what dbt keeps of its last parse is deleted.

    Args:
        manifest: dbt's. Its files may name another root: that of a project which was copied.
        config: dbt's RuntimeConfig of the project.
    """
    from dbt.artifacts.resources import FileHash
    from dbt.constants import PARTIAL_PARSE_FILE_NAME
    from dbt.contracts.files import ParseFileType

    found = []
    for file in manifest.files.values():
        is_own = file.project_name == config.project_name
        if file.parse_file_type != ParseFileType.Schema or not is_own:
            continue
        name = file.path.original_file_path
        try:
            text = load_file_contents(os.path.join(config.project_root, name), strip=True)
        except OSError:  # a file that is gone
            continue
        if FileHash.from_contents(text) != file.checksum:
            found.append(OUTDATED.format(file=name))
    if found:
        with suppress(FileNotFoundError):
            os.remove(os.path.join(config.project_target_path, PARTIAL_PARSE_FILE_NAME))
    return sorted(found)
