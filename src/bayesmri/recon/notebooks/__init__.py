"""A reconstruction that shows itself."""
