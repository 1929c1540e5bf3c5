"""Many files in one go: found, skipped where they are finished, reconstructed, listed."""
