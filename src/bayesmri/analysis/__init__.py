"""What reconstructions and their standard deviations are worth: pure functions of arrays and weights."""
