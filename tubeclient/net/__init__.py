"""The thin shell around the flows: sockets, threads, real time, HTTP."""
