"""Our client beside Apache's Java client, on Apache's own servers."""
