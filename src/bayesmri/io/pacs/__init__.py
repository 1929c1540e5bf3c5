"""DICOM files to an archive: by C-STORE, or over the web."""
