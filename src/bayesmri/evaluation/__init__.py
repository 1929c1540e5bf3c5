"""Comparing, calibrating and publishing models."""
