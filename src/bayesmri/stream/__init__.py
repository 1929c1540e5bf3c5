"""Scanners and clients by the MRD streaming protocol: lines come in, images go back while others still arrive."""
