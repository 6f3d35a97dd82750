"""Sizes and tolerances that several files share, each with its reason.

Sizes of a single kernel or loop are defined in its file. No size depends on the machine or the
number of threads, because sizes decide the order of summation.
"""

import numpy as np

# ---------------------------------------------------- small enough to enumerate

#: Default of `max_units`, the number of variables that "exact" enumerates: 2^20 states take about
#: a second per model.
MAX_ENUMERATED = 20

#: The largest `max_units`.
MAX_UNITS = 30

#: Variables up to which "exact" enumerates an energy without its own solver in NumPy, and hidden
#: variables of an energy that cannot sum them out: 2^16 states take some 10 ms per model.
MAX_GENERIC_UNITS = 16

#: Units up to which enumerating a layer costs less than message passing, which is then the
#: choice of "auto".
AUTO_EXACT_UNITS = 10

#: Labels of a pairwise machine up to which enumerating costs less than message passing. A machine
#: costs less than an RBM, because no unit is summed out.
AUTO_EXACT_LABELS = 14

#: Units up to which training validates a model by exact inference: 2^14 states of some hundred
#: rows take tenths of a second.
EXACT_VALIDATION_UNITS = 14

#: Entries of the table of all states up to which a single model is solved in NumPy, in a
#: millisecond at most: a new process that predicts a row need not wait for the compiler.
ONE_MODEL_ENTRIES = 2**14

#: Outputs up to which all label vectors are enumerated by default, and the upper limit.
AUTO_ALL_LABEL_SETS, MAX_ALL_LABEL_SETS = 14, 20

#: Labels up to which ties of a search are broken by the order of the label vectors; beyond, this
#: may take as long as the search itself.
MAX_TIE_LABELS = 20

#: Nanoseconds per state of the enumerated variables and per other variable on a single core, for
#: sums, best states and samples. "exact" is refused if it would take more than a day, and a fit
#: warns if it may take more than ten minutes.
EXACT_NANOSECONDS = (1.0, 6.0, 40.0)
MAX_EXACT_SECONDS, LONG_EXACT_SECONDS = 86_400.0, 600.0

#: Variables of one table of 0/1 variables that the kernels for odds take: 2^6 numbers, all
#: combinations of which a message visits. OR and AND take any number.
MAX_TABLE_VARIABLES = 6

#: Entries of an OR or AND that is written out as a table beside categorical variables.
MAX_LOGIC_TABLE = 2**16

#: Default of `max_entries`, the size of the largest table that variable elimination makes (128
#: MB), and the size of all tables that it keeps, as a multiple of it.
MAX_ELIMINATED_ENTRIES, MAX_KEPT_TABLES = 2**24, 16

#: Entries of all arrays that are made of a file of a factor graph (512 MB), bytes of its text,
#: and variables of a table, which is the largest number of axes in NumPy 1.
MAX_FILE_ENTRIES, MAX_FILE_BYTES, MAX_FILE_SCOPE = 2**26, 2**30, 32

# ------------------------------------------------- enough rows, and not too many

#: Least number of rows for a search of the penalty by validation: folds of at least eight rows.
MIN_SEARCH_ROWS = 40

#: Rows times columns times outputs up to which the penalty of stochastic training is searched on
#: the model without hidden units, some hundred evaluations: below ten seconds or so.
CONVEX_PATH_ENTRIES = 2**29

# --------------------------------------------------------------- work at once

#: Chunks of rows that message passing is cut into at most, as each sums its statistics into
#: arrays of its own.
MAX_CHUNKS = 16

#: Rows of small models in one call of a kernel: enough to hide the cost of the call.
ROWS_PER_CHUNK = 64

#: Rows that a kernel of layered models takes at once: its scratch space stays in the L1 cache.
LAYERED_CHUNK_ROWS = 64

#: Rows that a vector instruction of these kernels processes at once.
VECTOR_ROWS = 8

#: Number of weights of sparse inputs from which a step updates only the rows that its batch reads.
#: Fewer weights stay in the caches, and updating all of them is quicker than finding the rows.
ROW_SPARSE_WEIGHTS = 2**21

#: Entries of a temporary array that stays in the L2 cache.
CACHED_ENTRIES = 2**16

#: Numbers in a block of rows in NumPy: tens of megabytes.
BLOCK_ENTRIES = 2**21

#: Log-weights of chains that are computed at once: a megabyte or two, which fits the cache.
CHAIN_ENTRIES = 2**18

#: Rows up to which a fit with more columns than rows is done in the space of the rows: its matrix
#: of N x N numbers then takes up to 70 MB, its factorisation a second.
ROTATED_ROWS = 3000

#: Units of all chains of the models that are advanced together.
CHAIN_UNITS = 2**18

# ------------------------------------------------------------ ranges, tolerances

#: Default number of samples for an estimate of log Z.
ESTIMATE_SAMPLES = 1000

#: Default `max_iter` in `infer`.
MAX_ITER = 100

#: Default tolerances of `infer` and of estimators: the largest change of a belief, as a
#: probability, in a converged model. A thousandth serves estimators as well (PI17).
INFER_TOL, ESTIMATOR_TOL = 1e-6, 1e-3

#: Largest |log| of a product of messages that a dtype holds with room to spare.
LOG_RANGE = {np.dtype(np.float32): 80.0, np.dtype(np.float64): 400.0}

#: Largest magnitude of a field, coupling or log-potential that `infer` takes: sums of 10^8 of them
#: still fit a float32.
MAX_MAGNITUDE = 1e30

#: Fields above this value lose relevant digits in sums; below it, float64 keeps seven decimals.
LARGE_FIELD = 1e9

#: Largest field that need not decide its variable: its rounding error in log-weights is 1e-6.
UNDECIDED_FIELD = 1e10

#: Log-odds by which each factor counts against a value that it forbids, if both values of a
#: variable have weight 0 given the others: a chain started at an impossible state can leave it.
FORBIDDEN_LOG_ODDS = 10.0

#: Values that differ by no more than this, relatively, are equal: rounding does not decide
#: between label vectors or thresholds.
TIE = 1e-12
