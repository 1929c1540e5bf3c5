"""Slices and blocks of samples that other processes make."""
