"""Files in and out: readers, writers, what is checked before a byte is believed, and what is recorded."""
