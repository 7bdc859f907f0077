# SPDX-License-Identifier: Apache-2.0
"""Filters: which nodes take part in passing files on, and with which folders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any


def model_folders(hostvars: Mapping[str, Any], hosts: Iterable[str]) -> dict[str, list[Any]]:
    """The models' folders of each host.

    Args:
        hostvars: All hosts' variables, with preflight's facts.
        hosts: The hosts of the play.

    Returns:
        Host to folders with `dest`, `record`, `src` (empty where the controller has no files),
        `files`, and whether the host `takes`. A model that lies on the node by itself can be given
        to others, once it is complete; it is never brought there.
    """
    found: dict[str, list[Any]] = {}
    for host in hosts:
        facts = hostvars[host]
        complete = not facts.get("_preflight_plan", {}).get("model_store", ["not read"])
        for model in facts.get("_preflight_models", []):
            here = model["source"]["on"] == "controller"
            if here or complete:
                found.setdefault(host, []).append(
                    {
                        "dest": model["path"],
                        "record": model["record"],
                        "src": model["source"]["path"] if here else "",
                        "files": model["files"],
                        "takes": not complete,
                    }
                )
    return found


def wheel_folders(
    hostvars: Mapping[str, Any], hosts: Iterable[str], root: str
) -> dict[str, list[Any]]:
    """The folder of wheels of each host.

    Args:
        hostvars: All hosts' variables, with the wheelhouses of those that build a release.
        hosts: The hosts of the play.
        root: The product's folder on a host whose inventory does not say.

    Returns:
        As `model_folders`; a host that builds nothing can give the wheels that others need.
    """
    houses: dict[str, Any] = {}
    for host in hosts:
        house = hostvars[host].get("__engine_release_wheelhouse", {})
        if house.get("wheels"):
            houses[host] = house
    every = {
        wheel["sha256"]: {key: wheel[key] for key in ("name", "sha256", "size")}
        for house in houses.values()
        for wheel in house["wheels"]
    }
    found: dict[str, list[Any]] = {}
    for host in hosts if every else ():
        house = houses.get(host)
        digests = [wheel["sha256"] for wheel in house["wheels"]] if house else list(every)
        found[host] = [
            {
                "dest": f"{hostvars[host].get('engine_release_root', root)}/wheels",
                "record": "",
                "src": house["path"] if house else "",
                "files": [every[digest] for digest in digests],
                "takes": house is not None,
            }
        ]
    return found


def nodes(
    hostvars: Mapping[str, Any],
    hosts: Sequence[str],
    folders: Mapping[str, Sequence[Mapping[str, Any]]],
    defaults: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Who takes part, as the module `pass_on` wants it.

    Args:
        hostvars: All hosts' variables.
        hosts: The hosts of the play that have not failed.
        folders: `model_folders` or `wheel_folders`.
        defaults: The role's defaults.

    Returns:
        The nodes that take something, and those that can give to one of them.
    """
    found = []
    for host in hosts:
        if host in folders:
            said = hostvars[host]
            own = {
                key: said.get(f"distribution_{key}", defaults[f"distribution_{key}"])
                for key in ("address", "port", "network")
            }
            mine = folders[host]
            takes = any(folder["takes"] for folder in mine)
            plain = [{k: v for k, v in folder.items() if k != "takes"} for folder in mine]
            found.append({"name": host, **own, "folders": plain, "takes": takes})
    networks = {node["network"] for node in found if node["takes"] and node["address"]}
    return [
        node for node in found if node["takes"] or (node["address"] and node["network"] in networks)
    ]


def filters() -> dict[str, Callable[..., Any]]:
    """Name to function."""
    return {
        "model_folders": model_folders,
        "wheel_folders": wheel_folders,
        "distribution_nodes": nodes,
    }
