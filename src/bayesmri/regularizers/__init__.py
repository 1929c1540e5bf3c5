"""R(x, θ): total deep variation, fields of experts and smoothed total variation behind one interface."""
