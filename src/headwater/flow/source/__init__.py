"""Records of the log as typed Arrow, and the Spark data source `headwater` that hands them over."""
