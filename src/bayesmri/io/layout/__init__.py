"""What an array of k-space is: its numbers, axes, centre, acquired lines and encoded extent."""
