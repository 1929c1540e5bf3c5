"""ISMRMRD/MRD HDF5: lines with flags and counters, sorted into k-space."""
