"""Files in: every reader returns a `KSpace` or an `Images`, checked and finite, in NumPy (torch is imported later)."""
