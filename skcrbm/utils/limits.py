"""Define sizes and tolerances that several files share, each with the reason for its value.

A size that only one kernel or loop uses is defined in that file. No size depends on the machine or
the number of threads, because the order of summation, and with it rounding, depends on the sizes.
"""

import numpy as np

# ------------------------------------------------------------------ selection

#: Relative difference by which one score must exceed another to count as better. Smaller
#: differences may be rounding errors, which differ between processors.
SCORE_NOISE = 1e-9

# ---------------------------------------------------- small enough to enumerate

#: Default of `max_units`, the largest number of variables that "exact" enumerates: 2^20 states take
#: about a second per model.
MAX_ENUMERATED = 20

#: Largest value of `max_units` that a user may choose.
MAX_UNITS = 30

#: Largest number of variables that "exact" enumerates in NumPy: all variables of an energy without
#: its own solver, or the hidden variables of an energy that cannot sum them out analytically. 2^16
#: states take some 10 ms per model.
MAX_GENERIC_UNITS = 16

#: Largest number of units of a layer for which inference="auto" enumerates the layer, because
#: this costs less than message passing.
AUTO_EXACT_UNITS = 10

#: Largest number of labels of a pairwise Boltzmann machine for which enumeration costs less than
#: message passing. It exceeds AUTO_EXACT_UNITS because the machine has no units to sum out.
AUTO_EXACT_LABELS = 14

#: Largest number of units for which training evaluates validation rows by exact inference. With
#: 2^14 states some hundred rows take tenths of a second.
EXACT_VALIDATION_UNITS = 14

#: Largest number of labels for which the best states of many rows are found by visiting all 2^6
#: states in NumPy. This takes as long as branch and bound in a compiled kernel, and needs no
#: compiler.
FEW_LABELS = 6

#: A single model is solved in NumPy, in a millisecond at most, if the table of all its states has
#: at most this number of entries. So a new process that predicts a single row need not wait for
#: Numba to compile.
ONE_MODEL_ENTRIES = 2**14

#: Largest number of outputs for which all label vectors are enumerated by default, and largest
#: number for which they are enumerated on request.
AUTO_ALL_LABEL_SETS, MAX_ALL_LABEL_SETS = 14, 20

#: Largest number of labels for which a search breaks ties by the lexicographic order of the label
#: vectors. With more labels this may take as long as the search itself.
MAX_TIE_LABELS = 20

#: Estimated time of "exact" on a single core, in nanoseconds per enumerated state and per variable
#: that is not enumerated. The three numbers are for sums, best states and samples. By this
#: estimate, "exact" raises an error if it would take more than a day, and a fit warns if it may
#: take more than ten minutes.
EXACT_NANOSECONDS = (1.0, 6.0, 40.0)
MAX_EXACT_SECONDS, LONG_EXACT_SECONDS = 86_400.0, 600.0

#: Largest number of variables of a table factor in the kernels for 0/1 variables, because each
#: message visits all 2^6 entries of the table. OR and AND factors may have any number of variables.
MAX_TABLE_VARIABLES = 6

#: Largest total number of entries in the tables of a model's cliques (512 MB). The table of
#: a clique of k variables has 2^k entries.
MAX_CLIQUE_ENTRIES = 2**26

#: Largest number of entries of the table that replaces an OR or AND factor in a graph with
#: categorical variables. The kernels for such graphs support only tables.
MAX_LOGIC_TABLE = 2**16

#: Default of `max_entries`, the largest number of entries of a table that variable elimination
#: makes (128 MB), and the largest total size of the tables that it keeps in memory, as a multiple
#: of `max_entries`.
MAX_ELIMINATED_ENTRIES, MAX_KEPT_TABLES = 2**24, 16

#: Limits up to which method="auto" of `infer` chooses "exact": number of entries of the largest
#: table (512 MB) and of all tables of a model (2 GB; messages and work need as much again), and the
#: estimated seconds on a single core. They do not depend on the machine or its free memory, so that
#: the choice is the same everywhere.
AUTO_TABLE_ENTRIES, AUTO_ALL_ENTRIES, AUTO_SECONDS = 2**26, 2**28, 20.0

#: Largest number of entries of a matrix that is made of sparse couplings (1 GB). Searches for
#: labels read couplings from a matrix; for larger models an error is raised.
MAX_MATRIX_ENTRIES = 2**27

#: Limits for files of factor graphs: number of entries of all arrays (512 MB), size of the text in
#: bytes, and number of variables of a table (NumPy 1 allows 32 axes).
MAX_FILE_ENTRIES, MAX_FILE_BYTES, MAX_FILE_SCOPE = 2**26, 2**30, 32

# -------------------------------------------------------- numbers of training rows

#: Least number of rows for a search of the penalty by validation. Its five folds then have at least
#: eight rows.
MIN_SEARCH_ROWS = 40

#: Largest product of rows, columns and outputs for which stochastic training searches for its
#: penalty, by fits of the model without hidden units. The search makes some hundred evaluations and
#: takes about ten seconds at this size.
CONVEX_PATH_ENTRIES = 2**29

#: Largest product of three numbers: rows, outputs, and states of the hidden units. If the
#: product is larger, the search for the penalty of models with hidden units uses a sample of the
#: rows, and L-BFGS stops at a larger tolerance. An evaluation takes about a second at this size:
#: 4200 rows with 1000 outputs and 8 hidden units.
HIDDEN_STATES = 2**30

#: L-BFGS fits a model without hidden units to the usual tolerance if all rows together have at most
#: this number of labels. An evaluation takes some tenths of a second at this size.
LARGE_CONVEX_LABELS = 2**22

# ----------------------------------------------------------- sizes of blocks of work

#: Largest number of chunks of rows in message passing, because each chunk needs its own arrays of
#: statistics.
MAX_CHUNKS = 16

#: Number of rows that a kernel for small models gets in a call, large enough that the cost of the
#: call itself does not matter.
ROWS_PER_CHUNK = 64

#: Number of rows that a kernel of layered models processes together. Its scratch space then stays
#: in the L1 cache.
LAYERED_CHUNK_ROWS = 64

#: Number of rows in a vector instruction of the kernels of layered models.
VECTOR_ROWS = 8

#: If a weight matrix of sparse inputs has at least this number of entries, a training step updates
#: only the rows of the matrix that belong to nonzero inputs of its batch. A smaller matrix stays in
#: the caches of the processor, so it is quicker to update all rows than to find these rows.
ROW_SPARSE_WEIGHTS = 2**21

#: Largest temporary array, in entries, that stays in the L2 cache.
CACHED_ENTRIES = 2**16

#: Number of entries of a block of rows in NumPy computations (16 MB in float64).
BLOCK_ENTRIES = 2**21

#: Bytes that all trees which are fitted at the same time may take together, in a forest of compact
#: trees (`ensemble/_compact_forest.py`). If the trees are larger, fewer trees are fitted at the
#: same time. A single tree may exceed this size.
TREE_BYTES = 2**30

#: Largest number of log-weights in the chains that are computed together: about two megabytes,
#: which fit into the cache.
CHAIN_ENTRIES = 2**18

#: Largest number of rows for which a fit with more columns than rows works in the space spanned by
#: the rows. The N x N matrix then takes up to 70 MB, and its factorisation a second.
ROTATED_ROWS = 3000

#: Largest total number of units of the Markov chains that are advanced together.
CHAIN_UNITS = 2**18

# ------------------------------------------------------------ ranges, tolerances

#: Default number of samples for an estimate of log Z.
ESTIMATE_SAMPLES = 1000

#: Default `max_iter` in `infer`.
MAX_ITER = 100

#: Default tolerances of `infer` and of estimators. A model has converged if no belief, a
#: probability, changes by more than the tolerance. 1e-3 is accurate enough for estimators,
#: as in Ping and Ihler (2017).
INFER_TOL, ESTIMATOR_TOL = 1e-6, 1e-3

#: Largest |log| of a product of messages for each dtype, at a safe distance from overflow.
LOG_RANGE = {np.dtype(np.float32): 80.0, np.dtype(np.float64): 400.0}

#: Largest magnitude of a field, coupling or log-potential in `infer`. A sum of 10^8 such values
#: does not overflow in float32.
MAX_MAGNITUDE = 1e30

#: `infer` clamps a variable if its field has at least this magnitude and determines the state of
#: the variable, whatever the other variables are. Sums with the field would lose significant
#: digits: at this value float64 keeps seven decimals.
LARGE_FIELD = 1e9

#: A field of a larger magnitude raises an error in `infer`, unless the field determines the state
#: of its variable, so that the variable can be clamped. For example, it does not determine the
#: state if another state of the node has an equal field. At this value the rounding error of
#: log-weights is 1e-6.
UNDECIDED_FIELD = 1e10

#: Penalty in Gibbs sampling for a value that a factor forbids, used if both values of a variable
#: are forbidden given the other variables. Each factor then adds this number to the log-odds
#: against the value that it forbids, so that a chain that starts at an impossible state can leave
#: it.
FORBIDDEN_LOG_ODDS = 10.0

#: Relative difference up to which two values count as equal, so that rounding does not decide
#: between label vectors or thresholds.
TIE = 1e-12
