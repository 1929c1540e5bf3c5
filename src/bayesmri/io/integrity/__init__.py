"""Files that prove themselves: replaced without a gap, sealed by checksums, known as a set."""
