"""Mixed integer programming."""

from typing import ClassVar

from skcrbm.inference._base import InferenceMethod


class MixedIntegerProgram(InferenceMethod):
    """Best state of an `IsingEnergy` by mixed integer programs of HiGHS [1]_.

    One program a model, with a binary variable for each label and one for the product of each
    coupled pair: slow, and independent of "branch_and_bound", which it is there to check. Its
    bound is that of HiGHS less what the tolerances of HiGHS allow, so that the `gap` of the best
    state is about 1e-8 of the largest field and not 0, unless fields alone decide all labels.
    `n_iter` counts nodes.

    References
    ----------
    .. [1] Huangfu and Hall (2018). Parallelizing the dual revised simplex method. Mathematical
       Programming Computation 10.

    Examples
    --------
    >>> from skcrbm.energies import IsingEnergy
    >>> from skcrbm.inference import infer
    >>> energy = IsingEnergy([[0.0, -2.0], [-2.0, 0.0]], [1.0, 0.5])
    >>> infer(energy, "milp").assignment
    array([[1, 0]], dtype=int8)
    """

    name: ClassVar = "milp"
    answers: ClassVar = frozenset({"map", "map_bound"})
    default_returns: ClassVar = ("map", "map_bound")
