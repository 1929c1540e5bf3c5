"""DICOM out: a reconstruction as an MR series and Parametric Maps."""
