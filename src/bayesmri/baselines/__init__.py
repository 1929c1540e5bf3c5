"""The methods our model is compared with, behind one interface: k-space and mask in, coil images out."""
