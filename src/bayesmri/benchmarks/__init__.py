"""Speed as ratios within one run, and the rivals it is measured against."""
