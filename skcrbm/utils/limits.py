"""How large is small enough, and other sizes that more than one file goes by, with the reason.

Sizes that concern one kernel or one loop stand in its file. All of them depend on the data
alone, never on the machine or the number of threads, because the order of summation depends on
them.
"""

import numpy as np

# ---------------------------------------------------- small enough to enumerate

#: Variables that "exact" enumerates unless `max_units` says otherwise: 2^20 states are about
#: a second a model.
MAX_ENUMERATED = 20

#: The largest `max_units`.
MAX_UNITS = 30

#: Variables of an energy without a solver of its own that "exact" visits one by one in NumPy,
#: and hidden ones of an energy that cannot sum them out: 2^16 states take some 10 ms a model.
MAX_GENERIC_UNITS = 16

#: Units up to which enumerating a layer costs less than message passing, which is then the
#: choice of "auto".
AUTO_EXACT_UNITS = 10

#: Labels of a pairwise machine up to which enumerating costs less than message passing; one
#: model less than an RBM, as no unit is summed out.
AUTO_EXACT_LABELS = 14

#: Units up to which exact answers are taken to judge a model in training: 2^14 states of some
#: hundred rows take tenths of a second.
EXACT_VALIDATION_UNITS = 14

#: Entries of the table of all states of a model up to which a single one is answered in NumPy, a
#: millisecond at most: a new process that predicts row after row need not wait for the compiler.
ONE_MODEL_ENTRIES = 2**14

#: Outputs up to which all label vectors are enumerated by default, and up to which they can be.
AUTO_ALL_LABEL_SETS, MAX_ALL_LABEL_SETS = 14, 20

#: Labels up to which ties of a search are told apart by their order as vectors; beyond, the
#: search for the first of them may take as long as the search for one.
MAX_TIE_LABELS = 20

#: Nanoseconds that a state of the enumerated variables takes on one core for each of the others,
#: for sums, best states, and samples; beyond so many seconds, a day, "exact" is refused, and a fit
#: that may take more than ten minutes warns.
EXACT_NANOSECONDS = (1.0, 6.0, 40.0)
MAX_EXACT_SECONDS, LONG_EXACT_SECONDS = 86_400.0, 600.0

#: Variables of one table of a factor graph: 2^6 numbers, all combinations of which a message
#: visits. OR and AND take any number.
MAX_TABLE_VARIABLES = 6

#: Entries of the largest table that variable elimination makes unless `max_entries` says
#: otherwise, 128 MB; and of all that it keeps, as a multiple of that.
MAX_ELIMINATED_ENTRIES, MAX_KEPT_TABLES = 2**24, 16

# ------------------------------------------------- enough rows, and not too many

#: Rows from which on a penalty is searched by validation: of fewer, a fold has not even eight.
MIN_SEARCH_ROWS = 40

#: Rows times columns times outputs up to which the penalty of stochastic training is searched on
#: the model without hidden units, some hundred evaluations: below ten seconds or so.
CONVEX_PATH_ENTRIES = 2**29

# --------------------------------------------------------------- work at once

#: Chunks of rows that message passing is cut into at most, as each sums its statistics into
#: arrays of its own.
MAX_CHUNKS = 16

#: Rows of small models in one call of a kernel: enough to hide what the call costs.
ROWS_PER_CHUNK = 64

#: Rows that a kernel of layered models takes at once: its scratch space stays in the L1 cache.
LAYERED_CHUNK_ROWS = 64

#: Rows that a vector instruction of these kernels does at once.
VECTOR_ROWS = 8

#: Weights of sparse inputs from which on a step moves the rows that its batch reads, not all of
#: them: fewer stay in the caches, and all of them are moved sooner than the rows are found.
ROW_SPARSE_WEIGHTS = 2**21

#: Entries of a temporary array that stays in the L2 cache.
CACHED_ENTRIES = 2**16

#: Numbers that a block of rows may take in NumPy: tens of megabytes.
BLOCK_ENTRIES = 2**21

#: Rows up to which a fit with more columns than rows goes into the space of the rows: its matrix
#: of N x N numbers takes 70 MB then, its factor a second.
ROTATED_ROWS = 3000

#: Units of all chains of the models that are advanced together.
CHAIN_UNITS = 2**18

# ------------------------------------------------------------ ranges, tolerances

#: Samples that an estimate of log Z is made of, where their number is left open.
ESTIMATE_SAMPLES = 1000

#: Iterations of a method that leaves them open, in `infer`.
MAX_ITER = 100

#: Largest change of a belief, as a probability, of a model that has converged, where a method
#: leaves it open: in `infer`, and in estimators, to which a thousandth is as good (PI17).
INFER_TOL, ESTIMATOR_TOL = 1e-6, 1e-3

#: Largest |log| of a product of messages that a dtype holds with room to spare.
LOG_RANGE = {np.dtype(np.float32): 80.0, np.dtype(np.float64): 400.0}

#: Largest magnitude of a field, coupling or log-potential that `infer` takes: sums of 10^8 of them
#: still fit a float32.
MAX_MAGNITUDE = 1e30

#: Fields from which on a sum with others loses digits that matter: below, float64 keeps seven
#: behind the point.
LARGE_FIELD = 1e9

#: Largest field that need not decide its variable: of log-weights, 1e-6 is lost in its rounding.
UNDECIDED_FIELD = 1e10

#: Where both values of a variable have weight 0 given the others, each factor that forbids a value
#: counts as this much against it: a chain started at a state that cannot be finds its way out.
FORBIDDEN_LOG_ODDS = 10.0

#: Values that differ by no more than this, relatively, are equal: rounding does not decide
#: between label vectors or thresholds.
TIE = 1e-12
