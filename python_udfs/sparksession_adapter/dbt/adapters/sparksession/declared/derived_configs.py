"""What macros write into their models' configs while dbt parses them."""

from __future__ import annotations

from collections.abc import Mapping

from dbt.adapters.sparksession.edges import Foreign, Given, Json, Node, Settings

DERIVED = "derived_config"  # a model's config: names of the settings that a macro has written


def stated_config(model: Node, config: Foreign) -> Json | None:
    """The config of a model that is parsed as far as it is stated, in its file up to here and in
    dbt_project.yml; None where what is parsed is no model.

    Args:
        config: dbt's object of that name in the model. It gives no setting, its builder does.
    """
    if model["resource_type"] != "model":
        return None
    return config.context_config.build_config_dict()


def overwritten_in_yaml(model: Node, given: Settings) -> list[str]:
    """A sentence for each setting of a model that its YAML states otherwise than its macro: dbt
    takes that of the model's file.

    Args:
        given: its `config` in YAML.
    """
    config = model["config"]
    return [
        f"config {name} of {model['name']} is {given[name]!r} in YAML, but its macro writes "
        f"{config.get(name)!r}; leave it out, or state it in config(..) of the model's file"
        for name in config.get(DERIVED) or ()
        if name in given and _listed(given[name]) != _listed(config.get(name))
    ]


def _listed(value: Given) -> Given:
    """A setting in which a name is as good as a list of it."""
    if isinstance(value, Mapping):
        return {key: _listed(own) for key, own in value.items()}
    return [value] if isinstance(value, str) else value


def yaml_config(model: Foreign, manifest: Foreign) -> Json:
    """`config` of a model in its YAML file; {} where it has none, or no macro has written any."""
    if not model.config.get(DERIVED):
        return {}
    file = (getattr(manifest, "files", None) or {}).get(model.patch_path)
    for entry in (getattr(file, "dict_from_yaml", None) or {}).get("models") or ():
        if isinstance(entry, Mapping) and entry.get("name") == model.name:
            return dict(entry.get("config") or {})
    return {}
