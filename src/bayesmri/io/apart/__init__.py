"""Files from strangers are read in a child process: what crashes HDF5 ends the child, and not the command."""
