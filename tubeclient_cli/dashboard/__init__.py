"""`tubeclient dashboard`: a page of what `tubeclient offsets status` says."""
