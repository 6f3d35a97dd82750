"""Read sets of the Mulan library, from .npz files or the ARFF files that Mulan distributes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from skcrbm.datasets import _specs
from skcrbm.datasets._arff import ArffTable, parse_arff
from skcrbm.datasets._files import ENV_VARIABLE, find_data_home
from skcrbm.datasets._read import check_subset, load
from skcrbm.datasets._specs import array_name
from skcrbm.datasets._tables import as_bunch, integer_unless_missing
from skcrbm.exceptions import DataFileError


def load_mulan_files(
    name: str,
    data_home: str | os.PathLike | None,
    return_X_y: bool,
    as_frame: bool,
    subset: str,
) -> Bunch | tuple:
    """Read a data set of Mulan; `load_mulan` describes the arguments."""
    if not isinstance(name, str) or not name or set(name) & set("/\\\0") or name.startswith("."):
        raise ValueError(
            f"name must be the name of a data set, for example one of {sorted(_specs.MULAN)}, "
            f"got {name!r}"
        )
    if name in _specs.MULAN:
        return load(
            _specs.MULAN[name],
            data_home,
            return_X_y,
            as_frame,
            subset,
            read_instead=lambda folder: _known_arrays(name, folder),
        )
    folder, chosen_by = find_data_home(data_home)
    files = _find_files(name, folder)
    if files is None:
        raise FileNotFoundError(
            f"neither {name}.arff nor {name}-train.arff and {name}-test.arff was found in {folder} "
            f"({chosen_by}) or in its folder {name}. Put the ARFF files and {name}.xml there, or "
            f"name their folder with data_home or the environment variable {ENV_VARIABLE}. Sets "
            f"that may also be .npz files: {sorted(_specs.MULAN)}."
        )
    check_subset(subset, [part for part in files if part], return_X_y)
    tables = _read_parts(files)
    first = next(iter(tables.values()))
    parts: list[Any] = [table.data for table in tables.values()]
    if len({sparse.issparse(part) for part in parts}) > 1:  # only some files have sparse rows
        parts = [sparse.csr_array(part) for part in parts]
    data: Any = sparse.vstack(parts, "csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
    target = integer_unless_missing(np.concatenate([t.target for t in tables.values()]))
    source = " and ".join(path.name for path in files.values())
    bunch = as_bunch(
        data,
        target,
        first.feature_names,
        first.label_names,
        next(iter(files.values())),
        as_frame,
        f"{name}, read from {source}; not compared with a published set.",
    )
    start = 0
    for part, table in tables.items():
        stop = start + len(table.target)
        if part and as_frame:
            bunch[f"X_{part}"] = bunch.data.iloc[start:stop]
            bunch[f"y_{part}"] = bunch.target.iloc[start:stop]
        elif part:
            bunch[f"X_{part}"], bunch[f"y_{part}"] = data[start:stop], target[start:stop]
        start = stop
    if not return_X_y:
        return bunch
    if subset == "all":
        return bunch.data, bunch.target
    return bunch[f"X_{subset}"], bunch[f"y_{subset}"]


def _find_files(name: str, folder: Path) -> dict[str, Path] | None:
    """Return the ARFF file of each part ("train", "test"), or None if files are missing.

    A set without a split has the single part "".
    """
    for place in (folder, folder / name):
        parts = {part: place / f"{name}-{part}.arff" for part in ("train", "test")}
        if all(path.is_file() for path in parts.values()):
            return parts
        if (place / f"{name}.arff").is_file():
            return {"": place / f"{name}.arff"}
    return None


def _read_parts(files: dict[str, Path]) -> dict[str, ArffTable]:
    """Read the file of each part, and check that all have the same columns."""
    tables = {part: parse_arff(path, dtype=np.float32) for part, path in files.items()}
    first, *others = tables
    for part in others:
        for names in ("feature_names", "label_names"):
            if getattr(tables[part], names) != getattr(tables[first], names):
                raise DataFileError(
                    f"{files[part]} should have the same columns as {files[first].name}, but "
                    f"their {names} differ"
                )
    return tables


def _known_arrays(name: str, folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """Return the path of a set's first ARFF file, and the arrays that its .npz file would hold.

    The result is None if the folder does not hold the ARFF files.
    """
    spec = _specs.MULAN[name]
    files = _find_files(name, folder)
    if files is None:
        return None
    tables = _read_parts(files)
    if set(tables) != set(spec.rows):
        parts = ", ".join(f"{name}-{p}.arff" if p else f"{name}.arff" for p in spec.rows)
        raise DataFileError(
            f"{next(iter(files.values()))} is not a file of this set, which consists of {parts}"
        )
    first = next(iter(tables.values()))
    arrays = {
        "feature_names": np.array(first.feature_names),
        "label_names": np.array(first.label_names),
        "origin": np.array(" and ".join(path.name for path in files.values())),
    }
    for part, table in tables.items():
        dense = table.data.toarray() if sparse.issparse(table.data) else table.data
        arrays[array_name("X", part)] = dense
        arrays[array_name("Y", part)] = integer_unless_missing(table.target)
    return next(iter(files.values())), arrays
