"""The application in the browser: a server on this machine, and children that read, reconstruct and answer."""
