"""What identifies a patient: found in files, and left out of them."""
