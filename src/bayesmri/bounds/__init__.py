"""Error bounds: their value, and how conformal risk control finds them."""
