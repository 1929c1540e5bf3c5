"""Learning T and θ: min E J(x_S(z, T, θ), Y) (eq. 5 and 6), from a configuration to checkpoints."""
