"""What the computer is: its devices and its memory."""
