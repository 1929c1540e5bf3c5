"""Pictures of results; the only place that imports matplotlib."""
