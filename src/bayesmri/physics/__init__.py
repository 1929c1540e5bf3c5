"""The measurement: z = M_R F y + ν (eq. 2), its adjoint, its prox, coils and masks."""
