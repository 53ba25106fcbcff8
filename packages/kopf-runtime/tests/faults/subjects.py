"""The operator under the faults of the conformance suite."""

from faults.holders import Stores

STORE = Stores()
SUBJECTS = (STORE,)
