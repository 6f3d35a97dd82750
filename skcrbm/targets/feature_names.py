"""Names of the columns of tables in a list: read when the tables are stacked, checked afterwards.

scikit-learn stores the names of the columns of a single table in `feature_names_in_`, and compares
them with the names of later tables. `ColumnNames` does the same for all tables of a list, with the
same errors and warnings. `stacked_tables` puts the tables of a list below each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse, vstack

from skcrbm.targets.names import is_frame, listed
from skcrbm.utils.sklearn_private import check_feature_names, feature_names
from skcrbm.utils.warnings import warn_user


def column_names(table: Any) -> np.ndarray | None:
    """Return the names of the columns of a data frame if they are strings, else None.

    As in scikit-learn, a TypeError is raised if some names are strings and others are not.
    """
    return feature_names(table) if is_frame(table) else None


class ColumnNames:
    """Names of the columns that all tables of a list share.

    Arrays, sparse matrices, and data frames whose column names are not strings have no names.
    `owner` is the name of the estimator, and `argument` the name of the tables in messages, such as
    "X". `place` is the word for an item of the list, such as "sequence"; the table of the item with
    the index 2 is then "sequence 2 of X".
    """

    def __init__(self, owner: str, argument: str = "X", place: str = "{} {} of X"):
        self.owner, self.argument, self.place = owner, argument, place
        self.names: np.ndarray | None = None

    def learn(self, tables: Sequence, part: str) -> None:
        """Store the names of the columns; raise a ValueError if two tables have different names.

        None in place of a table is ignored.
        """
        self.names = self._common(tables, part)

    def check(self, tables: Sequence, part: str) -> None:
        """Compare the columns of the tables with the names in the fit, as scikit-learn does.

        A ValueError is raised if the names or their order differ. There is a warning if only the
        tables, or only the tables in the fit, have names.
        """
        warned, known = False, set()
        for i, table in enumerate(tables):
            if table is None:
                continue
            names = column_names(table)
            key = None if names is None else tuple(names)
            if key in known:
                continue
            known.add(key)
            if names is not None and self.names is not None:
                fitted = type(self.owner, (), {"feature_names_in_": self.names})()
                try:
                    check_feature_names(fitted, table, reset=False)
                except ValueError as error:
                    raise ValueError(f"{self._place(part, i)}: {error}") from None
            elif names is not None and not warned:
                warn_user(
                    f"{self.argument} has feature names, but {self.owner} was fitted without "
                    "feature names"
                )
                warned = True
            elif self.names is not None and not warned:
                warn_user(
                    f"{self.argument} does not have valid feature names, but {self.owner} was "
                    "fitted with feature names"
                )
                warned = True

    def _common(self, tables, part):
        """Return the names that all tables have in the same order, or None if no table has names.

        A ValueError names the first table whose names differ from those of the table before it.
        """
        first, common = None, None
        for i, table in enumerate(tables):
            if table is None:
                continue
            names = column_names(table)
            if first is None:
                first, common = i, names
            elif names is None and common is None:
                continue
            elif names is None or common is None:
                with_names, without = (i, first) if common is None else (first, i)
                raise ValueError(
                    f"{self._place(part, without)} has no names of columns, but "
                    f"{self._place(part, with_names)} has the columns "
                    f"{listed(common if names is None else names)}; give all tables names, or none"
                )
            elif not np.array_equal(names, common):
                raise ValueError(
                    f"{self._place(part, i)} has the columns {listed(names)}, but "
                    f"{self._place(part, first)} has the columns {listed(common)}; all tables need "
                    "the same columns in the same order"
                )
        return common

    def _place(self, part, i):
        return self.place.format(part, i)


def require_same_columns(tables: Sequence, part: str) -> np.ndarray | None:
    """Return the names of the columns that all tables of X share; None if they have no names.

    A ValueError is raised if two tables have different names. `part` is the word for an item of X.
    """
    names = ColumnNames("")
    names.learn(tables, part)
    return names.names


def stacked_tables(tables: Sequence, names: np.ndarray | None) -> Any:
    """Return the rows of all tables, which have the same number of columns, as one table.

    `names` are the names of the columns of all tables, or None. Data frames of one library with
    names become a data frame; if a table is sparse, the result is a CSR matrix; otherwise it is an
    array.
    """
    kinds = {type(table) for table in tables}
    if names is not None and len(kinds) == 1:
        if hasattr(tables[0], "iloc"):
            import pandas as pd

            return pd.concat(tables, ignore_index=True)
        if kinds.pop().__module__.partition(".")[0] == "polars":
            import polars as pl

            return pl.concat(tables, how="vertical_relaxed")
    if any(map(issparse, tables)):
        return vstack([csr_matrix(table) for table in tables], format="csr")
    return np.concatenate([np.asarray(table) for table in tables])
