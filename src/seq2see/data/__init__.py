"""Files to batches: readers, the doctor, batching, and the built-in corpora."""
