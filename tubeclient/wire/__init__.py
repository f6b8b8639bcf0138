"""TubeMQ's bytes: frames, envelopes, messages and the strings inside them. Pure functions; no sockets, no policy."""
