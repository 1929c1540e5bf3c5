"""Results on disk: HDF5 in fastMRI's layout, NIfTI, PNG; every file appears whole or not at all."""
