"""Learning T and θ: min E J(x_S(z, T, θ), Y) (eq. 5 and 6; eq. 8 if θ ~ N(μ, LLᵀ)), from configuration to weights."""
