"""Distributions of the weights θ: Delta (deterministic) and BlockGaussian, N(μ, LLᵀ) over the kernels."""
