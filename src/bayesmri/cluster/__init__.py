"""Jobs on other processes and machines, by Dask."""
