"""From k-space to an image, a standard deviation and files."""
